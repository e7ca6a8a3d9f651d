"""The ledger: who held which device (or share of it) from when to when. A fold over observations that can be
thrown away and rebuilt."""

from datetime import timedelta
from fractions import Fraction
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from claims.models.requests import Request
from inventory.models import Cluster
from portal.accounts.models import Project
from portal.sql import Microseconds


class Bound(models.TextChoices):
    """Which bound of an uncertain time counts."""

    # A start as late and an end as early as it can have been.
    TENANT = "tenant", _("in favour of who pays")
    OPERATOR = "operator", _("in favour of who operates")


def lasting(longer_than: timedelta) -> Q:
    """Intervals that last longer than that, or are not over."""
    return Q(ended_us=None) | Q(ended_us__gt=F("started_us") + longer_than // timedelta(microseconds=1))


# What touches a period began so much earlier at most, but for the few that last longer: they are found apart.
DAYS, MONTHS = timedelta(days=2), timedelta(days=30)


class Allocation(models.Model):
    """One device (or share of it) held by one claim for the half-open interval [started_at, ended_at).

    Or units of a Device Plugin that one Pod had, which nobody can name: then `claim_uid` and `claim_name` are
    the Pod's, `driver` and `device_name` the two parts of the resource, and `pool_name` the node."""

    class Kind(models.TextChoices):
        CLAIM = "claim", _("claim")
        UNITS = "units", _("units of a Device Plugin")

    kind = models.CharField(max_length=6, choices=Kind.choices, default=Kind.CLAIM)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="allocations")
    namespace = models.CharField(max_length=63)
    claim_name = models.CharField(max_length=253)
    claim_uid = models.CharField(max_length=64)
    epoch = models.IntegerField()
    driver = models.CharField(max_length=63)
    pool_name = models.CharField(max_length=253)
    device_name = models.CharField(max_length=63)
    share_id = models.CharField(max_length=64, blank=True)
    request_name = models.CharField(max_length=130)
    admin_access = models.BooleanField(default=False)
    node_name = models.CharField(max_length=253, blank=True)

    # As they were when it was allocated; later changes of the mirror do not touch them.
    hardware_id = models.CharField(max_length=128, blank=True)
    device_class = models.CharField(max_length=253, blank=True)
    product = models.CharField(max_length=128, blank=True)
    profile_digest = models.CharField(max_length=64, blank=True)
    consumed_capacity = models.JSONField(default=dict)
    capacity = models.JSONField(default=dict)
    # What a partition draws on: {"set/counter": {"used": "1", "total": "8"}}.
    counters = models.JSONField(default=dict)
    # How many units, and how many of them share one piece of hardware: 1 and 1 for what a claim holds.
    units = models.IntegerField(default=1)
    replicas = models.IntegerField(default=1)
    # "nvidia.com/gpu": whose units they are, or what a claim was made for by the scheduler.
    extended_resource = models.CharField(max_length=317, blank=True)

    started_at = models.DateTimeField()
    start_source = models.CharField(max_length=20)
    start_uncertainty_us = models.BigIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    end_source = models.CharField(max_length=20, blank=True)
    end_uncertainty_us = models.BigIntegerField(default=0)
    # With "tenant" it began within [started_at - start_uncertainty, started_at] and ended within [ended_at,
    # ended_at + end_uncertainty]; with "operator" within [started_at, started_at + start_uncertainty] and
    # [ended_at - end_uncertainty, ended_at].
    bound = models.CharField(max_length=8, choices=Bound.choices, default=Bound.TENANT)
    # So much was taken off the end, since the next allocation of the device began before: clocks that differ
    # by a moment, and times in whole seconds, do not make two holders of one device.
    end_cut_us = models.BigIntegerField(default=0)
    # Another claim held the exclusive device already: two holders were observed, which should not be.
    contested = models.BooleanField(default=False)
    # The same two times as integers, which databases add up exactly and quickly.
    started_us = models.GeneratedField(
        expression=Microseconds("started_at"), output_field=models.BigIntegerField(), db_persist=True
    )
    ended_us = models.GeneratedField(
        expression=Microseconds("ended_at"), output_field=models.BigIntegerField(null=True), db_persist=True
    )

    # Who pays: the request matched by object uid, else the namespace's binding when it started, else null.
    request = models.ForeignKey(Request, models.SET_NULL, null=True, related_name="allocations")
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="allocations")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=[
                    "cluster",
                    "claim_uid",
                    "epoch",
                    "driver",
                    "pool_name",
                    "device_name",
                    "share_id",
                    "request_name",
                ],
                name="allocation_natural_key",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(ended_at__gte=F("started_at")), name="allocation_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(units__gte=1, replicas__gte=1), name="allocation_units_positive"
            ),
            # And that exclusive intervals do not overlap: `claims.ledger.exclusion`.
        ]
        indexes: ClassVar = [
            models.Index(fields=["project", "started_at"]),
            models.Index(fields=["cluster", "driver", "pool_name", "device_name", "started_at"]),
            models.Index(fields=["hardware_id", "started_at"]),
            models.Index(fields=["node_name", "started_at"], name="allocation_by_node"),
            models.Index(fields=["device_name", "started_at"], name="allocation_by_device"),
            models.Index(fields=["started_at"]),
            models.Index(fields=["ended_at"]),
            # Everything that a month's sums need, in the order in which they are grouped.
            models.Index(
                fields=[
                    *("project", "device_class", "product", "share_id", "admin_access"),
                    *("started_us", "ended_us"),
                ],
                name="allocation_time_by_kind",
            ),
            # And for those of shares, few and far apart in the table.
            models.Index(
                fields=["project", "device_class", "product", "started_us", "ended_us"],
                condition=~Q(share_id=""),
                name="allocation_shares_by_kind",
            ),
            # Where no request tells the payer, the namespace does: whose it was at the time is looked up.
            models.Index(
                fields=["namespace", "project", "admin_access", "started_at", "ended_us"],
                condition=Q(request=None),
                name="allocation_of_no_request",
            ),
            # What touches a period, though it began long before: `claims.history.spans`.
            models.Index(fields=["started_at"], condition=lasting(DAYS), name="allocation_of_days"),
            models.Index(fields=["started_at"], condition=lasting(MONTHS), name="allocation_of_months"),
            # Two holders of one device: few, it is hoped.
            models.Index(fields=["cluster"], condition=Q(contested=True), name="allocation_contested"),
        ]

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool_name}/{self.device_name} by {self.namespace}/{self.claim_name}"

    @property
    def pieces(self) -> Fraction:
        """How many pieces of hardware the units are: 1 for what a claim holds, be it a share of it."""
        return Fraction(self.units, self.replicas)


class Consumer(models.Model):
    """A Pod (or PodGroup) that reserved the claim during an allocation; for information, never billed."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    claim_uid = models.CharField(max_length=64)
    epoch = models.IntegerField()
    resource = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    joined_at = models.DateTimeField()
    left_at = models.DateTimeField(null=True)
    # Its containers that use the claim: [[name, request of the claim or "" for all of it]]; null = not known.
    containers = models.JSONField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "claim_uid", "epoch", "uid"], name="consumer_natural_key"
            )
        ]
        indexes: ClassVar = [
            # What a Pod had.
            models.Index(fields=["uid"], name="consumer_uid"),
            models.Index(fields=["name"], name="consumer_name"),
        ]


class LedgerCursor(models.Model):
    """Up to which observation of a cluster the ledger has been folded."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="ledger_cursor")
    observation_id = models.BigIntegerField(default=0)
    # How often rows of the ledger were written: who has seen this number has seen everything.
    changes = models.BigIntegerField(default=0)
