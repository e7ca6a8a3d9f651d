"""What is left of the counters that partitions share, and which go together (KEP-4815, KEP-5963)."""

from collections.abc import Iterable

from portal.dra import features as gates
from portal.dra.features import Features
from portal.dra.model import Device
from portal.dra.pools import Pool, PoolDevice
from portal.dra.units import nanos

Slot = tuple[str, str]
"""(counter set, counter)"""


class Counters:
    """The counters of one pool; devices held elsewhere in the cluster have already taken their part."""

    def __init__(self, pool: Pool, held: Iterable[PoolDevice], features: Features) -> None:
        self._left: dict[Slot, int] = {
            (counters.name, name): nanos(counter.value)
            for counters in pool.counters.values()
            for name, counter in counters.counters.items()
        }
        self._grouped = features.enabled(gates.COMPATIBILITY_GROUPS)
        self._groups: dict[str, list[frozenset[str]]] = {}
        for item in held:
            self._book(item.device)

    def take(self, device: Device) -> bool:
        """Book what the device consumes, unless a counter has too little left or groups exclude it."""
        if not self._fits(device):
            return False
        self._book(device)
        return True

    def give_back(self, device: Device) -> None:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                self._left[consumption.counter_set, name] += nanos(counter.value)
            self._groups[consumption.counter_set].pop()

    def left(self, slot: Slot) -> int:
        """In nano units; negative if more was handed out than exists."""
        return self._left.get(slot, 0)

    def snapshot(self) -> tuple[object, ...]:
        """All that decides what still fits, as one hashable value."""
        groups = ((name, tuple(taken)) for name, taken in sorted(self._groups.items()) if taken)
        return tuple(sorted(self._left.items())), tuple(groups) if self._grouped else ()

    def _fits(self, device: Device) -> bool:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                if nanos(counter.value) > self._left.get((consumption.counter_set, name), 0):
                    return False
            if self._grouped and not _together(
                self._groups.get(consumption.counter_set, []), frozenset(consumption.compatibility_groups)
            ):
                return False
        return True

    def _book(self, device: Device) -> None:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                slot = (consumption.counter_set, name)
                self._left[slot] = self._left.get(slot, 0) - nanos(counter.value)
            groups = frozenset(consumption.compatibility_groups)
            self._groups.setdefault(consumption.counter_set, []).append(groups)


def _together(others: list[frozenset[str]], groups: frozenset[str]) -> bool:
    """Devices on one counter set share a group, or none of them has any."""
    if not others:
        return True
    if not groups:
        return not any(others)
    return bool(groups.intersection(*others))
