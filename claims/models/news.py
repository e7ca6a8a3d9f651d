"""What people wait for and say to each other through the desk, and for how long held devices lie idle."""

import uuid
from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from claims.models.catalogue import Flavor
from claims.models.requests import Request
from inventory.models import Cluster
from portal.accounts.models import User


class WatchQuerySet(models.QuerySet["Watch"]):
    def waiting(self, now: datetime) -> "WatchQuerySet":
        """Those that have not been told, and whose time is not over."""
        return self.filter(told_at=None, until__gt=now)


class Watch(models.Model):
    """Somebody wants to be told, once, when so many of a flavor, or of a class on a cluster, are free."""

    person = models.ForeignKey(User, models.CASCADE, related_name="watches")
    flavor = models.ForeignKey(Flavor, models.CASCADE, null=True, related_name="+")
    # A flavor is watched wherever it is served; a class is one cluster's.
    cluster = models.ForeignKey(Cluster, models.CASCADE, null=True, related_name="+")
    device_class = models.CharField(max_length=253, blank=True)
    count = models.PositiveIntegerField()
    until = models.DateTimeField()
    created_at = models.DateTimeField()
    told_at = models.DateTimeField(null=True)

    objects = WatchQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(count__gte=1), name="watch_count_positive"),
            models.CheckConstraint(
                condition=Q(flavor__isnull=False, cluster=None, device_class="")
                | Q(flavor=None, cluster__isnull=False) & ~Q(device_class=""),
                name="watch_of_a_flavor_or_a_class",
            ),
            models.UniqueConstraint(
                fields=["person", "flavor"], condition=Q(told_at=None), name="one_watch_per_flavor"
            ),
            models.UniqueConstraint(
                fields=["person", "cluster", "device_class"],
                condition=Q(told_at=None, flavor=None),
                name="one_watch_per_class",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["until"], condition=Q(told_at=None), name="watches_waiting")
        ]

    def __str__(self) -> str:
        return self.flavor.name if self.flavor else f"{self.device_class} ({self.cluster})"


class Idleness(models.Model):
    """For how long a held device has been known to lie idle. Only time that the desk saw is counted."""

    request = models.OneToOneField(Request, models.CASCADE, related_name="idleness")
    idle_for = models.DurationField(default=timedelta)
    # Up to when it is counted.
    counted_at = models.DateTimeField()
    reminded_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.request}: {self.idle_for}"


class HolderMessage(models.Model):
    """What somebody asks those who hold a device, or is answered. The desk carries it, without addresses."""

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    # The request that holds the device. Its people read all of it; who asked reads their own thread.
    request = models.ForeignKey(Request, models.CASCADE, related_name="messages")
    # The first message of the thread; null = it is the first.
    thread = models.ForeignKey("self", models.CASCADE, null=True, related_name="answers")
    sender = models.ForeignKey(User, models.PROTECT, related_name="+")
    # What it is about, as people call it.
    device = models.CharField(max_length=253)
    text = models.CharField(max_length=1000)
    created_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["sender", "-created_at"], name="messages_of_sender")]

    def __str__(self) -> str:
        return self.text


class Mute(models.Model):
    """Somebody wants no more messages of somebody else."""

    person = models.ForeignKey(User, models.CASCADE, related_name="mutes")
    muted = models.ForeignKey(User, models.CASCADE, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["person", "muted"], name="one_mute_per_person")
        ]
