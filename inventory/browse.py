"""Searching a fleet of any size: counts per facet, and any page in any order.

The database is asked once for the number of devices per cell (`inventory.browse_cells`); every facet that
cells decide is counted from that little table, as is the total, as is the position of any page in any order.
What they do not decide (free text, node, pool, what matches single devices) narrows the counted rows.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import groupby
from operator import or_
from typing import Any

from django.db import connection
from django.db.models import Count, F, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from inventory.browse_cells import (
    BACKEND_LABELS,
    CELL_FACETS,
    DRA,
    HEALTH_LABELS,
    SORT_KEYS,
    STATE_LABELS,
    STATE_ORDER,
    UNKNOWN,
    Cell,
    FleetFacts,
    product_name,
    told_state,
    value_label,
    value_place,
    within,
)
from inventory.browse_counted import PLUGIN, CountedSearch
from inventory.browse_counts import Counted, counts_of
from inventory.expressions import Meaning, meaning_of
from inventory.filters import DeviceFilter
from inventory.models import ClassProfile, Device, DeviceProfile, Pool
from portal.lists import Facet, value_id
from portal.lists import Value as FacetValue
from portal.sql import among

__all__ = [
    "BACKEND_LABELS",
    "DRA",
    "HEALTH_LABELS",
    "STATE_LABELS",
    "STATE_ORDER",
    "UNKNOWN",
    "Cell",
    "DeviceSearch",
    "Facet",
    "FacetValue",
    "FleetFacts",
    "product_name",
    "told_state",
    "value_label",
]

NODES_SHOWN = 8
# Up to here it is cheaper to fetch a group of devices and sort it than to walk an index past all the others.
SMALL_GROUP = 2_000
# Two or three characters are part of some hexadecimal number or other.
MIN_HARDWARE_TEXT = 4
# Up to here the devices that a text names are found once and then known by their keys.
FEW = 2_000
POOLS_SHOWN = 8
# The order of the racks; the index `device_browse` holds it together with all that cells need.
_ROW_ORDER = ("node_name", "name", "pool_id")


class DeviceSearch:
    """One search, evaluated lazily: `total`, `states`, `facets()`, `page()`, `rows()`."""

    def __init__(self, wanted: DeviceFilter, *, facts: FleetFacts) -> None:
        self.wanted = wanted
        self.facts = facts

    # --- results ---------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """How many devices match."""
        return sum(cell.count for cell in self.cells)

    @property
    def states(self) -> Counter[str]:
        """How many of the matching devices are in which (told) state."""
        counts: Counter[str] = Counter()
        for cell in self.cells:
            counts[cell.state] += cell.count
        return counts

    def rows(self) -> QuerySet[Device]:
        """All matching devices, unordered: for exports and the REST API."""
        return self._narrowed(self.cells)

    def page(self, *, offset: int, limit: int) -> list[Device]:
        """`limit` matching devices from `offset` on, in the wanted order, with profile and pool."""
        runs = self._runs(offset, limit)
        first, between, last = runs[:1], runs[1:-1], runs[1:][-1:]
        ids: list[int] = []
        for cells, start, stop in first:
            ids += self._ids(cells, start, stop)
        if between:
            ids += self._ids_of_whole([cells for cells, _start, _stop in between])
        for cells, start, stop in last:
            ids += self._ids(cells, start, stop)
        rank = {pk: place for place, pk in enumerate(ids)}
        found = Device.objects.filter(pk__in=ids).select_related("pool")
        return sorted(found, key=lambda device: rank[device.pk])

    def facets(self) -> list[Facet]:
        """Every facet with counts; each ignores its own choice, so that one sees what else there is."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in CELL_FACETS}
        for cell in [*self._table, *self._counted_table]:
            if not self._is_meant(cell):
                continue
            failing = self._failing(cell)
            if len(failing) > 1:
                continue
            for name in failing or counts:
                for value in CELL_FACETS[name][1](cell):
                    counts[name][value] += cell.count
        if self.facts.single_classes:
            counts["class"] = self._class_counts()
        facets = [
            Facet(name, label, self._facet_values(name, counts[name]))
            for name, (label, _values) in CELL_FACETS.items()
            # Where everything is a named device there is nothing to choose.
            if name != "backend" or PLUGIN in counts[name] or self.wanted.values(name)
        ]
        nodes = self._nodes()
        return [*(facet for facet in facets if facet.values), nodes, self._pools(nodes)]

    # --- counted units ---------------------------------------------------------------------------

    @cached_property
    def counted(self) -> CountedSearch:
        """The part of the search that is about the units of Device Plugins."""
        return CountedSearch(self.wanted, coverage=self.facts.coverage, unknown=UNKNOWN)

    @property
    def counted_states(self) -> Counter[str]:
        """How many of the matching units are in which (told) state."""
        counts: Counter[str] = Counter()
        for cell in self.counted_cells:
            counts[cell.state] += cell.count
        return counts

    @property
    def counted_cells(self) -> list[Cell]:
        """How many units match, by kind, cluster and state."""
        return [cell for cell in self._counted_table if self._is_meant(cell) and not self._failing(cell)]

    @cached_property
    def _counted_table(self) -> list[Cell]:
        cells = []
        for group in self.counted.groups:
            coverage = self.facts.coverage.get(group.cluster_id)
            profile = DeviceProfile(
                vendor=group.vendor, product=group.product, kind=group.kind, driver=group.resource
            )
            cells += [
                Cell(
                    cluster=coverage.cluster,
                    profile=profile,
                    stored_state=state,
                    state=state if coverage.in_step else UNKNOWN,
                    classes=frozenset(),
                    count=count,
                    backend=PLUGIN,
                )
                for state, count in group.states.items()
                if count and coverage is not None
            ]
        return cells

    # --- what is counted -------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> QuerySet[Device]:
        """Rows that satisfy all that cells do not decide: free text, node, classes of single devices."""
        rows = Device.objects.all()
        if self.wanted.terms:
            for term in self.wanted.terms:
                rows = rows.filter(self._mentions(term))
            # In the order of the racks, so that it is read from the index of that order.
            few = list(rows.order_by(*_ROW_ORDER).values_list("pk", flat=True)[: FEW + 1])
            if len(few) <= FEW:
                rows = Device.objects.filter(pk__in=few)
        if nodes := self.wanted.values("node"):
            rows = rows.filter(node_name__in=nodes)
        if pools := self.wanted.values("pool"):
            rows = rows.filter(pool__in=self._pools_named(pools).values("pk"))
        if self.meaning is not None and self.meaning.singly:
            whole = (Q(cluster=pk, profile__in=kinds) for pk, kinds in self.meaning.kinds.items() if kinds)
            rows = rows.filter(reduce(or_, whole, among("pk", self.meaning.devices)))
        return rows.filter(self._single_class) if self._single_class else rows

    def _mentions(self, term: str) -> Q:
        """The term is found in the device's name, node, pool, hardware id, kind or cluster."""
        low = term.casefold()
        kinds = [p.pk for p in self.facts.profiles.values() if low in _words(p)]
        clusters = [pk for pk, c in self.facts.coverage.items() if low in c.cluster.name]
        if len(kinds) == len(self.facts.profiles) or len(clusters) == len(self.facts.coverage):
            return Q()
        hardware = Q()
        if len(term) >= MIN_HARDWARE_TEXT:
            hardware = Q(pk__in=_keys(Device.objects.filter(hardware_id__icontains=term), at_most=FEW))
        return (
            # Kubernetes keeps these names in lower case: no need to fold a hundred thousand of them.
            Q(name__contains=low)
            | Q(node_name__contains=low)
            | Q(pool__in=_keys(Pool.objects.filter(name__contains=low), at_most=FEW // 20))
            | Q(profile__in=kinds)
            | Q(cluster__in=clusters)
            | hardware
        )

    @cached_property
    def _table(self) -> list[Cell]:
        cells = []
        for profile_id, cluster_id, state, health, count in self._counts():
            coverage = self.facts.coverage.get(cluster_id)
            profile = self.facts.profiles.get(profile_id)
            if coverage is None or profile is None:
                continue  # appeared between two queries of this request
            cells.append(
                Cell(
                    cluster=coverage.cluster,
                    profile=profile,
                    stored_state=state,
                    state=state if coverage.in_step else UNKNOWN,
                    classes=self.facts.classes.get((cluster_id, profile_id), frozenset()),
                    count=count,
                    stored_health=health,
                    health=health if coverage.in_step else UNKNOWN,
                )
            )
        return cells

    def _counts(self) -> Iterable[Counted]:
        if self._whole_fleet:
            return counts_of(coverage.cluster for coverage in self.facts.coverage.values())
        rows = self._rows.order_by()
        columns = ("profile_id", "cluster_id", "state", "health")
        if self.wanted.terms and _plans_without_statistics():
            # Grouped by what no index orders, so that the rows come from the one that holds the text.
            rows = rows.annotate(walked_kind=F("profile_id") + 0, walked_place=F("cluster_id") + 0)
            columns = ("walked_kind", "walked_place", "state", "health")
        counted: Iterable[Any] = rows.values_list(*columns).annotate(Count("pk"))
        return counted

    @property
    def _whole_fleet(self) -> bool:
        """Whether cells alone decide: `_rows` leaves nothing out."""
        wanted = self.wanted
        singly = self.meaning is not None and self.meaning.singly
        return not (
            wanted.terms or wanted.values("node") or wanted.values("pool") or singly or self._single_class
        )

    @cached_property
    def cells(self) -> list[Cell]:
        """How many devices match, by kind, cluster and state."""
        return [cell for cell in self._table if self._is_meant(cell) and not self._failing(cell)]

    @cached_property
    def meaning(self) -> Meaning | None:
        """What the expression says of the fleet; None where there is none."""
        if not self.wanted.expression:
            return None
        return meaning_of(self.wanted.expression, coverage=self.facts.coverage)

    def _is_meant(self, cell: Cell) -> bool:
        """Whether the expression admits the cell, as far as cells decide it. One that cannot be read admits
        nothing, and none admits what is only counted."""
        if self.meaning is None or (self.meaning.singly and cell.backend == DRA):
            return True
        return cell.backend == DRA and cell.profile.pk in self.meaning.kinds.get(cell.cluster.pk, ())

    def _failing(self, cell: Cell) -> list[str]:
        """The facets whose choice this cell does not satisfy."""
        return [
            name
            for name, chosen in self.wanted.chosen.items()
            if name in CELL_FACETS
            and not (name == "class" and self._single_class and cell.backend == DRA)
            and not set(chosen).intersection(CELL_FACETS[name][1](cell))
        ]

    # --- pages -----------------------------------------------------------------------------------

    def _runs(self, offset: int, limit: int) -> list[tuple[list[Cell], int, int]]:
        """Which cells the page lies in, in order, and which part of their rows it takes.

        Cells with equal sort key form a group. A page touches a first group, a last one, and whole small
        ones between; so whatever the order, a few short queries answer it.
        """
        runs, skipped = [], 0
        for _key, cells in self._groups():
            size = sum(cell.count for cell in cells)
            start, stop = max(offset - skipped, 0), min(offset + limit - skipped, size)
            if start < stop:
                runs.append((cells, start, stop))
            skipped += size
        return runs

    def _groups(self) -> list[tuple[Any, list[Cell]]]:
        """The matching cells by sort key, in the wanted order; one group where the rows decide."""
        key = SORT_KEYS.get(self.wanted.sort)
        if key is None:
            return [(None, self.cells)]
        ordered = sorted(self.cells, key=key, reverse=self.wanted.descending)
        return [(found, list(cells)) for found, cells in groupby(ordered, key=key)]

    def groups(self) -> Mapping[Any, int]:
        """How many matching devices have which sort key."""
        return {key: sum(cell.count for cell in cells) for key, cells in self._groups()}

    def places(self, start: int, stop: int) -> list[str]:
        """Nodes of the matching devices `start` to `stop` in the order of the racks, forwards."""
        rows = self._narrowed(self.cells).order_by(*_ROW_ORDER)
        return list(rows.values_list("node_name", flat=True)[start:stop])

    def _ids(self, cells: Sequence[Cell], start: int, stop: int) -> list[int]:
        size = sum(cell.count for cell in cells)
        backwards = self.wanted.sort not in SORT_KEYS and self.wanted.descending
        # From whichever end is nearer: the last page costs what the first one does.
        from_end = start > size - stop
        if from_end:
            start, stop = size - stop, size - start
        order = [f"-{column}" if backwards != from_end else column for column in _ROW_ORDER]
        ids = list(self._narrowed(cells).order_by(*order).values_list("pk", flat=True)[start:stop])
        return ids[::-1] if from_end else ids

    def _ids_of_whole(self, groups: Sequence[Sequence[Cell]]) -> list[int]:
        """All rows of several groups, group by group: one query however many, since each is small."""
        places = {
            (cell.profile.pk, cell.cluster.pk, cell.stored_state, cell.stored_health): place
            for place, cells in enumerate(groups)
            for cell in cells
        }
        rows = self._narrowed([cell for cells in groups for cell in cells]).order_by(*_ROW_ORDER)
        found = list(rows.values_list("pk", "profile_id", "cluster_id", "state", "health"))
        # A row that changed between two queries of this request has lost its place.
        found.sort(key=lambda row: places.get(row[1:], len(places)))
        return [row[0] for row in found]

    def _narrowed(self, cells: Sequence[Cell]) -> QuerySet[Device]:
        """The rows of some cells of the table."""
        if len(cells) == len(self._table):
            return self._rows
        small = sum(cell.count for cell in cells) <= SMALL_GROUP
        if small or not _plans_without_statistics():
            return self._rows.filter(within(cells, self._table, kind="profile_id", place="cluster_id"))
        # "+ 0" keeps it from looking so many rows up one by one by kind: it walks the order's index instead.
        walked = self._rows.alias(walked_kind=F("profile_id") + 0, walked_place=F("cluster_id") + 0)
        return walked.filter(within(cells, self._table, kind="walked_kind", place="walked_place"))

    # --- classes and nodes -----------------------------------------------------------------------

    @cached_property
    def _single_class(self) -> Q | None:
        """The choice of classes as a condition on rows, where cells cannot decide it."""
        chosen = self.wanted.values("class")
        if not self.facts.single_classes.intersection(chosen):
            return None
        single = ClassProfile.objects.filter(device_class__name__in=chosen).exclude(device=None)
        by_cluster: dict[int, list[int]] = defaultdict(list)
        for (cluster_id, profile_id), names in self.facts.classes.items():
            if names.intersection(chosen):
                by_cluster[cluster_id].append(profile_id)
        whole = (Q(cluster=cluster, profile__in=profiles) for cluster, profiles in by_cluster.items())
        return reduce(or_, whole, Q(pk__in=single.values("device")))

    def _class_counts(self) -> Counter[str]:
        others = self._without("class")
        counts: Counter[str] = Counter()
        for cell in others.cells:
            for name in cell.classes:
                counts[name] += cell.count
        single = ClassProfile.objects.filter(device__in=others.rows()).order_by()
        for name, count in single.values_list("device_class__name").annotate(Count("device")):
            counts[name] += count
        return counts

    def _without(self, facet: str) -> "DeviceSearch":
        if facet not in self.wanted.chosen:
            return self
        return DeviceSearch(self.wanted.without(facet), facts=self.facts)

    def _facet_values(self, name: str, counts: Counter[str]) -> list[FacetValue]:
        chosen = self.wanted.values(name)
        values = {value for value, count in counts.items() if value and count} | set(chosen)
        ordered = sorted(values, key=lambda v: (value_place(name, v), -counts[v], v))
        return [self._facet_value(name, v, counts[v]) for v in ordered]

    def _facet_value(self, facet: str, value: str, count: int) -> FacetValue:
        chosen = value in self.wanted.values(facet)
        return FacetValue(value, value_label(facet, value), count, chosen, value_id(facet, value))

    def _nodes(self) -> Facet:
        """The chosen nodes and the first others; a fleet has thousands, which are found by typing."""
        chosen = self.wanted.values("node")
        rows = self._without("node").rows().exclude(node_name="").order_by("node_name")
        counted = rows.values_list("node_name").annotate(Count("pk"))
        others = self._without("node").counted
        units = others.by_node()
        first = list(counted[: NODES_SHOWN + 1])
        first_units = list(units[: NODES_SHOWN + 1]) if others.groups else []
        names = sorted({name for name, _count in (*first, *first_units)})
        values = dict.fromkeys(names[:NODES_SHOWN], 0)
        if missing := set(chosen) - set(values):
            values |= dict.fromkeys(missing, 0)
            first += counted.filter(node_name__in=missing)
            first_units += units.filter(node_name__in=missing) if others.groups else []
        # A node may be in both, and a missing one in neither.
        for name, count in (*dict(first).items(), *dict(first_units).items()):
            if name in values:
                values[name] += count
        listed = [self._facet_value("node", v, n) for v, n in sorted(values.items())]
        return Facet("node", _("Node"), listed, more=len(names) > NODES_SHOWN)

    def _pools(self, nodes: Facet) -> Facet:
        """The chosen pools, and those of the nodes that are listed or of no node: a large fleet has a pool or
        more per node."""
        chosen = self.wanted.values("pool")
        others = self._without("pool")
        if chosen:
            nodes = others._nodes()
        rows = others.rows().order_by()
        near = rows.filter(node_name__in=[*(value.value for value in nodes.values), ""])
        named = (
            near.order_by("pool__driver", "pool__name").values_list("pool__driver", "pool__name").distinct()
        )
        first = [f"{driver}/{name}" for driver, name in named[: POOLS_SHOWN + 1]]
        more = len(first) > POOLS_SHOWN or nodes.more
        by_name = dict.fromkeys([*first[:POOLS_SHOWN], *chosen], 0)
        # Clusters may have pools of the same name.
        pools = {
            pk: f"{driver}/{name}"
            for pk, driver, name in self._pools_named(by_name).values_list("pk", "driver", "name")
        }
        for pk, count in rows.filter(pool__in=pools).values_list("pool_id").annotate(Count("pk")):
            by_name[pools[pk]] += count
        listed = [self._facet_value("pool", name, n) for name, n in sorted(by_name.items())]
        return Facet("pool", _("Pool"), listed, more=more)

    def _pools_named(self, names: Iterable[str]) -> QuerySet[Pool]:
        """Pools by "driver/name"."""
        parts = [(driver, pool) for driver, _slash, pool in (name.partition("/") for name in names)]
        wanted = (Q(driver=driver, name=pool) for driver, pool in parts)
        # Said apart, too, so that they are found in the index of (cluster, driver, name).
        near = Pool.objects.filter(
            cluster__in=self.facts.coverage,
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


def _words(profile: DeviceProfile) -> str:
    words = (product_name(profile), profile.driver, profile.vendor, profile.kind)
    return " ".join(words).casefold()
