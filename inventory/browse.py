"""Searching a fleet of any size: counts per facet, and any page in any order.

The database is asked once for the number of devices per cell (`inventory.browse_cells`); every facet that
cells decide is counted from that little table, as is the total, as is the position of any page in any order.
What they do not decide narrows the rows that are counted: node, pool and what matches single devices in the
database (`inventory.browse_rows`), free text in memory (`inventory.browse_racks`, `inventory.browse_hits`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial, reduce
from itertools import compress, groupby
from typing import Any

from django.db.models import Count, QuerySet

from inventory import browse_places
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
)
from inventory.browse_counted import PLUGIN, CountedSearch
from inventory.browse_counts import Counted, counts_of
from inventory.browse_hits import Hits, states_of
from inventory.browse_racks import both
from inventory.browse_rows import Admitted, TableRows, admitted, mentions, of_classes, pools_named, stands_for
from inventory.expressions import Meaning, meaning_of
from inventory.filters import DeviceFilter
from inventory.models import ClassProfile, Device, DeviceProfile
from portal.lists import Facet, value_id
from portal.lists import Value as FacetValue

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

# Up to here the devices that a text finds are asked for by their keys.
FEW = 2_000
# From here on a page of the whole fleet is looked up in the racks: a database walks past all before it.
DEEP = 10_000


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
        return self._table_rows.of(self.cells)

    def page(self, *, offset: int, limit: int) -> list[Device]:
        """`limit` matching devices from `offset` on, in the wanted order, with profile and pool."""
        runs = self._runs(offset, limit)
        first, between, last = runs[:1], runs[1:-1], runs[1:][-1:]
        ids: list[int] = []
        for cells, start, stop in first:
            ids += self._ids(cells, start, stop)
        if between:
            ids += self._answers.ids_of_whole([cells for cells, _start, _stop in between])
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
    def _found(self) -> bytes | None:
        """Flags in the racks of what satisfies all that cells do not decide; None where no word narrows
        it."""
        flags = self._words
        if not flags:
            return None
        racks = self.facts.racks
        nodes, pools = self.wanted.values("node"), self.wanted.values("pool")
        if nodes or pools:
            keys = set(pools_named(pools, facts=self.facts).values_list("pk", flat=True)) if pools else None
            flags = [*flags, racks.at(nodes=frozenset(nodes), pools=keys)]
        return reduce(both, [*flags, *(one.among(racks) for one in self._singles)])

    @cached_property
    def _words(self) -> list[bytes]:
        """For each word that not everything has, the devices that have it."""
        flags = []
        for term in self.wanted.terms:
            kinds, clusters = stands_for(term, facts=self.facts)
            if len(kinds) == len(self.facts.profiles) or len(clusters) == len(self.facts.coverage):
                continue
            found = self.facts.racks.having(term, kinds=kinds, clusters=clusters)
            if 0 in found:
                flags.append(found)
        return flags

    @cached_property
    def _singles(self) -> list[Admitted]:
        """Where the expression or the chosen classes tell devices of one kind apart, those they admit."""
        found = [] if self._single_class is None else [self._single_class]
        if self.meaning is not None and self.meaning.singly:
            kinds = [(cluster, kind) for cluster, kinds in self.meaning.kinds.items() for kind in kinds]
            found.append(admitted(kinds, self.meaning.devices))
        return found

    @cached_property
    def _answers(self) -> TableRows | Hits:
        found = self._found
        if found is not None and found.count(1) > FEW:
            clusters = [known.cluster for known in self.facts.coverage.values()]
            return Hits(self.facts.racks, found, states_of(self.facts.racks, clusters))
        return self._table_rows

    @cached_property
    def _table_rows(self) -> TableRows:
        """Rows that satisfy all that cells do not decide: free text, node, classes of single devices."""
        rows = Device.objects.all()
        found = self._found
        if found is not None and found.count(1) <= FEW:
            rows = rows.filter(pk__in=list(compress(self.facts.racks.keys, found)))
            return TableRows(rows, table=lambda: self._table)
        if found is not None:
            for term in self.wanted.terms:
                rows = rows.filter(mentions(term, facts=self.facts))
        if nodes := self.wanted.values("node"):
            rows = rows.filter(node_name__in=nodes)
        if pools := self.wanted.values("pool"):
            rows = rows.filter(pool__in=pools_named(pools, facts=self.facts).values("pk"))
        for one in self._singles:
            rows = rows.filter(one.condition)
        return TableRows(rows, table=lambda: self._table)

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
        return self._answers.counts()

    @property
    def _whole_fleet(self) -> bool:
        """Whether cells alone decide: nothing else leaves anything out."""
        wanted = self.wanted
        return not (self._words or wanted.values("node") or wanted.values("pool") or self._singles)

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
        return self._answers.nodes_at(self.cells, start, stop)

    def _ids(self, cells: Sequence[Cell], start: int, stop: int) -> list[int]:
        size = sum(cell.count for cell in cells)
        backwards = self.wanted.sort not in SORT_KEYS and self.wanted.descending
        # From whichever end is nearer: the last page costs what the first one does.
        from_end = start > size - stop
        if from_end:
            start, stop = size - stop, size - start
        if start >= DEEP and self._whole_fleet and len(cells) == len(self._table):
            ids = self.facts.racks.run(start, stop, backwards=backwards != from_end)
        else:
            ids = self._answers.ids(cells, start, stop, backwards=backwards != from_end)
        return ids[::-1] if from_end else ids

    # --- classes and nodes -----------------------------------------------------------------------

    @cached_property
    def _single_class(self) -> Admitted | None:
        """What the chosen classes admit, where cells cannot decide it."""
        chosen = self.wanted.values("class")
        if not self.facts.single_classes.intersection(chosen):
            return None
        return of_classes(chosen, facts=self.facts)

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
        found = self._without("node")._as_found()
        return browse_places.nodes(
            found, chosen=self.wanted.values("node"), told=partial(self._facet_value, "node")
        )

    def _pools(self, nodes: Facet) -> Facet:
        chosen, others = self.wanted.values("pool"), self._without("pool")
        return browse_places.pools(
            others._as_found(),
            near=others._nodes() if chosen else nodes,
            chosen=chosen,
            told=partial(self._facet_value, "pool"),
            facts=self.facts,
        )

    def _as_found(self) -> browse_places.Found:
        return browse_places.Found(rows=self._answers, cells=self.cells, counted=self.counted)
