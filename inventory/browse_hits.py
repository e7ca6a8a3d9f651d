"""Devices that a search by words found, more than a few: counted and paged in memory.

A few are asked for by their keys. To ask a database for many it has to walk all rows again for each of the
page's questions, so their positions in the racks answer instead; only states have to be fetched, once per
version of the mirrors.
"""

import threading
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, compress, count, islice

import msgspec

from inventory.browse_cells import Cell
from inventory.browse_counts import Counted
from inventory.browse_racks import Racks, both
from inventory.models import Cluster, Device, Pool
from portal.sql import KeyList, among

# Profile, cluster, stored state, stored health.
Mark = tuple[int, int, str, str]


class States:
    """Which cell each device of the racks is in: a number of `marks` by position, -1 = gone."""

    def __init__(self, racks: Racks) -> None:
        self.marks: list[Mark] = []
        self.numbers = [-1] * len(racks)
        places, numbers = racks.places, self.numbers
        grouped = Device.objects.order_by().values_list("profile_id", "cluster_id", "state", "health")
        for number, (*mark, keys) in enumerate(grouped.annotate(keys=KeyList("pk"))):
            self.marks.append((mark[0], mark[1], mark[2], mark[3]))
            for key in msgspec.json.decode(keys, type=list[int]):
                if (position := places.get(key)) is not None:
                    numbers[position] = number


class Hits:
    """Answers about some of the devices of the racks (`flags`), in order."""

    def __init__(self, racks: Racks, flags: bytes, states: States) -> None:
        self._racks = racks
        self._marks = states.marks
        self._numbers = states.numbers
        self._counts = Counter(compress(states.numbers, flags))
        self._flags = flags
        self._of: dict[frozenset[int], bytes] = {frozenset(self._counts): flags}

    def counts(self) -> Iterator[Counted]:
        """How many there are by profile, cluster, state and health."""
        for number, found in self._counts.items():
            if number >= 0:
                yield (*self._marks[number], found)

    def of(self, cells: Iterable[Cell]) -> bytes:
        """Flags of those that are in these cells."""
        wanted = frozenset(self._number[_mark(cell)] for cell in cells)
        if (known := self._of.get(wanted)) is None:
            known = both(self._flags, bytes(map(wanted.__contains__, self._numbers)))
            self._of[wanted] = known
        return known

    def ids(self, cells: Collection[Cell], start: int, stop: int, *, backwards: bool) -> list[int]:
        """Keys of some of those in these cells, in the order of the racks."""
        keys, found = self._racks.keys, self.of(cells)
        some = compress(reversed(keys), reversed(found)) if backwards else compress(keys, found)
        return list(islice(some, start, stop))

    def ids_of_whole(self, groups: Sequence[Collection[Cell]]) -> list[int]:
        """Keys of all that are in these cells, group by group."""
        places = {self._number[_mark(c)]: place for place, cells in enumerate(groups) for c in cells}
        found = self._positions(chain.from_iterable(groups))
        ordered = sorted(found, key=lambda position: places[self._numbers[position]])
        return [self._racks.keys[position] for position in ordered]

    def nodes_at(self, cells: Collection[Cell], start: int, stop: int) -> list[str]:
        """Nodes of some of those in these cells."""
        found = islice(self._positions(cells), start, stop)
        return [self._racks.nodes[self._spot(position)] for position in found]

    def by_node(self, cells: Collection[Cell], *, first: int) -> list[tuple[str, int]]:
        """The first nodes that have some in these cells, and how many; those of no node left out."""
        found = self.of(cells)
        told: list[tuple[str, int]] = []
        at = 0
        while len(told) < first and (at := found.find(1, at)) >= 0:
            node = self._racks.nodes[self._spot(at)]
            spots = self._racks.by_node[node]
            if node:
                told.append((node, self._within(found, spots)))
            at = self._racks.starts[spots.stop]
        return told

    def of_nodes(self, cells: Collection[Cell], names: Collection[str]) -> list[tuple[str, int]]:
        """How many are on each of these nodes."""
        found, by_node = self.of(cells), self._racks.by_node
        counts = [(name, self._within(found, by_node[name])) for name in names if name in by_node]
        return [told for told in counts if told[1]]

    def pools_near(self, cells: Collection[Cell], nodes: Collection[str], *, first: int) -> list[str]:
        """The first pools ("driver/name") that have some on these nodes ("" = on no node)."""
        found, by_node = self.of(cells), self._racks.by_node
        spots = chain.from_iterable(by_node[name] for name in nodes if name in by_node)
        keys = {self._racks.pools[spot] for spot in spots if self._within(found, range(spot, spot + 1))}
        rows = Pool.objects.filter(among("pk", keys)).order_by("driver", "name")
        named = rows.values_list("driver", "name").distinct()
        return [f"{driver}/{name}" for driver, name in named[:first]]

    def of_pools(self, cells: Collection[Cell], pools: Collection[int]) -> list[tuple[int, int]]:
        """How many are in each of these pools."""
        found, by_pool = self.of(cells), self._racks.by_pool
        return [
            (pool, sum(self._within(found, range(spot, spot + 1)) for spot in by_pool[pool]))
            for pool in pools
            if pool in by_pool
        ]

    # --- positions -------------------------------------------------------------------------------

    @cached_property
    def _number(self) -> dict[Mark, int]:
        return {mark: number for number, mark in enumerate(self._marks)}

    def _positions(self, cells: Iterable[Cell]) -> Iterator[int]:
        return compress(count(), self.of(cells))

    def _within(self, found: bytes, spots: range) -> int:
        """How many stand in a run of spots."""
        return found.count(1, self._racks.starts[spots.start], self._racks.starts[spots.stop])

    def _spot(self, position: int) -> int:
        return bisect_right(self._racks.starts, position) - 1


def _mark(cell: Cell) -> Mark:
    return cell.profile.pk, cell.cluster.pk, cell.stored_state, cell.stored_health


_lock = threading.Lock()
_cached: "OrderedDict[object, tuple[Racks, States]]" = OrderedDict()


def states_of(racks: Racks, clusters: Iterable[Cluster]) -> States:
    """The states of the devices of these racks. The clusters must have been loaded before: their
    `mirror_version` says whether what is remembered still holds; 0 = it never does."""
    versions = {cluster.pk: cluster.mirror_version for cluster in clusters}
    if not all(versions.values()):
        return States(racks)
    key = frozenset(versions.items())
    with _lock:
        known = _cached.get(key)
    if known is not None and known[0] is racks:
        return known[1]
    made = States(racks)
    with _lock:
        _cached.clear()
        _cached[key] = (racks, made)
    return made
