"""What a DeviceClass was, version by version: who made it so and why, or that nobody told the desk."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class ClassVersion(models.Model):
    """One version of a class on one cluster: its rules (the spec), labels and annotations. The order of
    keys is the order of versions. The name outlives the class: what was deleted can be made anew."""

    class Source(models.TextChoices):
        FIRST = "first", _("found when the desk first looked")
        DESK = "desk", _("by the desk")
        SEEN = "seen", _("changed without the desk")
        ADOPTED = "adopted", _("adopted as it was")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="class_versions")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=63)
    resource_version = models.CharField(max_length=63)
    at = models.DateTimeField()
    source = models.CharField(max_length=10, choices=Source.choices)
    # The class was deleted; `spec` is what it was until then.
    deleted = models.BooleanField(default=False)
    # Normalised to resource.k8s.io/v1.
    spec = models.JSONField()
    # Null in versions from before labels were kept. Annotations that tools keep for themselves are left out.
    labels = models.JSONField(null=True)
    annotations = models.JSONField(null=True)
    # Only where the desk wrote or somebody adopted.
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    reason = models.CharField(max_length=1000, blank=True)
    # What was reviewed, where the desk wrote.
    proposal = models.ForeignKey("ClassProposal", models.SET_NULL, null=True, related_name="versions")

    class Meta:
        constraints: ClassVar = [
            # What the desk writes comes back through the watch, sooner or later than it is noted.
            models.UniqueConstraint(
                fields=["cluster", "uid", "resource_version", "deleted"],
                condition=~Q(source="adopted"),
                name="one_class_version_per_write",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "name", "id"], name="class_history")]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name} ({self.source})"
