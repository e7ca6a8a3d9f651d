"""Searching a fleet of any size: counts per facet, and any page in any order.

100,000 devices are a few dozen *kinds* (`DeviceProfile`) on a few clusters in four states. So the database is
asked once for the number of devices per (cluster, profile, state); every facet that those three decide is
counted from that little table, as is the total, as is the position of any page in any order. What the three
do not decide (free text, node, a class that matches single devices) narrows the rows that are counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from itertools import groupby
from operator import or_
from typing import Any
from zlib import crc32

from django.db import connection
from django.db.models import Count, F, Q, QuerySet
from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.browse_counted import PLUGIN, CountedSearch
from inventory.coverage import Coverage, coverage_of_all
from inventory.filters import DeviceFilter
from inventory.models import ClassProfile, Cluster, Device, DeviceProfile, Pool

# The state of a device on a cluster that is not in step: what the mirror holds of it is the past.
UNKNOWN = "unknown"
STATE_LABELS: Mapping[str, StrOrPromise] = {
    Device.State.FREE: _("free"),
    Device.State.PARTLY: _("partly held"),
    Device.State.HELD: _("held"),
    Device.State.UNAVAILABLE: _("unavailable"),
    UNKNOWN: _("unknown"),
}
STATE_ORDER = list(STATE_LABELS)
DRA = "dra"
BACKEND_LABELS: Mapping[str, StrOrPromise] = {
    DRA: _("named devices (DRA)"),
    PLUGIN: _("counted units (Device Plugin)"),
}
NODES_SHOWN = 8
# Up to here it is cheaper to fetch a group of devices and sort it than to walk an index past all the others.
SMALL_GROUP = 2_000
# Two or three characters are part of some hexadecimal number or other.
MIN_HARDWARE_TEXT = 4
# Up to here the devices that a text names are found once and then known by their keys.
FEW = 2_000


@dataclass(frozen=True)
class Cell:
    """How many devices of one kind are in one state on one cluster."""

    cluster: Cluster
    profile: DeviceProfile
    # As stored, and as it may be told (`UNKNOWN` when the cluster is not in step).
    stored_state: str
    state: str
    classes: frozenset[str]
    count: int
    # DRA, or PLUGIN for units that are counted and never named; those have a profile that is no row.
    backend: str = DRA


@dataclass(frozen=True)
class FacetValue:
    value: str
    label: StrOrPromise
    count: int
    chosen: bool
    # Of its checkbox: the same however often the list is drawn anew, so that it keeps the focus.
    id: str


@dataclass(frozen=True)
class Facet:
    name: str
    label: StrOrPromise
    values: Sequence[FacetValue]
    # There are values that are not listed (nodes of a large fleet): they are found by typing.
    more: bool = False


def product_name(profile: DeviceProfile) -> str:
    """What people call this kind of device: its product, else what is known of it."""
    return profile.product or " ".join(part for part in (profile.driver, profile.kind) if part)


@dataclass(frozen=True)
class FleetFacts:
    """What every search needs to know of the fleet as a whole; a few dozen rows, read once per request."""

    coverage: Mapping[int, Coverage]
    profiles: Mapping[int, DeviceProfile]
    # Names of the classes that match a whole kind, by (cluster, profile).
    classes: Mapping[tuple[int, int], frozenset[str]]
    # Names of the classes that tell devices of one kind apart (they read identity attributes).
    single_classes: frozenset[str]

    @classmethod
    def load(cls, *, now: datetime) -> "FleetFacts":
        names: dict[tuple[int, int], set[str]] = defaultdict(set)
        matches = ClassProfile.objects.filter(device=None)
        for cluster_id, profile_id, name in matches.values_list(
            "device_class__cluster_id", "profile_id", "device_class__name"
        ):
            names[cluster_id, profile_id].add(name)
        single = ClassProfile.objects.exclude(device=None).values_list("device_class__name", flat=True)
        return cls(
            coverage=coverage_of_all(now=now),
            profiles={p.pk: p for p in DeviceProfile.objects.defer("attributes", "capacity")},
            classes={key: frozenset(values) for key, values in names.items()},
            single_classes=frozenset(single.distinct()),
        )


def told_state(device: Device, coverage: Mapping[int, Coverage]) -> str:
    """The state that may be told of a device: the stored one, or `UNKNOWN` when its cluster is not in
    step."""
    return device.state if coverage[device.cluster_id].in_step else UNKNOWN


# Facets that (cluster, profile, state) decide: label and the values of a cell.
_CELL_FACETS: Mapping[str, tuple[StrOrPromise, Callable[[Cell], Collection[str]]]] = {
    "state": (_("State"), lambda cell: (cell.state,)),
    "backend": (_("Offered as"), lambda cell: (cell.backend,)),
    "cluster": (_("Cluster"), lambda cell: (cell.cluster.name,)),
    "vendor": (_("Vendor"), lambda cell: (cell.profile.vendor,)),
    "product": (_("Product"), lambda cell: (product_name(cell.profile),)),
    "kind": (_("Type"), lambda cell: (cell.profile.kind,)),
    "driver": (_("Driver"), lambda cell: (cell.profile.driver,)),
    "class": (_("Class"), lambda cell: cell.classes),
}

_SORT_KEYS: Mapping[str, Callable[[Cell], Any]] = {
    "product": lambda cell: product_name(cell.profile).casefold(),
    "driver": lambda cell: cell.profile.driver,
    # Unknown memory sorts below every known one.
    "memory": lambda cell: -1 if cell.profile.memory_bytes is None else cell.profile.memory_bytes,
    "state": lambda cell: STATE_ORDER.index(cell.state),
    "cluster": lambda cell: cell.cluster.name,
}
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
        counts: dict[str, Counter[str]] = {name: Counter() for name in _CELL_FACETS}
        for cell in [*self._table, *self._counted_table]:
            failing = self._failing(cell)
            if len(failing) > 1:
                continue
            for name in failing or counts:
                for value in _CELL_FACETS[name][1](cell):
                    counts[name][value] += cell.count
        if self.facts.single_classes:
            counts["class"] = self._class_counts()
        facets = [
            Facet(name, label, self._facet_values(name, counts[name]))
            for name, (label, _values) in _CELL_FACETS.items()
            # Where everything is a named device there is nothing to choose.
            if name != "backend" or PLUGIN in counts[name] or self.wanted.values(name)
        ]
        return [*(facet for facet in facets if facet.values), self._nodes()]

    # --- counted units ---------------------------------------------------------------------------

    @cached_property
    def counted(self) -> CountedSearch:
        """The part of the search that is about the units of Device Plugins."""
        return CountedSearch(self.wanted, coverage=self.facts.coverage, unknown=UNKNOWN)

    @property
    def counted_states(self) -> Counter[str]:
        """How many of the matching units are in which (told) state."""
        counts: Counter[str] = Counter()
        for cell in self._counted_table:
            if not self._failing(cell):
                counts[cell.state] += cell.count
        return counts

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
        rows = self._rows.order_by()
        columns = ("profile_id", "cluster_id", "state")
        if self.wanted.terms and _plans_without_statistics():
            # Grouped by what no index orders, so that the rows come from the one that holds the text.
            rows = rows.annotate(walked_kind=F("profile_id") + 0, walked_place=F("cluster_id") + 0)
            columns = ("walked_kind", "walked_place", "state")
        counted: Iterable[Any] = rows.values_list(*columns).annotate(Count("pk"))
        cells = []
        for profile_id, cluster_id, state, count in counted:
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
                )
            )
        return cells

    @cached_property
    def cells(self) -> list[Cell]:
        """How many devices match, by kind, cluster and state."""
        return [cell for cell in self._table if not self._failing(cell)]

    def _failing(self, cell: Cell) -> list[str]:
        """The facets whose choice this cell does not satisfy."""
        return [
            name
            for name, chosen in self.wanted.chosen.items()
            if name in _CELL_FACETS
            and not (name == "class" and self._single_class and cell.backend == DRA)
            and not set(chosen).intersection(_CELL_FACETS[name][1](cell))
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
        key = _SORT_KEYS.get(self.wanted.sort)
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
        backwards = self.wanted.sort not in _SORT_KEYS and self.wanted.descending
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
            (cell.profile.pk, cell.cluster.pk, cell.stored_state): place
            for place, cells in enumerate(groups)
            for cell in cells
        }
        rows = self._narrowed([cell for cells in groups for cell in cells]).order_by(*_ROW_ORDER)
        found = list(rows.values_list("pk", "profile_id", "cluster_id", "state"))
        # A row that changed between two queries of this request has lost its place.
        found.sort(key=lambda row: places.get(row[1:], len(places)))
        return [row[0] for row in found]

    def _narrowed(self, cells: Sequence[Cell]) -> QuerySet[Device]:
        """The rows of some cells of the table."""
        if len(cells) == len(self._table):
            return self._rows
        small = sum(cell.count for cell in cells) <= SMALL_GROUP
        if small or not _plans_without_statistics():
            return self._rows.filter(_within(cells, self._table, kind="profile_id", place="cluster_id"))
        # "+ 0" keeps it from looking so many rows up one by one by kind: it walks the order's index instead.
        walked = self._rows.alias(walked_kind=F("profile_id") + 0, walked_place=F("cluster_id") + 0)
        return walked.filter(_within(cells, self._table, kind="walked_kind", place="walked_place"))

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
        labels = {"state": STATE_LABELS, "backend": BACKEND_LABELS}.get(name, {})
        places = {state: place for place, state in enumerate(labels)}
        ordered = sorted(values, key=lambda v: (places.get(v, 99), -counts[v], v))
        return [_facet_value(name, v, labels.get(v, v), counts[v], chosen) for v in ordered]

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
        listed = [_facet_value("node", v, v, n, chosen) for v, n in sorted(values.items())]
        return Facet("node", _("Node"), listed, more=len(names) > NODES_SHOWN)


def _facet_value(
    facet: str, value: str, label: StrOrPromise, count: int, chosen: Collection[str]
) -> FacetValue:
    return FacetValue(value, label, count, value in chosen, id=f"{facet}-{crc32(value.encode()):08x}")


def _within(cells: Iterable[Cell], table: Iterable[Cell], *, kind: str, place: str) -> Q:
    """The rows of these cells of the table, as a condition on the columns `kind` (profile) and `place`."""
    wanted, every = _kinds(cells), _kinds(table)
    states: dict[tuple[int, frozenset[int] | None], set[str]] = defaultdict(set)
    for (cluster, state), profiles in wanted.items():
        # None: all kinds that there are, so that nothing needs to be compared.
        only = None if profiles == every[cluster, state] else frozenset(profiles)
        states[cluster, only].add(state)
    parts = (
        Q((place, cluster), state__in=sorted(found))
        & (Q() if profiles is None else Q((f"{kind}__in", sorted(profiles))))
        for (cluster, profiles), found in states.items()
    )
    return reduce(or_, parts, Q(pk__in=()))


def _kinds(cells: Iterable[Cell]) -> Mapping[tuple[int, str], set[int]]:
    """Profiles by cluster and stored state."""
    kinds: dict[tuple[int, str], set[int]] = defaultdict(set)
    for cell in cells:
        kinds[cell.cluster.pk, cell.stored_state].add(cell.profile.pk)
    return kinds


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
