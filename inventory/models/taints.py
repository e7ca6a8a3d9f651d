"""Taints that the desk keeps: rules it made, planned maintenance, and nodes that are being emptied for it."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster
from portal.accounts.models import Project, User

NO_SCHEDULE, NO_EXECUTE, NONE = "NoSchedule", "NoExecute", "None"


class Effect(models.TextChoices):
    """What a taint of a device does, as the API spells it."""

    NONE = NONE, _("None: shown only")
    NO_SCHEDULE = NO_SCHEDULE, _("NoSchedule: nobody new")
    NO_EXECUTE = NO_EXECUTE, _("NoExecute: Pods are evicted")


class Place(models.Model):
    """A part of a cluster: all of it, a pool, a node, or single devices."""

    class Scope(models.TextChoices):
        CLUSTER = "cluster", _("the whole cluster")
        POOL = "pool", _("a pool")
        NODE = "node", _("a node")
        DEVICES = "devices", _("single devices")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    scope = models.CharField(max_length=8, choices=Scope.choices)
    # Of a pool.
    driver = models.CharField(max_length=63, blank=True)
    pool_name = models.CharField(max_length=253, blank=True)
    node_name = models.CharField(max_length=253, blank=True)
    # [{"driver", "pool", "device"}] of single devices: by name, since rows of the mirror come and go.
    devices = models.JSONField(default=list)

    class Meta:
        abstract = True


class Maintenance(Place):
    """A time in which a part of a cluster is not to be counted on, and the taint that says so there."""

    class State(models.TextChoices):
        PLANNED = "planned", _("planned")
        ACTIVE = "active", _("under way")
        # Its time is over, but the cluster could not be told yet.
        ENDING = "ending", _("ending")
        ENDED = "ended", _("over")
        CANCELLED = "cancelled", _("cancelled")
        # The desk did not run during any of it.
        MISSED = "missed", _("missed")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    # "" = nothing is tainted.
    effect = models.CharField(max_length=12, choices=Effect.choices, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.PLANNED)
    # Counts changes: who changes it says which one they saw.
    version = models.IntegerField(default=1)
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # Why the cluster could not be brought to what is wanted; it is tried again.
    problem = models.CharField(max_length=1000, blank=True)
    tried_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["state", "starts_at"], name="maintenance_due"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=models.F("starts_at")), name="maintenance_takes_time"
            )
        ]

    def __str__(self) -> str:
        return self.reason


class Drain(Place):
    """A node, or devices, on the way from being used to being empty, and back."""

    class State(models.TextChoices):
        OPEN = "open", _("being prepared")
        ASKED = "asked", _("holders are asked")
        CLOSED = "closed", _("closed for newcomers")
        EVICTING = "evicting", _("Pods are evicted")
        EMPTY = "empty", _("confirmed empty")
        MAINTENANCE = "maintenance", _("under maintenance")
        # Back in service.
        DONE = "done", _("back in service")
        CANCELLED = "cancelled", _("cancelled")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    reason = models.CharField(max_length=500)
    # Until when holders are asked to be gone.
    wanted_by = models.DateTimeField(null=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.OPEN)
    version = models.IntegerField(default=1)
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    # When nothing held anything, and what the desk saw then: as of when, and up to which versions.
    empty_at = models.DateTimeField(null=True)
    evidence = models.JSONField(default=dict)
    maintenance = models.ForeignKey(Maintenance, models.SET_NULL, null=True, related_name="drains")
    problem = models.CharField(max_length=1000, blank=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["state"], name="drain_state")]

    def __str__(self) -> str:
        return self.reason


class DrainHolder(models.Model):
    """Somebody's claim (or Pod with counted units) on what is being emptied, and what they answered."""

    class Answer(models.TextChoices):
        NONE = "", _("no answer yet")
        BY = "by", _("will be done by then")
        DONE = "done", _("is done")
        CANNOT = "cannot", _("cannot leave")

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    drain = models.ForeignKey(Drain, models.CASCADE, related_name="holders")
    namespace = models.CharField(max_length=63)
    # Of the claim, or of the Pod where units are only counted.
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    counted = models.BooleanField(default=False)
    # ["gpu-0"], or ["2 × nvidia.com/gpu"]; and the names of its Pods.
    things = models.JSONField(default=list)
    pods = models.JSONField(default=list)
    project = models.ForeignKey(Project, models.SET_NULL, null=True, related_name="+")
    # The request of the desk behind it.
    request_key = models.UUIDField(null=True)
    held_until = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)
    answer = models.CharField(max_length=6, choices=Answer.choices, blank=True)
    answer_by = models.DateTimeField(null=True)
    answer_note = models.CharField(max_length=500, blank=True)
    answered_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    answered_at = models.DateTimeField(null=True)
    # When the mirror, in step, first saw that it holds nothing here any more.
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["drain", "uid"], name="one_holder_per_object_of_a_drain")
        ]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class UpkeepEvent(models.Model):
    """What happened to a maintenance or a drain; rows are only added. `what` is a code, `note` its words."""

    maintenance = models.ForeignKey(Maintenance, models.CASCADE, null=True, related_name="events")
    drain = models.ForeignKey(Drain, models.CASCADE, null=True, related_name="events")
    at = models.DateTimeField()
    # None = the desk itself.
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    what = models.CharField(max_length=20)
    note = models.CharField(max_length=1000, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["maintenance", "id"], name="upkeep_of_maintenance"),
            models.Index(fields=["drain", "id"], name="upkeep_of_drain"),
        ]


class DeskRule(models.Model):
    """A DeviceTaintRule that the desk made: for whom and why. The name outlives the rule; a row without
    `removed_at` is a rule that is there, or might be."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, blank=True)
    effect = models.CharField(max_length=12)
    reason = models.CharField(max_length=1000, blank=True)
    # None: made by the desk at the time that somebody had planned.
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    made_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)
    maintenance = models.ForeignKey(Maintenance, models.SET_NULL, null=True, related_name="rules")
    drain = models.ForeignKey(Drain, models.SET_NULL, null=True, related_name="rules")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "name"], condition=Q(removed_at=None), name="one_living_desk_rule_per_name"
            )
        ]

    def __str__(self) -> str:
        return self.name
