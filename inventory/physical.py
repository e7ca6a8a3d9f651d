"""Pieces of hardware, as opposed to the entries under which they are offered.

One piece may be published by two drivers, in several modes by one, cut into partitions, and counted by a
Device Plugin besides. It is one piece all the same: partitions never add to their parent.
"""

from collections.abc import Collection, Mapping

from django.db.models import Count, F, IntegerField, Sum
from django.db.models.functions import Cast

from inventory.identity import physical_names
from inventory.models import CountedUnits, Device
from inventory.plugins import PARTITION


def pieces(cluster_ids: Collection[int]) -> Mapping[int, int]:
    """How many pieces of hardware each cluster has; three queries for any number of clusters.

    Devices with the same hardware id are one piece; one that publishes none is a piece of its own. Units of
    Device Plugins add what is not published as devices, shared units by the hardware behind them; partitions
    add only where nothing else tells of their parent.
    """
    # Channels and the like are no hardware, and partitions are parts of it.
    devices = Device.objects.filter(cluster__in=cluster_ids).exclude(profile__kind__in=(PARTITION, "channel"))
    named = devices.exclude(hardware_id="").order_by().values_list("cluster_id")
    found = dict(named.annotate(Count("hardware_id", distinct=True)))
    for cluster, count in (
        devices.filter(hardware_id="").order_by().values_list("cluster_id").annotate(Count("pk"))
    ):
        found[cluster] = found.get(cluster, 0) + count
    units = CountedUnits.objects.filter(cluster__in=cluster_ids, counts=True).exclude(kind=PARTITION)
    behind = Cast(F("capacity") / F("replicas"), IntegerField())
    for cluster, count in units.order_by().values_list("cluster_id").annotate(behind=Sum(behind)):
        found[cluster] = found.get(cluster, 0) + count
    return found


def twins_of(device: Device) -> list[Device]:
    """Devices of other pools on the node that are the same piece of hardware, by uuid or PCI address: two
    drivers manage it. One query."""
    names = physical_names(device.identity, driver=device.pool.driver)
    if not names or not device.node_name:
        return []
    here = Device.objects.filter(cluster_id=device.cluster_id, node_name=device.node_name)
    others = here.exclude(pool_id=device.pool_id).select_related("pool")
    return [
        other
        for other in others.order_by("pool__driver", "pool__name", "name")
        if names & physical_names(other.identity, driver=other.pool.driver)
    ]
