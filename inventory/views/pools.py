"""Pools: the list, and one pool with its slices, counters, nodes and devices."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe
from django_stubs_ext import StrOrPromise

from inventory import describe, pools
from inventory.browse import UNKNOWN, FleetFacts
from inventory.coverage import Coverage, coverage_of_all
from inventory.describe import AmountShown
from inventory.models import ClaimDevice, Device, Node, Pool
from inventory.products import PARTITION
from inventory.rows import apart, device_rows
from portal import csvs, htmx, lists
from portal.access import person
from portal.lists import Choice, Column, Listing

DEVICES_SHOWN = 200
NODES_SHOWN = 50

LISTING = Listing(
    "pools",
    columns=(
        Column("name", _("Pool"), order=("name", "driver"), fixed=True),
        Column("driver", _("Driver"), order=("driver", "name")),
        Column("state", _("State")),
        Column("generation", _("Generation"), order=("generation",), css="cd-number", shown=False),
        Column("slices", _("Slices"), order=("slices_seen",), css="cd-number"),
        Column("devices", _("Devices"), css="cd-number"),
        Column("use", _("In use")),
        Column("cluster", _("Cluster"), order=("cluster__name", "name")),
    ),
    facets=(
        Choice("state", _("State"), conditions=pools.STATE_CONDITIONS, labels=pools.STATE_LABELS),
        Choice("driver", _("Driver"), column="driver"),
        Choice("cluster", _("Cluster"), column="cluster__name"),
    ),
    search=("name", "driver"),
    sort="name",
)
CSV_HEADER = (
    *("cluster", "driver", "pool", "state", "why", "generation", "slices_seen", "slices_expected"),
    *("free", "partly", "held", "unavailable", "unknown"),
)


@dataclass(frozen=True)
class PoolRow:
    pool: Pool
    coverage: Coverage
    state: str
    state_label: StrOrPromise
    why: str
    # By told state; partitions are alternatives to what they are cut from and counted apart.
    devices: Counter[str]
    partitions: int

    @property
    def total(self) -> int:
        return self.devices.total()


def pool_rows(found: "list[Pool]") -> list[PoolRow]:
    """Pools with their devices by state; a fixed number of queries."""
    coverage = coverage_of_all(now=timezone.now())
    whole: dict[int, Counter[str]] = {pool.pk: Counter() for pool in found}
    parts: Counter[int] = Counter()
    clusters = {pool.pk: pool.cluster_id for pool in found}
    grouped = Device.objects.filter(pool__in=clusters).order_by()
    for pk, kind, state, count in grouped.values_list("pool", "profile__kind", "state").annotate(Count("pk")):
        if kind == PARTITION:
            parts[pk] += count
        else:
            whole[pk][state if coverage[clusters[pk]].in_step else UNKNOWN] += count
    return [
        PoolRow(
            pool=pool,
            coverage=coverage[pool.cluster_id],
            state=(state := pools.state_of(pool)),
            state_label=pools.STATE_LABELS[state],
            why=pools.why_not(pool),
            devices=whole[pool.pk],
            partitions=parts[pool.pk],
        )
        for pool in found
        if pool.cluster_id in coverage
    ]


@require_safe
def pool_list(request: HttpRequest) -> HttpResponseBase:
    """Pools of all clusters, and which of them the scheduler would not use."""
    if (chosen := LISTING.remembered(request)) is not None:
        return chosen
    state = LISTING.read(request)
    rows: QuerySet[Pool] = Pool.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
    if state.wants_csv:
        return csvs.download(
            "pools.csv", CSV_HEADER, map(_line, pool_rows(list(state.ordered(state.narrowed(rows)))))
        )
    page = state.page(state.narrowed(rows))
    context = {
        "page": page,
        "rows": pool_rows(list(page.object_list)),
        "facets": state.facets(Pool.objects.all()),
    }
    return lists.answer(request, "inventory/pool_list.html", context, state=state)


def _line(row: PoolRow) -> tuple[Any, ...]:
    pool, counts = row.pool, row.devices
    return (
        *(pool.cluster.name, pool.driver, pool.name, row.state, row.why),
        *(pool.generation, pool.slices_seen, pool.slices_expected),
        *(counts[state] for state in ("free", "partly", "held", "unavailable", "unknown")),
    )


@require_safe
def pool_detail(request: HttpRequest, cluster: str, driver: str, name: str) -> HttpResponse:
    """One pool: whether the scheduler uses it and why not, its slices, counters, nodes and devices."""
    now = timezone.now()
    pool = get_object_or_404(
        Pool.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted"),
        cluster__name=cluster,
        driver=driver,
        name=name,
    )
    facts = FleetFacts.load(now=now)
    devices = Device.objects.filter(pool=pool).select_related("pool").order_by("slice__name", "position")
    shown = list(devices[: DEVICES_SHOWN + 1])
    names = devices.order_by("node_name").exclude(node_name="").values_list("node_name", flat=True).distinct()
    nodes = list(names[: NODES_SHOWN + 1])
    (row,) = pool_rows([pool])
    told = device_rows(shown[:DEVICES_SHOWN], facts=facts, viewer=person(request), now=now)
    listed, idle = apart(told)
    context = {
        "row": row,
        "pool": pool,
        "cluster": pool.cluster,
        "slices": pools.slice_rows(pool),
        "counter_sets": _counter_sets(pool) if pool.has_counters else [],
        "devices": listed,
        "idle_parts": idle,
        "more_devices": len(shown) > DEVICES_SHOWN,
        "nodes": Node.objects.filter(cluster=pool.cluster_id, name__in=nodes[:NODES_SHOWN]).order_by("name"),
        "missing_nodes": sorted(
            set(nodes[:NODES_SHOWN])
            - set(Node.objects.filter(cluster=pool.cluster_id, name__in=nodes).values_list("name", flat=True))
        ),
        "more_nodes": len(nodes) > NODES_SHOWN,
    }
    return htmx.render(request, "inventory/pool_detail.html", context)


@dataclass(frozen=True)
class CounterSet:
    """Counters that the devices of one piece of hardware share. `part` is how much of the scarcest is used,
    in percent."""

    name: str
    counters: Sequence[AmountShown]

    @property
    def part(self) -> int:
        return max((counter.part or 0 for counter in self.counters), default=0)

    @property
    def used_up(self) -> int:
        return sum(counter.part == 100 for counter in self.counters)


def _counter_sets(pool: Pool) -> list[CounterSet]:
    holds = ClaimDevice.objects.filter(device__pool=pool, admin_access=False)
    counters = describe.counters(pool, held=set(holds.values_list("device__name", flat=True)))
    sets = groupby(counters, key=lambda counter: counter.domain)
    return [CounterSet(name, list(found)) for name, found in sets]
