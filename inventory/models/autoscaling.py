"""What a cluster's autoscalers say of the node groups that they scale."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster


class AutoscalerReport(models.Model):
    """What one source said when it was read last. A source that may not be read, or is not there, is not
    known; that is no error."""

    class Source(models.TextChoices):
        CLUSTER_AUTOSCALER = "cluster-autoscaler", _("cluster-autoscaler")
        CLUSTER_API = "cluster-api", _("Cluster API")
        KARPENTER = "karpenter", _("Karpenter")

    class State(models.TextChoices):
        KNOWN = "known", _("known")
        ABSENT = "absent", _("not there")
        FORBIDDEN = "forbidden", _("the desk may not read it")
        UNREADABLE = "unreadable", _("not in a form that the desk knows")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="autoscaler_reports")
    source = models.CharField(max_length=20, choices=Source.choices)
    state = models.CharField(max_length=10, choices=State.choices)
    # As `inventory.autoscaling.groups.Group` has them.
    groups = models.JSONField(default=list)
    # When the desk read it, and when the source wrote it; null = it does not say.
    read_at = models.DateTimeField()
    written_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "source"], name="one_report_per_autoscaler")
        ]

    def __str__(self) -> str:
        return f"{self.cluster}: {self.source}"
