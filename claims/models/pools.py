"""Node pools that can grow: what an administrator says a pool would bring that has no node at present.

A pool that is scaled to zero publishes no ResourceSlice, and no autoscaler tells the API what its nodes
would publish: only somebody who knows can say it.
"""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from inventory.models import Cluster
from portal.accounts.models import User


class GrowablePool(models.Model):
    """What each further node of a pool brings: so many devices of a class, or units of a resource."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    # What people call the pool.
    name = models.CharField(max_length=63)
    # Labels that its nodes carry, as in the API; by them those that are there are counted.
    labels = models.JSONField(default=dict)
    max_nodes = models.PositiveIntegerField()
    # A DeviceClass, or the extended resource of a Device Plugin; one of them may be "".
    device_class = models.CharField(max_length=253, blank=True)
    extended_resource = models.CharField(max_length=317, blank=True)
    # Of one node.
    devices = models.PositiveIntegerField()
    # What the devices are called, and how much memory each has (a quantity; "" = not said).
    product = models.CharField(max_length=128, blank=True)
    memory = models.CharField(max_length=32, blank=True)
    # The domain of the devices' attributes and capacities, mostly their driver's name; "" = not said.
    domain = models.CharField(max_length=63, blank=True)
    note = models.CharField(max_length=500, blank=True)
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "name", "device_class", "extended_resource"],
                name="one_growable_pool_per_kind",
            ),
            models.CheckConstraint(
                condition=~Q(device_class="", extended_resource=""), name="growable_pool_brings_something"
            ),
            models.CheckConstraint(condition=Q(devices__gte=1, max_nodes__gte=1), name="growable_pool_grows"),
        ]

    def __str__(self) -> str:
        return f"{self.name} on {self.cluster}"
