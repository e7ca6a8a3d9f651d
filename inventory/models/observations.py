"""Observations: the append-only source of truth for history."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from inventory.models.clusters import Cluster

# Kinds that are asked for by time: how many devices there were, and when claims were made.
CHARTED = (
    *("device-appeared", "device-gone", "device-unavailable", "device-available"),
    *("gap", "claim-created", "claim-deleted"),
)
# Kinds whose key begins with the name of a device.
OF_DEVICES = (
    *("device-appeared", "device-gone", "device-tainted", "device-untainted"),
    *("device-unavailable", "device-available"),
)


class Observation(models.Model):
    """One fact seen on a cluster. Written in the transaction that changed the mirror, never changed."""

    class Kind(models.TextChoices):
        CLAIM_CREATED = "claim-created"
        # facts: {"epoch", "node", "devices": [{driver, pool, device, request, share_id, admin_access,
        #         consumed_capacity, hardware_id, profile (digest), capacity,
        #         counters: {"set/counter": {"used", "total"}}}]}
        CLAIM_ALLOCATED = "claim-allocated"
        # facts: {"epoch", "device": {…}}: what was not known of a device when its allocation was observed,
        # since its slice came later; of the same form as there.
        ALLOCATION_DETAILED = "allocation-detailed"
        # facts: {"epoch"}; the allocation was cleared, the claim lives on.
        CLAIM_RELEASED = "claim-released"
        # facts: {"epoch"} (0 = was not allocated).
        CLAIM_DELETED = "claim-deleted"
        # facts: {"epoch", "consumer": {"resource", "name", "uid"}}.
        CONSUMER_JOINED = "consumer-joined"
        CONSUMER_LEFT = "consumer-left"
        # facts: {"node", "claims", "extended": {resource: count}, "units": [{"resource", "product", "vendor",
        #         "kind", "sharing", "replicas", "memory_bytes"}]}: what the labels of the node say of units.
        POD_SCHEDULED = "pod-scheduled"
        # facts: {"units": […]}: what was not known of a node when a Pod was seen on it.
        POD_DETAILED = "pod-detailed"
        # A claim that the scheduler made for a Pod's extended resources: the Pod's status names it and it is
        # owned by the Pod. Told of both. facts: {"pod", "claim" (uids), "resources": {request: resource}}.
        EXTENDED_CLAIM = "extended-claim"
        POD_FINISHED = "pod-finished"
        DEVICE_APPEARED = "device-appeared"
        DEVICE_GONE = "device-gone"
        DEVICE_TAINTED = "device-tainted"
        DEVICE_UNTAINTED = "device-untainted"
        # facts: the device's, and {"reason", "was"}: why a device that nobody holds cannot be had from now
        # on, and why it could not before ("" = it could). Partitions that merely make room for each other
        # are not told of.
        DEVICE_UNAVAILABLE = "device-unavailable"
        # facts: the device's, and {"was"}.
        DEVICE_AVAILABLE = "device-available"
        NODE_DOWN = "node-down"
        NODE_UP = "node-up"
        # The time between facts["from"] and `at` was not covered by a live watch of facts["resource"].
        GAP = "gap"

    class Source(models.TextChoices):
        ALLOCATION = "allocationTimestamp"
        MANAGED_FIELDS = "managedFields"
        CREATION = "creationTimestamp"
        DELETION = "deletionTimestamp"
        CONDITION = "condition"
        POD = "pod"
        OBSERVED = "observed"

    # Two indexes begin with it.
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="observations", db_index=False)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    # When it happened, as far as known, and from where we know it.
    at = models.DateTimeField()
    source = models.CharField(max_length=20, choices=Source.choices)
    # It happened within [at - uncertainty, at].
    uncertainty_us = models.BigIntegerField(default=0)
    observed_at = models.DateTimeField()
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    facts = models.JSONField(default=dict)
    # Natural key: the same fact seen twice is one row.
    key = models.CharField(max_length=200)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "key"], name="one_observation_per_fact")
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "id"]),
            # Never searched by a part of it, which `db_index` would keep a second index for.
            models.Index(fields=["uid"], name="observation_uid"),
            # What charts go through, period by period; few among all.
            models.Index(fields=["kind", "at"], condition=Q(kind__in=CHARTED), name="observation_charted"),
            # What became of one device: their keys begin with its name.
            models.Index(
                fields=["cluster", "key"],
                condition=Q(kind__in=OF_DEVICES),
                opclasses=["int8_ops", "varchar_pattern_ops"],
                name="observation_of_device",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
