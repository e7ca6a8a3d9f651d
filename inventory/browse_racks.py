"""All devices in the order of the racks, with the words that they are found by, in memory.

A text is looked for in a few texts that differ (kinds, clusters, names, nodes with pools) and in the hardware
ids as one long text; a database would walk a hundred thousand rows for each word. Who publishes which devices
changes seldom: racks are kept per version of the fleets, those of a cluster that was never mirrored (version
0) not at all. A device takes about 100 bytes here, as much again once hardware ids were looked for.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import or_

import msgspec

from inventory.models import Cluster, Device, Pool
from portal.sql import KeyList, TextList

__all__ = ["ROW_ORDER", "Racks", "racks_of"]

# The index `device_browse` holds it together with all that cells need.
ROW_ORDER = ("node_name", "name", "pool_id")
# Two or three characters are part of some hexadecimal number or other.
MIN_HARDWARE_TEXT = 4
# Words of which the devices are remembered, a byte for each device.
WORDS_KEPT = 8
# Up to so many hits are looked up one by one in the text of all hardware ids.
_FEW = 500


class Racks:
    """Devices by position: their keys and names, and the spots they stand in. A spot is a run of devices of
    one node, pool and kind."""

    def __init__(self, clusters: Iterable[int]) -> None:
        rows = Device.objects.filter(cluster__in=list(clusters)).order_by(*ROW_ORDER)
        columns = ("pk", "node_name", "name", "pool_id", "profile_id", "cluster_id")
        known: dict[str, str] = {}
        self.keys: list[int] = []
        self.names: list[str] = []
        self.starts: list[int] = []
        self.nodes: list[str] = []
        self.pools: list[int] = []
        self.kinds: list[int] = []
        self.clusters: list[int] = []
        before: tuple[str, int, int] | None = None
        for pk, node, name, pool, kind, cluster in rows.values_list(*columns).iterator(10_000):
            spot = (node, pool, kind)
            if spot != before:
                self.starts.append(len(self.keys))
                self.nodes.append(node)
                self.pools.append(pool)
                self.kinds.append(kind)
                self.clusters.append(cluster)
                before = spot
            self.keys.append(pk)
            self.names.append(known.setdefault(name, name))
        self.starts.append(len(self.keys))
        self._distinct_names = list(known)
        self._words: OrderedDict[object, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> Mapping[int, int]:
        """The position of each key."""
        return dict(zip(self.keys, range(len(self.keys)), strict=True))

    @cached_property
    def by_node(self) -> Mapping[str, range]:
        """The spots of each node; those of a node stand side by side."""
        spots: dict[str, range] = {}
        for spot, node in enumerate(self.nodes):
            spots[node] = range(spots[node].start if node in spots else spot, spot + 1)
        return spots

    @cached_property
    def by_pool(self) -> Mapping[int, Sequence[int]]:
        """The spots of each pool."""
        spots: dict[int, list[int]] = {}
        for spot, pool in enumerate(self.pools):
            spots.setdefault(pool, []).append(spot)
        return spots

    # --- words -----------------------------------------------------------------------------------

    def having(self, term: str, *, kinds: Collection[int], clusters: Collection[int]) -> bytes:
        """A 1 at the position of each device that a word finds, else a 0. It finds devices by parts of their
        name, node, pool or hardware id, and those of these kinds and clusters, which it stands for."""
        key = (term, frozenset(kinds), frozenset(clusters))
        with self._lock:
            if (known := self._words.get(key)) is not None:
                self._words.move_to_end(key)
                return known
        found = bytes(self._having(term.casefold(), key[1], key[2], hardware=len(term) >= MIN_HARDWARE_TEXT))
        with self._lock:
            self._words[key] = found
            while len(self._words) > WORDS_KEPT:
                self._words.popitem(last=False)
        return found

    def _having(
        self, low: str, kinds: frozenset[int], clusters: frozenset[int], *, hardware: bool
    ) -> bytes | bytearray:
        named = {name for name in self._distinct_names if low in name}
        if named and len(named) == len(self._distinct_names):
            return b"\1" * len(self)
        found = bytearray(map(named.__contains__, self.names)) if named else bytearray(len(self))
        spots = [low in text for text in self._spot_texts]
        if kinds:
            spots = [so or kind in kinds for so, kind in zip(spots, self.kinds, strict=True)]
        if clusters:
            spots = [so or cluster in clusters for so, cluster in zip(spots, self.clusters, strict=True)]
        for start, stop in self._runs(spots):
            found[start:stop] = b"\1" * (stop - start)
        if not hardware:
            return found
        if self._hardware.count(low) > _FEW:
            return bytes(map(or_, found, [low in line for line in self._hardware.split("\n")]))
        at = position = behind = 0
        while (at := self._hardware.find(low, at)) >= 0:
            position += self._hardware.count("\n", behind, at)
            found[position], behind = 1, at
            at += len(low)
        return found

    def at(self, *, nodes: Collection[str] = (), pools: Collection[int] | None = None) -> bytes:
        """A 1 at the position of each device of these nodes and pools; no node and None mean any."""
        found = bytearray(len(self))
        chosen = [
            (not nodes or node in nodes) and (pools is None or pool in pools)
            for node, pool in zip(self.nodes, self.pools, strict=True)
        ]
        for start, stop in self._runs(chosen):
            found[start:stop] = b"\1" * (stop - start)
        return bytes(found)

    def _runs(self, spots: Iterable[bool]) -> Iterator[tuple[int, int]]:
        """From and to which position the chosen spots reach."""
        return compress(zip(self.starts, self.starts[1:], strict=False), spots)

    @cached_property
    def _spot_texts(self) -> list[str]:
        """Node and pool of each spot; a word has no white space in it."""
        pools = dict(Pool.objects.values_list("pk", "name"))
        return [
            f"{node} {pools.get(pool, '')}".casefold()
            for node, pool in zip(self.nodes, self.pools, strict=True)
        ]

    @cached_property
    def _hardware(self) -> str:
        """The hardware ids, a line for each position; a word has no white space in it, whatever drivers
        publish."""
        told = Device.objects.exclude(hardware_id="").aggregate(
            keys=KeyList("pk"), texts=TextList("hardware_id")
        )
        keys = msgspec.json.decode(told["keys"] or b"[]", type=list[int])
        texts = msgspec.json.decode(told["texts"] or b"[]", type=list[str])
        lines = [""] * len(self)
        for key, text in zip(keys, texts, strict=True):
            if (position := self.places.get(key)) is not None:
                lines[position] = text
        whole = "\n".join(lines).casefold()
        if whole.count("\n") >= max(len(lines), 1):
            whole = "\n".join(" ".join(line.split()) for line in lines).casefold()
        return whole


_lock = threading.Lock()
_cached: "OrderedDict[object, Racks]" = OrderedDict()


def racks_of(clusters: Iterable[Cluster]) -> Racks:
    """The racks of these clusters. They must have been loaded before: their `fleet_version` says whether
    racks that are remembered still hold."""
    versions = {cluster.pk: cluster.fleet_version for cluster in clusters}
    if not all(versions.values()):
        return Racks(versions)
    key = frozenset(versions.items())
    with _lock:
        if (known := _cached.get(key)) is not None:
            return known
    made = Racks(versions)
    with _lock:
        # Of one version at a time: nobody asks for those of before.
        _cached.clear()
        _cached[key] = made
    return made
