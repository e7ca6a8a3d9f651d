"""Devices that are the same to a claim and are used from the same nodes, taken together.

A fleet of forty thousand devices has five thousand such batches, or fewer; whatever is asked of one device
of a batch is answered for all of them, except who holds which.
"""

from collections.abc import Iterable, Sequence

from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim
from portal.dra.pools import PoolDevice
from portal.dra.signature import Signatures


class Batch:
    """Some devices of one kind and one origin. `positions` are their places in the order of the search."""

    __slots__ = ("items", "kind", "origin", "positions")

    def __init__(self, kind: int, origin: int, items: Sequence[PoolDevice], positions: Sequence[int]) -> None:
        self.kind = kind
        self.origin = origin
        self.items = items
        self.positions = positions

    @property
    def one(self) -> PoolDevice:
        """The first of them, who speaks for all."""
        return self.items[0]

    def only(self, kept: Sequence[bool]) -> "Batch | None":
        """Those of them that are kept; itself if all are, None if none is."""
        if all(kept):
            return self
        if not any(kept):
            return None
        chosen = [index for index, keep in enumerate(kept) if keep]
        return Batch(
            self.kind,
            self.origin,
            [self.items[index] for index in chosen],
            [self.positions[index] for index in chosen],
        )


def origin_of(item: PoolDevice) -> int:
    """What says where the device can be used: itself or its slice."""
    return id(item.device) if item.source.spec.per_device_node_selection else id(item.source)


def batches(fleet: Fleet, claim: ResourceClaim) -> Sequence[Batch]:
    """The devices of all pools that can be used, as the claim tells them apart, in the order of their first
    ones."""
    signatures = Signatures(fleet, (claim,))

    def group() -> Sequence[Batch]:
        found: dict[tuple[int, int], tuple[list[PoolDevice], list[int]]] = {}
        position = 0
        for pool in fleet.pools:
            if pool.incomplete or pool.invalid is not None:
                continue
            for item in fleet.devices(pool):
                items, positions = found.setdefault((signatures.kind(item), origin_of(item)), ([], []))
                items.append(item)
                positions.append(position)
                position += 1
        return [Batch(*key, items, positions) for key, (items, positions) in found.items()]

    return fleet.memory(("batches", signatures.key), group)


def in_order(some: Iterable[Batch]) -> list[Batch]:
    """Batches in the order of their first devices."""
    return sorted(some, key=lambda batch: batch.positions[0])


def devices_of(some: Iterable[Batch]) -> list[PoolDevice]:
    """Their devices, in the order of the search."""
    pairs = [pair for batch in some for pair in zip(batch.positions, batch.items, strict=True)]
    return [item for _position, item in sorted(pairs, key=lambda pair: pair[0])]
