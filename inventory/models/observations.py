"""Observations: the append-only source of truth for history."""

from typing import ClassVar

from django.db import models

from inventory.models.clusters import Cluster


class Observation(models.Model):
    """One fact seen on a cluster. Written in the transaction that changed the mirror, never changed."""

    class Kind(models.TextChoices):
        CLAIM_CREATED = "claim-created"
        # facts: {"epoch", "node", "devices": [{driver, pool, device, request, share_id, admin_access,
        #         consumed_capacity, hardware_id, profile (digest), capacity, counters}]}
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
        POD_SCHEDULED = "pod-scheduled"
        POD_FINISHED = "pod-finished"
        DEVICE_APPEARED = "device-appeared"
        DEVICE_GONE = "device-gone"
        DEVICE_TAINTED = "device-tainted"
        DEVICE_UNTAINTED = "device-untainted"
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

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="observations")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    # When it happened, as far as known, and from where we know it.
    at = models.DateTimeField()
    source = models.CharField(max_length=20, choices=Source.choices)
    # It happened within [at - uncertainty, at].
    uncertainty_us = models.BigIntegerField(default=0)
    observed_at = models.DateTimeField()
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64, db_index=True)
    facts = models.JSONField(default=dict)
    # Natural key: the same fact seen twice is one row.
    key = models.CharField(max_length=200)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "key"], name="one_observation_per_fact")
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "id"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
