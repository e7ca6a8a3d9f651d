"""Which devices, and how much of shared ones, existing allocations hold."""

from collections import defaultdict
from collections.abc import Iterable, Set

from portal.dra import features as gates
from portal.dra.features import Features
from portal.dra.model import AllocationResult, ResourceClaim
from portal.dra.units import nanos

DeviceId = tuple[str, str, str]
"""(driver, pool, device)"""


class Holdings:
    """What all allocated claims hold together. Administrative access holds nothing.

    `before` is what was held already: plans are laid over a fleet's holdings without copying them.
    """

    def __init__(
        self, claims: Iterable[ResourceClaim], features: Features, *, before: "Holdings | None" = None
    ) -> None:
        self._before: Holdings | None = before
        self._whole: set[DeviceId] = set()
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._holders: dict[DeviceId, list[tuple[str, str]]] = defaultdict(list)
        self._pools: dict[tuple[str, str], set[str]] = {}
        if before is not None and before._before is not None:
            # Plans upon plans stay flat: one layer over what the fleet holds, however long the plan gets.
            self._before = before._before
            self._whole |= before._whole
            self._consumed |= {device: dict(consumed) for device, consumed in before._consumed.items()}
            self._holders |= {device: list(keys) for device, keys in before._holders.items()}
            self._pools |= {pool: set(names) for pool, names in before._pools.items()}
        self._sharing = features.enabled(gates.CONSUMABLE_CAPACITY)
        for claim in claims:
            if claim.status.allocation is not None:
                self._hold(claim.status.allocation, claim.key)

    def _hold(self, allocation: AllocationResult, key: tuple[str, str]) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = (result.driver, result.pool, result.device)
            self._holders[device].append(key)
            self._pools.setdefault(device[:2], set()).add(result.device)
            if not (self._sharing and result.share_id is not None):
                self._whole.add(device)
                continue
            consumed = self._consumed.setdefault(device, {})
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, 0) + nanos(amount)

    def as_whole(self, device: DeviceId) -> bool:
        """Held by somebody who does not share."""
        return device in self._whole or (self._before is not None and self._before.as_whole(device))

    def at_all(self, device: DeviceId) -> bool:
        """Held as a whole or in shares."""
        return (
            device in self._whole
            or device in self._consumed
            or (self._before is not None and self._before.at_all(device))
        )

    def touch(self, pool: tuple[str, str]) -> bool:
        """Whether any device of the pool (driver, name) is held, as a whole or in shares."""
        return pool in self._pools or (self._before is not None and self._before.touch(pool))

    def names_in(self, pool: tuple[str, str]) -> Set[str]:
        """Names of the devices of the pool (driver, name) that are held, as a whole or in shares."""
        own: Set[str] = self._pools.get(pool, frozenset())
        earlier: Set[str] = frozenset() if self._before is None else self._before.names_in(pool)
        return own | earlier if own and earlier else own or earlier

    def consumed(self, device: DeviceId) -> dict[str, int]:
        """What shares of the device consume of its capacities, in nano units."""
        used = {} if self._before is None else self._before.consumed(device)
        for name, amount in self._consumed.get(device, {}).items():
            used[name] = used.get(name, 0) + amount
        return used

    def holders(self, device: DeviceId) -> tuple[tuple[str, str], ...]:
        """(namespace, name) of the claims that hold the device or a share of it."""
        earlier = () if self._before is None else self._before.holders(device)
        return (*earlier, *self._holders.get(device, ()))
