"""Pools of devices as one node sees them.

A pool is all ResourceSlices with the same driver and pool name. Only its highest generation counts; it is
incomplete while fewer slices exist than announced, and invalid when its slices contradict each other.
"""

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import msgspec

from portal.dra import features as gates
from portal.dra import nodeselector
from portal.dra.errors import ClaimError
from portal.dra.features import Features
from portal.dra.holdings import DeviceId
from portal.dra.matching import is_odd
from portal.dra.model import (
    CounterSet,
    Device,
    DeviceTaint,
    Node,
    NodeSelector,
    ResourceSlice,
    ResourceSliceSpec,
)
from portal.dra.outcomes import Reason
from portal.dra.taints import TaintRules


class PoolDevice(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One device of a pool, with the slice that published it and all its taints."""

    id: DeviceId
    device: Device
    source: ResourceSlice
    taints: tuple[DeviceTaint, ...]

    @property
    def node_name(self) -> str | None:
        """The one node that has it, whether the slice or the device says so."""
        spec = self.source.spec
        return (self.device.node_name if spec.per_device_node_selection else spec.node_name) or None

    @property
    def node_selector(self) -> NodeSelector | None:
        spec = self.source.spec
        return self.device.node_selector if spec.per_device_node_selection else spec.node_selector

    def reaches(self, node: Node) -> bool:
        """Whether the node can use the device."""
        return _Reach(self.source).has(node) and self.on(node)

    def on(self, node: Node) -> bool:
        """Whether the device itself can be used on the node, where its slice leaves that to the device."""
        device = self.device
        return not self.source.spec.per_device_node_selection or _admits(device, node, self.source)


class Pool:
    """All slices of the highest generation of a pool; immutable once built."""

    def __init__(
        self, driver: str, name: str, slices: list[ResourceSlice], dropped: int, features: Features
    ) -> None:
        self.driver = driver
        self.name = name
        self.slices = tuple(sorted(slices, key=lambda item: item.metadata.name))
        self.features = features
        published = len(slices) + dropped
        announced = sorted({item.spec.pool.resource_slice_count for item in self.slices})
        self.incomplete = len(announced) < 2 and (bool(dropped) or published not in announced)
        self.counters: dict[str, CounterSet] = {}
        self.invalid: Reason | None = None
        self.binds = features.enabled(gates.DEVICE_BINDING_CONDITIONS) and any(
            device.binding_conditions for item in self.slices for device in item.spec.devices
        )
        self.everywhere: tuple[int, ...] = ()
        """The positions of all its slices, if every node can use them."""
        if all(_for_all_nodes(item.spec) for item in self.slices):
            self.everywhere = tuple(range(len(self.slices)))
        self.per_device = any(item.spec.per_device_node_selection for item in self.slices)
        if len(announced) > 1:
            # Whether it is complete cannot be told.
            counts = {"one": announced[0], "other": announced[-1]}
            self.invalid = Reason(code="contradictory-count", params=counts)
        elif not self.incomplete:
            self.invalid = self._fault()

    @property
    def key(self) -> tuple[str, str]:
        return self.driver, self.name

    @cached_property
    def local_to(self) -> str | None:
        """The name of the node that alone has the whole pool, if there is one."""
        names = {item.spec.node_name for item in self.slices}
        return names.pop() or None if len(names) == 1 else None

    def _fault(self) -> Reason | None:
        """What makes the pool invalid, if anything; fills `counters` on the way."""
        seen: set[str] = set()
        for device in chain.from_iterable(item.spec.devices for item in self.slices):
            if device.name in seen:
                return Reason(code="duplicate-device", params={"device": device.name})
            seen.add(device.name)
        if not self.features.enabled(gates.PARTITIONABLE_DEVICES):
            return None
        for counters in chain.from_iterable(item.spec.shared_counters for item in self.slices):
            if counters.name in self.counters:
                return Reason(code="duplicate-counter-set", params={"counter_set": counters.name})
            self.counters[counters.name] = counters
        for device in chain.from_iterable(item.spec.devices for item in self.slices):
            for consumption in device.consumes_counters:
                known = self.counters.get(consumption.counter_set)
                if known is None:
                    params = {"device": device.name, "counter_set": consumption.counter_set}
                    return Reason(code="missing-counter-set", params=params)
                for counter in consumption.counters:
                    if counter not in known.counters:
                        params = {
                            "device": device.name,
                            "counter_set": consumption.counter_set,
                            "counter": counter,
                        }
                        return Reason(code="missing-counter", params=params)
        return None


class NodePool(msgspec.Struct, frozen=True):
    """A pool as one node sees it: the devices of the slices that target the node, in their order."""

    pool: Pool
    devices: tuple[PoolDevice, ...]


class Pools:
    """All pools of a cluster, and the view that each node has of them."""

    def __init__(self, slices: Iterable[ResourceSlice], rules: TaintRules, features: Features) -> None:
        self._features = features
        self._rules = rules
        self._reaches: dict[int, _Reach] = {}
        self._seen: dict[tuple[int, tuple[int, ...]], NodePool] = {}
        self._devices: dict[int, tuple[PoolDevice, ...]] = {}
        self.all = tuple(_ordered(_newest(slices, features)))
        self._local: dict[str, list[Pool]] = defaultdict(list)
        self._shared: list[Pool] = []
        for pool in self.all:
            if (name := pool.local_to) is not None:
                self._local[name].append(pool)
            else:
                self._shared.append(pool)

    def under(self, rules: TaintRules) -> "Pools":
        """The same pools under other taint rules."""
        other = copy.copy(self)
        other._rules = rules
        other._devices, other._seen = {}, {}
        return other

    @cached_property
    def odd(self) -> bool:
        """Whether some device has an attribute that CEL cannot take."""
        return any(
            is_odd(device) for pool in self.all for item in pool.slices for device in item.spec.devices
        )

    def devices_of(self, pool: Pool) -> Iterator[PoolDevice]:
        """Every device of the pool, whatever nodes can use it."""
        for item in pool.slices:
            yield from self._of_slice(item)

    def seen_from(self, node: Node) -> tuple[NodePool, ...]:
        """Pools in the order in which they are searched: by driver and name, those that bind conditions last.

        Raises ClaimError for a node selector that makes no sense.
        """
        local = self._local.get(node.metadata.name, [])
        candidates: Iterable[Pool] = local
        if self._shared:
            candidates = _ordered([*local, *self._shared]) if local else self._shared
        views = (self._view(pool, node) for pool in candidates)
        return tuple(found for found in views if found is not None)

    def _view(self, pool: Pool, node: Node) -> NodePool | None:
        """The pool as the node sees it; nodes that see the same slices share one view."""
        if pool.everywhere:
            seen = pool.everywhere
        else:
            seen = tuple(index for index, item in enumerate(pool.slices) if self._reach(item).has(node))
            if not seen:
                return None
        key = (id(pool), seen)
        known = self._seen.get(key)
        if known is None:
            devices = tuple(chain.from_iterable(self._of_slice(pool.slices[index]) for index in seen))
            known = self._seen[key] = NodePool(pool=pool, devices=devices)
        return known

    def _reach(self, item: ResourceSlice) -> "_Reach":
        known = self._reaches.get(id(item))
        if known is None:
            known = self._reaches[id(item)] = _Reach(item)
        return known

    def _of_slice(self, item: ResourceSlice) -> tuple[PoolDevice, ...]:
        key = id(item)
        known = self._devices.get(key)
        if known is None:
            known = self._devices[key] = tuple(self._settle(item))
        return known

    def _settle(self, item: ResourceSlice) -> Iterator[PoolDevice]:
        spec = item.spec
        driver, pool = spec.driver, spec.pool.name
        tainting = self._features.enabled(gates.DEVICE_TAINTS)
        ruled = tainting and bool(self._rules)
        for device in spec.devices:
            taints = device.taints if tainting else ()
            if ruled:
                taints += self._rules.for_device(driver, pool, device.name)
            yield PoolDevice((driver, pool, device.name), device, item, taints)


def _ordered(pools: Iterable[Pool]) -> list[Pool]:
    return sorted(pools, key=lambda pool: (pool.binds, pool.driver, pool.name))


def _newest(slices: Iterable[ResourceSlice], features: Features) -> Iterator[Pool]:
    """Group slices into pools, keeping only each pool's highest generation."""
    groups: dict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for item in slices:
        groups[item.spec.driver, item.spec.pool.name].append(item)
    for (driver, name), members in groups.items():
        newest = max(item.spec.pool.generation for item in members)
        current = [item for item in members if item.spec.pool.generation == newest]
        usable = [item for item in current if missing_gate(item, features) is None]
        if usable:
            yield Pool(driver, name, usable, len(current) - len(usable), features)


def missing_gate(item: ResourceSlice, features: Features) -> str | None:
    """The gate that a slice leans on and that is off, if any. Such slices are left out, which leaves their
    pool incomplete."""
    spec = item.spec
    if spec.per_device_node_selection and not features.enabled(gates.PARTITIONABLE_DEVICES):
        return gates.PARTITIONABLE_DEVICES
    grouped = not features.enabled(gates.COMPATIBILITY_GROUPS) and any(
        consumption.compatibility_groups
        for device in spec.devices
        for consumption in device.consumes_counters
    )
    return gates.COMPATIBILITY_GROUPS if grouped else None


class _Reach:
    """Which nodes a slice has something for; what many of its devices say alike is looked at once."""

    def __init__(self, item: ResourceSlice) -> None:
        spec = item.spec
        self._source = item
        says: Sequence[ResourceSliceSpec | Device] = (
            spec.devices if spec.per_device_node_selection else (spec,)
        )
        self._names = frozenset(where.node_name for where in says if where.node_name)
        rest = [where for where in says if not where.node_name]
        self._everywhere = any(where.all_nodes for where in rest)
        self._selecting = {where.node_selector: where for where in rest if where.node_selector is not None}

    def has(self, node: Node) -> bool:
        """Raises ClaimError for a node selector without meaning."""
        return (
            self._everywhere
            or node.metadata.name in self._names
            or any(_admits(where, node, self._source) for where in self._selecting.values())
        )


def _for_all_nodes(spec: ResourceSliceSpec) -> bool:
    return bool(spec.all_nodes) and not spec.node_name and not spec.per_device_node_selection


def _admits(where: ResourceSliceSpec | Device, node: Node, source: ResourceSlice) -> bool:
    """Whether a slice or device names the node; raises ClaimError for a senseless selector."""
    if where.node_name:
        return where.node_name == node.metadata.name
    if where.all_nodes:
        return True
    try:
        return where.node_selector is not None and nodeselector.matches(where.node_selector, node)
    except nodeselector.UnusableSelector as error:
        at = f"ResourceSlice {source.metadata.name}"
        raise ClaimError("bad-node-selector", at=at, message=str(error)) from None
