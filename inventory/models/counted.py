"""What Device Plugins advertise: units that are counted and never named."""

from typing import ClassVar

from django.db import models

from inventory.models.clusters import Cluster


class CountedUnits(models.Model):
    """The units of one extended resource on one node, with what the node's labels say about them."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="counted_units")
    node_name = models.CharField(max_length=253)
    # "nvidia.com/gpu".
    resource = models.CharField(max_length=317)
    vendor = models.CharField(max_length=63, blank=True)
    # Never empty: at least the name of the resource.
    product = models.CharField(max_length=128)
    kind = models.CharField(max_length=32)
    memory_bytes = models.BigIntegerField(null=True)
    # How several units share a piece of hardware ("time-slicing", "mps", "mig", …), and how many do.
    sharing = models.CharField(max_length=63, blank=True)
    replicas = models.IntegerField(default=1)
    mig_strategy = models.CharField(max_length=32, blank=True)
    capacity = models.IntegerField()
    allocatable = models.IntegerField()
    # What unfinished Pods ask for; null where the cluster's Pods are not seen.
    used = models.IntegerField(null=True)
    # What is left on a node that takes Pods, and what nobody can have. With `used` they make up `capacity`.
    free = models.IntegerField(default=0)
    unavailable = models.IntegerField(default=0)
    # A DRA driver of the same vendor publishes devices of this node, too: the same hardware, seen twice.
    both_ways = models.BooleanField(default=False)
    # Whether the units are pieces of their own: not if they are parts of other units, or seen as devices.
    counts = models.BooleanField(default=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "node_name", "resource"], name="one_count_per_resource"
            )
        ]

    def __str__(self) -> str:
        return f"{self.node_name} {self.resource}"
