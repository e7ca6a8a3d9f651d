"""The ledger: who held which device (or share of it) from when to when. A fold over observations that can be
thrown away and rebuilt."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from claims.models.requests import Request
from inventory.models import Cluster
from portal.accounts.models import Project
from portal.sql import Microseconds


class Allocation(models.Model):
    """One device (or share of it) held by one claim for the half-open interval [started_at, ended_at)."""

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

    started_at = models.DateTimeField()
    start_source = models.CharField(max_length=20)
    start_uncertainty_us = models.BigIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    end_source = models.CharField(max_length=20, blank=True)
    # The end lies within [ended_at, ended_at + end_uncertainty_us]: the earlier bound is billed.
    end_uncertainty_us = models.BigIntegerField(default=0)
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
        ]

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool_name}/{self.device_name} by {self.namespace}/{self.claim_name}"


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

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "claim_uid", "epoch", "uid"], name="consumer_natural_key"
            )
        ]


class LedgerCursor(models.Model):
    """Up to which observation of a cluster the ledger has been folded."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="ledger_cursor")
    observation_id = models.BigIntegerField(default=0)
