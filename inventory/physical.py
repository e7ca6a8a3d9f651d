"""Pieces of hardware, as opposed to the entries under which they are offered.

One piece may be published by two drivers, in several modes by one, cut into partitions, and counted by a
Device Plugin besides. It is one piece all the same: partitions never add to their parent, and of several
names one counts (`inventory.mirror.twins`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from django.db.models import Count, F, IntegerField, Sum
from django.db.models.functions import Cast

from inventory.models import CountedUnits, Device, Twin
from inventory.plugins import PARTITION

# Parts of hardware, and what is no hardware at all.
NO_PIECES = (PARTITION, "channel")


def pieces(cluster_ids: Collection[int]) -> Mapping[int, int]:
    """How many pieces of hardware each cluster has; three queries for any number of clusters.

    Whole devices, each piece under one of its names. Units of Device Plugins add what is not published as
    devices, shared units by the hardware behind them; partitions add only where nothing else tells of their
    parent.
    """
    found: dict[int, int] = defaultdict(int)
    devices = Device.objects.filter(cluster__in=cluster_ids).exclude(profile__kind__in=NO_PIECES)
    for cluster, count in devices.order_by().values_list("cluster_id").annotate(Count("pk")):
        found[cluster] += count
    again = Twin.objects.filter(cluster__in=cluster_ids, counts=False)
    for cluster, count in again.order_by().values_list("cluster_id").annotate(Count("pk")):
        found[cluster] -= count
    units = CountedUnits.objects.filter(cluster__in=cluster_ids, counts=True).exclude(kind=PARTITION)
    behind = Cast(F("capacity") / F("replicas"), IntegerField())
    for cluster, count in units.order_by().values_list("cluster_id").annotate(behind=Sum(behind)):
        found[cluster] += count
    return dict(found)


def twins_of(device: Device) -> list[Device]:
    """The other devices that are the same piece of hardware. Two queries."""
    twin = Twin.objects.filter(device=device).first()
    if twin is None:
        return []
    others = Device.objects.filter(twin__cluster=twin.cluster_id, twin__piece=twin.piece)
    named = others.exclude(pk=device.pk).select_related("pool")
    return list(named.order_by("pool__driver", "pool__name", "name"))
