"""All devices in the order of the racks, with the words that they are found by, in memory.

A text is looked for in the few texts that differ (kinds, clusters, names, nodes with pools) and in hardware
ids; a database would walk a hundred thousand rows for each word. Who publishes which devices changes seldom:
racks are kept per version of the fleets, those of a cluster that was never mirrored (version 0) not at all. A
device takes about 100 bytes here, as much again once hardware ids were looked for.
"""

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from operator import itemgetter

import msgspec

from inventory.models import Cluster, Device, Pool
from portal.sql import KeyList, TextList

__all__ = ["ROW_ORDER", "Racks", "both", "either", "racks_of"]

# The index `device_browse` holds it together with all that cells need.
ROW_ORDER = ("node_name", "name", "pool_id")
# Two or three characters are part of some hexadecimal number or other.
MIN_HARDWARE_TEXT = 4
# Up to here the hardware ids that a word is part of are looked up one by one.
FEW_HITS = 2_000
# Words of which the devices are remembered, a byte for each device.
WORDS_KEPT = 8


class Racks:
    """Devices by position: their keys, and the spots they stand in. A spot is a run of devices of one node,
    pool and kind. Sets of devices are flags: a byte for each position, 1 or 0."""

    def __init__(self, clusters: Iterable[int]) -> None:
        rows = Device.objects.filter(cluster__in=list(clusters)).order_by(*ROW_ORDER)
        columns = ("node_name", "pool_id", "profile_id", "cluster_id", "pk", "name")
        self.keys: list[int] = []
        self.starts: list[int] = []
        self.nodes: list[str] = []
        self.pools: list[int] = []
        self.kinds: list[int] = []
        self.clusters: list[int] = []
        # Nodes of one model name their devices alike: the names in each spot, by their place in `_names`.
        self._named: list[int] = []
        known: dict[tuple[str, ...], int] = {}
        found = rows.values_list(*columns).iterator(10_000)
        for (node, pool, kind, cluster), devices in groupby(found, key=itemgetter(0, 1, 2, 3)):
            *_spot, keys, names = zip(*devices, strict=True)
            self.starts.append(len(self.keys))
            self.nodes.append(node)
            self.pools.append(pool)
            self.kinds.append(kind)
            self.clusters.append(cluster)
            self._named.append(known.setdefault(names, len(known)))
            self.keys += keys
        self.starts.append(len(self.keys))
        self._names = list(known)
        self._words: OrderedDict[object, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.keys)

    def run(self, start: int, stop: int, *, backwards: bool) -> list[int]:
        """The keys of some devices that stand side by side, counted from the first, or from the last."""
        if not backwards:
            return self.keys[start:stop]
        return self.keys[max(len(self) - stop, 0) : max(len(self) - start, 0)][::-1]

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
        found = self._having(term.casefold(), key[1], key[2], hardware=len(term) >= MIN_HARDWARE_TEXT)
        with self._lock:
            self._words[key] = found
            while len(self._words) > WORDS_KEPT:
                self._words.popitem(last=False)
        return found

    def _having(self, low: str, kinds: frozenset[int], clusters: frozenset[int], *, hardware: bool) -> bytes:
        spots = [low in text for text in self._spot_texts]
        if kinds:
            spots = [so or kind in kinds for so, kind in zip(spots, self.kinds, strict=True)]
        if clusters:
            spots = [so or cluster in clusters for so, cluster in zip(spots, self.clusters, strict=True)]
        found = self._spread(spots, [bytes([low in name for name in names]) for names in self._names])
        return either(found, self._having_hardware(low)) if hardware else found

    def _having_hardware(self, low: str) -> bytes:
        """A 1 at the position of each device with such a hardware id."""
        whole, found = self._hardware_text, bytearray(len(self))
        at, hits = whole.find(low), 0
        while at >= 0 and hits < FEW_HITS:
            position = bisect_right(self._hardware_starts, at) - 1
            found[position] = 1
            hits += 1
            at = whole.find(low, self._hardware_starts[position + 1])
        # Where it is part of many, each hit costs more than a look at every device does.
        return bytes(found) if at < 0 else bytes([low in text for text in self._hardware])

    def at(self, *, nodes: Collection[str] = (), pools: Collection[int] | None = None) -> bytes:
        """A 1 at the position of each device of these nodes and pools; no node and None mean any."""
        return self._spread(
            (not nodes or node in nodes) and (pools is None or pool in pools)
            for node, pool in zip(self.nodes, self.pools, strict=True)
        )

    def of(self, *, kinds: Collection[tuple[int, int]], keys: Iterable[int]) -> bytes:
        """A 1 at the position of each device of these kinds (cluster, profile), and of those with these
        keys."""
        flags = bytearray(self._spread(map(kinds.__contains__, zip(self.clusters, self.kinds, strict=True))))
        for key in keys:
            if (position := self.places.get(key)) is not None:
                flags[position] = 1
        return bytes(flags)

    def _spread(self, spots: Iterable[bool], others: Sequence[bytes] = ()) -> bytes:
        """From spots to positions: a 1 for all devices of a chosen spot, what `others` has for names like
        theirs for those of another."""
        others = others or self._none
        chosen = zip(spots, self._named, strict=True)
        return b"".join([self._all[named] if so else others[named] for so, named in chosen])

    @cached_property
    def _all(self) -> Sequence[bytes]:
        return [b"\1" * len(names) for names in self._names]

    @cached_property
    def _none(self) -> Sequence[bytes]:
        return [bytes(len(names)) for names in self._names]

    @cached_property
    def _spot_texts(self) -> list[str]:
        """Node and pool of each spot; a word has no white space in it."""
        pools = dict(Pool.objects.values_list("pk", "name"))
        return [
            f"{node} {pools.get(pool, '')}".casefold()
            for node, pool in zip(self.nodes, self.pools, strict=True)
        ]

    @cached_property
    def _hardware(self) -> Sequence[str]:
        """The hardware id at each position."""
        told = Device.objects.exclude(hardware_id="").aggregate(
            keys=KeyList("pk"), texts=TextList("hardware_id")
        )
        keys = msgspec.json.decode(told["keys"] or b"[]", type=list[int])
        texts = msgspec.json.decode(told["texts"] or b"[]", type=list[str])
        found = [""] * len(self)
        for key, text in zip(keys, texts, strict=True):
            if (position := self.places.get(key)) is not None:
                found[position] = text.casefold()
        return found

    @cached_property
    def _hardware_text(self) -> str:
        """All of them, a line each: most words are part of none, which is seen here at once."""
        return "".join(f"{text}\n" for text in self._hardware)

    @cached_property
    def _hardware_starts(self) -> Sequence[int]:
        """Where the line of each position starts; in the end, where the text does."""
        return array("l", accumulate((len(text) + 1 for text in self._hardware), initial=0))


def either(first: bytes, second: bytes) -> bytes:
    """Flags of what is in one of two sets."""
    found = int.from_bytes(first, "little") | int.from_bytes(second, "little")
    return found.to_bytes(len(first), "little")


def both(first: bytes, second: bytes) -> bytes:
    """Flags of what is in both sets."""
    found = int.from_bytes(first, "little") & int.from_bytes(second, "little")
    return found.to_bytes(len(first), "little")


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
