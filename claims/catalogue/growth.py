"""Node pools that can grow: whether one of them would bring what is not there, and what administrators say
of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from claims.asks.values import Reading
from claims.catalogue.placements import selects
from claims.models import GrowablePool, Request
from inventory.autoscaling.told import Report, report_for, reports_of
from inventory.models import Cluster, Node
from portal.dra.quantity import Quantity
from portal.sql import has_items


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a pool would have to bring: by a class, or by an extended resource ("" = not that way)."""

    device_class: str = ""
    extended_resource: str = ""
    count: int = 1
    min_memory: str = ""
    node_selector: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A pool that would bring it, and how many of its nodes are there. `report` is what an autoscaler says of
    it; None = nothing is known."""

    pool: GrowablePool
    nodes: int
    report: Report | None = None

    @property
    def more(self) -> int:
        """How many further nodes it may get: as its autoscaler says, else as an administrator said."""
        told = self.report.group.more if self.report is not None else None
        return told if told is not None else max(0, self.pool.max_nodes - self.nodes)

    @property
    def said(self) -> bool:
        """Whether an administrator described it; else the autoscaler alone tells of it."""
        return self.pool.pk is not None


def nothing_there(cluster: Cluster) -> str:
    """The word for a class without any device: a cluster that was never listed may be full of them."""
    if not cluster.streams.filter(resource="resourceslices", listed_at__isnull=False).exists():
        return _("The desk has not read the devices of this cluster yet: what matches is not known.")
    return _("No device of the cluster belongs to this class at present. You can queue for one all the same.")


def domains_declared(*, cluster: Cluster, device_class: str) -> tuple[str, ...]:
    """Domains under which devices of the class would tell their capacities, by what is said of pools."""
    rows = GrowablePool.objects.filter(cluster=cluster, device_class=device_class).exclude(domain="")
    return tuple(sorted(set(rows.values_list("domain", flat=True))))


def growing(pools: Sequence[Growth], *, wanted: Wanted) -> Sequence[Growth]:
    """Those of the pools that may get a further node which would serve the wish."""
    return [growth for growth in pools if growth.more and _brings(growth.pool, wanted)]


def pools_of(cluster: Cluster, *, now: datetime) -> Sequence[Growth]:
    """The pools of a cluster of which it is known what their nodes would bring, by name: as administrators
    describe them, with what autoscalers say of them now, and those that autoscalers describe themselves. Two
    queries, one more where there are any."""
    rows = list(GrowablePool.objects.filter(cluster=cluster).order_by("name", "pk"))
    reports = [report for report in reports_of(cluster) if report.fresh(now)]
    counted = nodes_of(rows) if rows else {}
    described = [
        Growth(pool=row, nodes=counted[row.pk], report=report_for(row.name, row.labels, reports))
        for row in rows
    ]
    taken = {growth.report.group.short_name for growth in described if growth.report is not None}
    alone = [
        Growth(pool=_as_pool(cluster, report), nodes=report.group.current or 0, report=report)
        for report in reports
        if report.group.resource and report.group.units and report.group.short_name not in taken
    ]
    return [*described, *alone]


def _as_pool(cluster: Cluster, report: Report) -> GrowablePool:
    """What an autoscaler says of a group, in the words of administrators; not stored."""
    group = report.group
    return GrowablePool(
        cluster=cluster,
        name=group.short_name[:63],
        labels=group.labels,
        max_nodes=group.maximum or 0,
        extended_resource=group.resource,
        devices=group.units,
    )


def growths_of(reading: Reading, *, now: datetime) -> Sequence[Growth]:
    """Pools that may get a node which would serve all of an ask: what is asked for or an alternative, and
    every further part. What an expression wants of devices that are not there, nobody can say."""
    cluster, placement, count = reading.cluster, reading.placement, reading.count
    if cluster is None or count is None or not (pools := pools_of(cluster, now=now)):
        return []
    selector = placement.node_selector if placement else {}

    def serving(**wanted: Any) -> Sequence[Growth]:
        return growing(pools, wanted=Wanted(node_selector=selector, **wanted))

    if reading.backend == Request.Backend.PLUGIN:
        return serving(extended_resource=placement.extended_resource if placement else "", count=count)
    if reading.device_class is None:
        return []
    found = list(serving(device_class=reading.device_class.name, count=count, min_memory=reading.min_memory))
    for piece in reading.options.alternatives:
        found += serving(device_class=piece.wish.device_class, count=piece.count)
    for piece in reading.options.parts:
        besides = {g.pool.name for g in serving(device_class=piece.wish.device_class, count=piece.count)}
        found = [growth for growth in found if growth.pool.name in besides]
    return list({(growth.pool.pk, growth.pool.name): growth for growth in found}.values())


def nodes_of(pools: Sequence[GrowablePool]) -> Mapping[int, int]:
    """How many nodes each pool (by primary key) has now."""
    counts = {
        f"pool_{pool.pk}": Count("pk", filter=Q(cluster=pool.cluster_id) & has_items("labels", pool.labels))
        for pool in pools
    }
    found = Node.objects.filter(cluster__in={pool.cluster_id for pool in pools}).aggregate(**counts)
    return {pool.pk: found[f"pool_{pool.pk}"] for pool in pools}


def _brings(pool: GrowablePool, wanted: Wanted) -> bool:
    # A Pod's devices are on one node.
    if pool.devices < wanted.count:
        return False
    same = (wanted.device_class and pool.device_class == wanted.device_class) or (
        wanted.extended_resource and pool.extended_resource == wanted.extended_resource
    )
    if not same or not selects(wanted.node_selector, pool.labels):
        return False
    if not wanted.min_memory:
        return True
    return bool(pool.memory) and Quantity.parse(pool.memory) >= Quantity.parse(wanted.min_memory)
