"""What is in use while the search tries out devices, and how it is taken back."""

from collections.abc import Callable

from portal.dra import features as gates
from portal.dra.allocator.capacity import share_of, suffices
from portal.dra.allocator.constraints import Constraint
from portal.dra.allocator.counters import Counters
from portal.dra.allocator.requests import Wish
from portal.dra.fleet import Fleet
from portal.dra.holdings import DeviceId
from portal.dra.pools import NodePool, Pool, PoolDevice
from portal.dra.quantity import Quantity
from portal.dra.taints import untolerated
from portal.dra.units import nanos

Share = dict[str, Quantity]
Undo = Callable[[], None]


class Taken:
    """One device tried for a wish; `share` is what it consumes of a device that several claims may use."""

    __slots__ = ("item", "share", "undo", "wish")

    def __init__(self, wish: Wish, item: PoolDevice, share: Share | None, undo: Undo) -> None:
        self.wish = wish
        self.item = item
        self.share = share
        self.undo = undo


class State:
    """Devices, shares and counters in use by others and by the current attempt."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holdings = fleet.holdings
        features = fleet.features
        self._features = features
        self._sharing = features.enabled(gates.CONSUMABLE_CAPACITY)
        self._counting = features.enabled(gates.PARTITIONABLE_DEVICES)
        self._trying: dict[DeviceId, list[int]] = {}
        self._shared: dict[DeviceId, dict[str, int]] = {}
        self._counters: dict[tuple[str, str], Counters] = {}

    def shareable(self, item: PoolDevice) -> bool:
        """Whether several claims may use the device at the same time."""
        return self._sharing and bool(item.device.allow_multiple_allocations)

    def in_use(self, wish: Wish, item: PoolDevice, claim: int) -> bool:
        """Whether the device is out of question before anything else about it is looked at.

        Administrative access ignores all holders, but a claim gets no device twice that way.
        """
        trying = self._trying.get(item.id, ())
        if wish.admin:
            return claim in trying
        if self.shareable(item):
            return self._holdings.as_whole(item.id)
        return bool(trying) or self._holdings.at_all(item.id)

    def held(self, item: PoolDevice) -> bool:
        """Whether claims outside of this attempt hold the device, so that no ordinary request can have it."""
        if self.shareable(item):
            return self._holdings.as_whole(item.id)
        return self._holdings.at_all(item.id)

    def counted(self, item: PoolDevice) -> bool:
        """Whether the device is in use already, so that another share of it draws on no counters."""
        return bool(self._trying.get(item.id)) or self._holdings.at_all(item.id)

    def tried_by(self, item: PoolDevice) -> tuple[int, ...]:
        """Which claims of this attempt have the device at the moment."""
        return tuple(self._trying.get(item.id, ()))

    def take(self, wish: Wish, seen: NodePool, item: PoolDevice, claim: int) -> Taken | None:
        """Use the device unless capacity, counters or taints forbid it; constraints come after."""
        shared = self.shareable(item) and not wish.admin
        share: Share | None = None
        if self._sharing:
            if shared:
                share = share_of(item.device, wish.capacity, self._features)
                if share is None or not self._fits(item, share):
                    return None
            elif wish.capacity and not suffices(item.device, wish.capacity):
                return None
        if item.device.consumes_counters and not self._counting:
            return None
        if untolerated(item.taints, wish.tolerations) is not None:
            return None
        counters = self._counters_for(seen.pool, item)
        if counters is not None and not counters.take(item.device):
            return None
        self._trying.setdefault(item.id, []).append(claim)
        if share is not None:
            self._consume(item, share, 1)

        def undo() -> None:
            self._trying[item.id].remove(claim)
            if share is not None:
                self._consume(item, share, -1)
            if counters is not None:
                counters.give_back(item.device)

        return Taken(wish, item, share, undo)

    def consumed(self, item: PoolDevice) -> dict[str, int]:
        """What shares of the device consume by now, in nano units."""
        used = self._holdings.consumed(item.id)
        for name, amount in self._shared.get(item.id, {}).items():
            used[name] = used.get(name, 0) + amount
        return used

    def _fits(self, item: PoolDevice, share: Share) -> bool:
        used = self.consumed(item)
        return all(
            used.get(name, 0) + amount.nanos <= nanos(item.device.capacity[name].value)
            for name, amount in share.items()
        )

    def _consume(self, item: PoolDevice, share: Share, sign: int) -> None:
        used = self._shared.setdefault(item.id, {})
        for name, amount in share.items():
            used[name] = used.get(name, 0) + sign * amount.nanos

    def _counters_for(self, pool: Pool, item: PoolDevice) -> Counters | None:
        """The counters that this device draws on now: a shared one does so once.

        Administrative access draws on them like any use, and once more where the device is held already:
        that is how kube-scheduler counts up to 1.37 (kubernetes/kubernetes#140729).
        """
        if not self._counting or not item.device.consumes_counters:
            return None
        if self.shareable(item) and self.counted(item):
            return None
        return self.counters(pool)

    def counters(self, pool: Pool) -> Counters:
        """What is left in a pool; all its devices count, wherever they are used."""
        known = self._counters.get(pool.key)
        if known is None:
            held = (other for other in self._fleet.devices(pool) if self._holdings.at_all(other.id))
            known = self._counters[pool.key] = Counters(pool, held, self._features)
        return known


def constrain(constraints: list[Constraint], wish: Wish, item: PoolDevice) -> Undo | None:
    """Add the device to all constraints that concern the wish, or to none of them."""
    added: list[Constraint] = []

    def undo() -> None:
        for constraint in added:
            constraint.remove()

    for constraint in constraints:
        if not constraint.concerns(wish.parent, wish.name):
            continue
        if not constraint.add(item.id[0], item.device):
            undo()
            return None
        added.append(constraint)
    return undo
