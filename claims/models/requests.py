"""A request: one ask by one person for one project, and the objects that it created."""

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from inventory.models import Cluster
from portal.accounts.models import Project, User


class Request(models.Model):
    class State(models.TextChoices):
        # What the desk knows by itself.
        SUBMITTED = "submitted", _("submitted")
        CREATING = "creating", _("being created")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")
        # What the cluster reports.
        WAITING_FOR_POD = "waiting-for-pod", _("waiting for a Pod")
        WAITING_FOR_DEVICE = "waiting-for-device", _("waiting for a device")
        ALLOCATED = "allocated", _("allocated")
        IN_USE = "in-use", _("in use")
        ENDING = "ending", _("ending")
        ENDED = "ended", _("released")

    class Shape(models.TextChoices):
        CLAIM = "claim", _("shared claim: Pods join one ResourceClaim")
        TEMPLATE = "template", _("template: every Pod gets a claim of its own")

    # What URLs and object names carry; reveals neither order nor number.
    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="requests")
    requester = models.ForeignKey(User, models.PROTECT, related_name="requests")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="requests")
    namespace = models.CharField(max_length=63)

    device_class = models.CharField(max_length=253)
    count = models.PositiveIntegerField()
    # A Kubernetes quantity such as "40Gi"; "" = any.
    min_memory = models.CharField(max_length=32, blank=True)
    shape = models.CharField(max_length=10, choices=Shape.choices)
    duration = models.DurationField()
    purpose = models.CharField(max_length=1000)

    state = models.CharField(max_length=20, choices=State.choices, default=State.SUBMITTED)
    # Why it is in that state, in the cluster's words (scheduler event, API error); "" = nothing to say.
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    # The object on the cluster: a ResourceClaim or a ResourceClaimTemplate by shape.
    object_name = models.CharField(max_length=253)
    object_uid = models.CharField(max_length=64, blank=True)
    # A hold is asked for by the person and kept by the desk until release.
    hold_wanted = models.BooleanField(default=False)
    hold_pod_uid = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "namespace", "object_name"], name="one_request_per_object"
            ),
            models.CheckConstraint(condition=models.Q(count__gte=1), name="request_count_positive"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "object_uid"]),
            models.Index(fields=["project", "state"]),
        ]

    def __str__(self) -> str:
        return self.object_name
