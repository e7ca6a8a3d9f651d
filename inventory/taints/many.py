"""Rules that select whatever is in a pool, of a driver, or in a cluster: told in numbers.

Slices are asked how many devices they have, who holds some, and which few are named; a hundred thousand
devices are never read for a line of a list.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Count, Q

from inventory.holders import projects_of
from inventory.models import ClaimDevice, Device, ResourceSlice
from portal.sql import among

if TYPE_CHECKING:
    from inventory.taints.listing import TaintRow

# Of one taint so many devices or nodes are named.
NAMED = 20
TAKEN = (Device.State.HELD, Device.State.PARTLY)


def add_places(rows: "Sequence[TaintRow]", *, now: datetime) -> None:
    """Add to these rows how many devices they are on, the first of them, and whose work is there."""
    slices = _slices_of(rows)
    chosen: list[list[int]] = []
    for found in slices:
        first, named = [], 0
        for pk, count in found.items():
            if named >= NAMED:
                break
            first.append(pk)
            named += count
        chosen.append(first)
    wanted = {pk for first in chosen for pk in first}
    devices: dict[int, list[Device]] = defaultdict(list)
    for device in devices_in_order(among("slice", wanted)) if wanted else ():
        devices[device.slice_id].append(device)
    for row, found, first in zip(rows, slices, chosen, strict=True):
        row.devices = [device for pk in first for device in devices[pk]][:NAMED]
        row.others = max(sum(found.values()) - len(row.devices), 0)
    _add_holders(rows, slices, now=now)


def _slices_of(rows: "Sequence[TaintRow]") -> list[Mapping[int, int]]:
    """For each row, how many devices are in each slice that it selects, in the order of nodes."""
    clusters = {row.coverage.cluster.pk for row in rows}
    found: list[dict[int, int]] = [{} for _row in rows]
    known = ResourceSlice.objects.filter(cluster__in=clusters).annotate(count=Count("devices"))
    columns = ("pk", "cluster_id", "pool__driver", "pool__name", "count")
    ordered = known.exclude(count=0).order_by("cluster_id", "node_name", "name")
    for pk, cluster, driver, pool, count in ordered.values_list(*columns) if rows else ():
        for row, slices in zip(rows, found, strict=True):
            assert row.selector is not None  # it selects many
            if row.coverage.cluster.pk == cluster and row.selector.matches(driver, pool, ""):
                slices[pk] = count
    return list(found)


def _add_holders(rows: "Sequence[TaintRow]", slices: Sequence[Mapping[int, int]], *, now: datetime) -> None:
    clusters = {row.coverage.cluster.pk for row, found in zip(rows, slices, strict=True) if found}
    if not clusters:
        return
    holds = ClaimDevice.objects.filter(
        device__cluster__in=clusters, device__state__in=TAKEN, admin_access=False
    ).order_by()
    # A device that several share is one device, of each of their namespaces.
    devices = Count("device", distinct=True)
    held = dict(holds.values_list("device__slice").annotate(devices))
    columns = ("device__slice", "claim__cluster_id", "claim__namespace")
    by_space = list(holds.values_list(*columns).annotate(devices))
    projects = projects_of({(cluster, namespace) for _slice, cluster, namespace, _n in by_space}, at=now)
    for row, found in zip(rows, slices, strict=True):
        row.held = sum(count for pk, count in held.items() if pk in found)
        tally: Counter[str] = Counter()
        for pk, cluster, namespace, count in by_space:
            if pk in found:
                project = projects.get((cluster, namespace))
                tally[project.name if project else ""] += count
        row.projects = most_first(tally)


def devices_in_order(wanted: Q) -> Iterator[Device]:
    """Rows of `Device` for a list, by node."""
    rows = Device.objects.filter(wanted).select_related("pool")
    rows = rows.only(
        "name", "node_name", "taints", "state", "cluster_id", "slice_id", "pool__driver", "pool__name"
    )
    return rows.order_by("cluster_id", "node_name", "name", "pk").iterator(chunk_size=2000)


def most_first(tally: "Counter[str]") -> list[tuple[str, int]]:
    """Names by how many they have."""
    return sorted(tally.items(), key=lambda item: (-item[1], item[0]))
