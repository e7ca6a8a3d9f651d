"""The rows behind a search, as the database narrows, counts and orders them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db import connection
from django.db.models import Count, F, Q, QuerySet

from inventory.browse_cells import Cell, FleetFacts, within, words_of
from inventory.browse_racks import MIN_HARDWARE_TEXT, ROW_ORDER, Racks
from inventory.models import ClassProfile, Device, Pool
from portal.sql import among

# Up to here it is cheaper to fetch a group of devices and sort it than to walk an index past all the others.
SMALL_GROUP = 2_000
# Up to here keys that a word stands for are known by themselves, rather than looked for again.
_FEW = 2_000


class TableRows:
    """Answers about the rows of a query. `table` gives all their cells, of which questions name some."""

    def __init__(self, rows: QuerySet[Device], *, table: Callable[[], Collection[Cell]]) -> None:
        self._rows = rows
        self._table = table

    def counts(self) -> Iterable[Any]:
        """How many there are by profile, cluster, state and health."""
        columns = ("profile_id", "cluster_id", "state", "health")
        return self._rows.order_by().values_list(*columns).annotate(Count("pk"))

    def of(self, cells: Collection[Cell]) -> QuerySet[Device]:
        """Those that are in these cells."""
        table = self._table()
        if len(cells) == len(table):
            return self._rows
        small = sum(cell.count for cell in cells) <= SMALL_GROUP
        if small or not _plans_without_statistics():
            return self._rows.filter(within(cells, table, kind="profile_id", place="cluster_id"))
        # "+ 0" keeps it from looking so many rows up one by one by kind: it walks the order's index instead.
        walked = self._rows.alias(walked_kind=F("profile_id") + 0, walked_place=F("cluster_id") + 0)
        return walked.filter(within(cells, table, kind="walked_kind", place="walked_place"))

    def ids(self, cells: Collection[Cell], start: int, stop: int, *, backwards: bool) -> list[int]:
        """Keys of some of those in these cells, in the order of the racks."""
        order = [f"-{column}" if backwards else column for column in ROW_ORDER]
        return list(self.of(cells).order_by(*order).values_list("pk", flat=True)[start:stop])

    def ids_of_whole(self, groups: Sequence[Collection[Cell]]) -> list[int]:
        """Keys of all that are in these cells, group by group: one query however many, since each is
        small."""
        places = {
            (cell.profile.pk, cell.cluster.pk, cell.stored_state, cell.stored_health): place
            for place, cells in enumerate(groups)
            for cell in cells
        }
        rows = self.of([cell for cells in groups for cell in cells]).order_by(*ROW_ORDER)
        found = list(rows.values_list("pk", "profile_id", "cluster_id", "state", "health"))
        # A row that changed between two queries of this request has lost its place.
        found.sort(key=lambda row: places.get(row[1:], len(places)))
        return [row[0] for row in found]

    def nodes_at(self, cells: Collection[Cell], start: int, stop: int) -> list[str]:
        """Nodes of some of those in these cells, in the order of the racks."""
        rows = self.of(cells).order_by(*ROW_ORDER)
        return list(rows.values_list("node_name", flat=True)[start:stop])

    def by_node(self, cells: Collection[Cell], *, first: int) -> list[tuple[str, int]]:
        """The first nodes that have some in these cells, and how many; those of no node left out."""
        return list(self._by_node(cells).exclude(node_name="")[:first])

    def of_nodes(self, cells: Collection[Cell], names: Collection[str]) -> list[tuple[str, int]]:
        """How many are on each of these nodes."""
        return list(self._by_node(cells).filter(node_name__in=names))

    def pools_near(self, cells: Collection[Cell], nodes: Collection[str], *, first: int) -> list[str]:
        """The first pools ("driver/name") that have some on these nodes ("" = on no node)."""
        rows = self.of(cells).filter(node_name__in=nodes).order_by("pool__driver", "pool__name")
        named = rows.values_list("pool__driver", "pool__name").distinct()
        return [f"{driver}/{name}" for driver, name in named[:first]]

    def of_pools(self, cells: Collection[Cell], pools: Collection[int]) -> list[tuple[int, int]]:
        """How many are in each of these pools."""
        rows = self.of(cells).filter(pool__in=pools).order_by()
        return list(rows.values_list("pool_id").annotate(Count("pk")))

    def _by_node(self, cells: Collection[Cell]) -> QuerySet[Any, Any]:
        return self.of(cells).order_by("node_name").values_list("node_name").annotate(Count("pk"))


@dataclass(frozen=True)
class Admitted:
    """Devices of some kinds on some clusters, and single ones; their keys are asked for where needed."""

    kinds: Collection[tuple[int, int]]
    single: Callable[[], Collection[int]]
    condition: Q

    def among(self, racks: Racks) -> bytes:
        """Flags of those of the racks that are among them."""
        return racks.of(kinds=frozenset(self.kinds), keys=self.single())


def admitted(kinds: Iterable[tuple[int, int]], keys: Collection[int]) -> Admitted:
    """The devices of these kinds (cluster, profile), and those with these keys."""
    known = list(kinds)
    condition = reduce(or_, _whole(known), among("pk", keys))
    return Admitted(known, lambda: keys, condition)


def of_classes(names: Collection[str], *, facts: FleetFacts) -> Admitted:
    """The devices that match one of these classes."""
    single = ClassProfile.objects.filter(device_class__name__in=names).exclude(device=None)
    kinds = [at for at, known in facts.classes.items() if known.intersection(names)]
    condition = reduce(or_, _whole(kinds), Q(pk__in=single.values("device")))
    return Admitted(kinds, lambda: set(single.values_list("device", flat=True)), condition)


def _whole(kinds: Iterable[tuple[int, int]]) -> Iterable[Q]:
    by_cluster: dict[int, list[int]] = defaultdict(list)
    for cluster, kind in kinds:
        by_cluster[cluster].append(kind)
    return (Q(cluster=cluster, profile__in=found) for cluster, found in by_cluster.items())


def mentions(term: str, *, facts: FleetFacts) -> Q:
    """The rows in whose name, node, pool, hardware id, kind or cluster a word is found."""
    low = term.casefold()
    kinds, clusters = stands_for(term, facts=facts)
    hardware = Q()
    if len(term) >= MIN_HARDWARE_TEXT:
        hardware = Q(pk__in=_keys(Device.objects.filter(hardware_id__icontains=term), at_most=_FEW))
    return (
        # Kubernetes keeps these names in lower case: no need to fold a hundred thousand of them.
        Q(name__contains=low)
        | Q(node_name__contains=low)
        | Q(pool__in=_keys(Pool.objects.filter(name__contains=low), at_most=_FEW // 20))
        | Q(profile__in=kinds)
        | Q(cluster__in=clusters)
        | hardware
    )


def stands_for(term: str, *, facts: FleetFacts) -> tuple[list[int], list[int]]:
    """The kinds and the clusters of which a word is a part."""
    low = term.casefold()
    kinds = [profile.pk for profile in facts.profiles.values() if low in words_of(profile)]
    return kinds, [pk for pk, c in facts.coverage.items() if low in c.cluster.name]


def pools_named(names: Iterable[str], *, facts: FleetFacts) -> QuerySet[Pool]:
    """Pools by "driver/name"."""
    parts = [(driver, pool) for driver, _slash, pool in (name.partition("/") for name in names)]
    wanted = (Q(driver=driver, name=pool) for driver, pool in parts)
    # Said apart, too, so that they are found in the index of (cluster, driver, name).
    near = Pool.objects.filter(
        cluster__in=facts.coverage,
        driver__in={driver for driver, _pool in parts},
        name__in={pool for _driver, pool in parts},
    )
    return near.filter(reduce(or_, wanted, Q(pk__in=())))


def _plans_without_statistics() -> bool:
    """SQLite guesses that any equality is selective; PostgreSQL knows how many rows there are of what."""
    return connection.vendor == "sqlite"


def _keys(rows: QuerySet[Any], *, at_most: int) -> Any:
    """The rows' keys where they are few (asked once, used in several queries), else a subquery."""
    keys = list(rows.values_list("pk", flat=True)[: at_most + 1])
    return keys if len(keys) <= at_most else rows.values("pk")
