"""Plans of node pools that go from a Device Plugin to DRA: their stages, and what was done and signed."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from inventory.models import Cluster
from portal.accounts.models import User


class PoolPlan(models.Model):
    """One node pool: by which labels its nodes and its canary's are known, what the Device Plugin calls its
    units, and which class and driver its devices have by DRA."""

    class Stage(models.TextChoices):
        INVENTORY = "inventory", _("inventory")
        CANARY = "canary", _("canary")
        DUAL = "dual", _("dual")
        MIGRATED = "migrated", _("migrated")

    class Way(models.TextChoices):
        UNDECIDED = "", _("not decided")
        DRA = "dra", _("DRA")
        PLUGIN = "device-plugin", _("Device Plugin")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    # What people call the pool.
    name = models.CharField(max_length=63)
    # As in the API. Nodes with the canary's labels are its own, whatever other labels they have; {} = no
    # canary.
    labels = models.JSONField(default=dict)
    canary_labels = models.JSONField(default=dict)
    extended_resource = models.CharField(max_length=317)
    device_class = models.CharField(max_length=253)
    # "" = any driver of the vendor of the extended resource.
    driver = models.CharField(max_length=63, blank=True)
    # What it is to become, and the written reason of the business for it.
    way = models.CharField(max_length=14, choices=Way.choices, blank=True)
    reason = models.CharField(max_length=4000, blank=True)
    stage = models.CharField(max_length=10, choices=Stage.choices, default=Stage.INVENTORY)
    # Counts changes: who saves an older one is told of the conflict.
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_plan_per_pool"),
            models.CheckConstraint(
                condition=Q(stage="inventory") | (~Q(reason="") & ~Q(way="")),
                name="no_canary_without_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} on {self.cluster}"


class PoolPlanEntry(models.Model):
    """Something that was done about a pool: never changed."""

    class Kind(models.TextChoices):
        STAGE = "stage", _("stage")
        SWITCH = "switch", _("flavors switched")
        UNDO = "undo", _("switch rolled back")

    plan = models.ForeignKey(PoolPlan, models.CASCADE, related_name="entries")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    at = models.DateTimeField()
    person = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    why = models.CharField(max_length=1000)
    # Of a stage: {"from", "to"}. Of a switch: {"places": [{"id", "flavor", "pool", "from", "to"}]}; of one
    # that was rolled back besides {"undoes": its key}.
    facts = models.JSONField(default=dict)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["plan", "-at"], name="pool_plan_history")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.plan_id}"


class PoolSignature(models.Model):
    """Somebody's word that a point of the checklist is settled, or (`settled` false) no longer is. The latest
    one of a point counts."""

    plan = models.ForeignKey(PoolPlan, models.CASCADE, related_name="signatures")
    # One of `claims.poolmoves.checklist.ITEMS`.
    item = models.CharField(max_length=40)
    settled = models.BooleanField(default=True)
    note = models.CharField(max_length=1000)
    person = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["plan", "item", "-at"], name="pool_signatures")]

    def __str__(self) -> str:
        return f"{self.item} of {self.plan_id}"
