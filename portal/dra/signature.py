"""What makes two nodes the same to a set of claims, so that only one of them has to be tried.

Names do not count; what a node's free devices are to the claims' expressions and constraints, does.
"""

from collections.abc import Hashable, Sequence
from itertools import count

from portal.dra import features as gates
from portal.dra.allocator.constraints import lookup
from portal.dra.allocator.state import State
from portal.dra.fleet import Fleet
from portal.dra.matching import Matcher
from portal.dra.model import DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from portal.dra.pools import NodePool, PoolDevice


class _Kinds:
    """Numbers of the kinds of device that are told apart, the kind of each device, and (kind, shareable) of
    the devices of pools."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        # Several threads may count at once.
        self.next = count()
        self.of: dict[int, int] = {}
        self.rows: dict[int, tuple[tuple[int, bool], ...]] = {}


class _Nodes:
    """Numbers of the signatures of a fleet's nodes."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.next = count()
        self.of: dict[str, int] = {}


class Signatures:
    """Signatures of the nodes of a fleet for an ordered list of claims; equal ones have equal chances."""

    def __init__(self, fleet: Fleet, claims: Sequence[ResourceClaim]) -> None:
        self._fleet = fleet
        self._state = State(fleet)
        asks = [ask for claim in claims for ask in _asks(claim)]
        self._keep_held = any(
            ask.allocation_mode == "All" or (isinstance(ask, ExactDeviceRequest) and ask.admin_access)
            for ask in asks
        )
        self._matchers = list(_matchers(fleet, asks))
        self._attributes = sorted(
            {
                item.match_attribute or item.distinct_attribute or ""
                for claim in claims
                for item in claim.spec.devices.constraints
            }
        )
        self._sharing = fleet.features.enabled(gates.CONSUMABLE_CAPACITY)
        self._sizes = any(ask.capacity for ask in asks)
        asked = tuple(matcher.expression for matcher in self._matchers)
        self.key = ("kinds", asked, tuple(self._attributes), self._sharing, self._sizes)
        self._kinds = fleet.memory(self.key, _Kinds)
        self._nodes = fleet.recall((self.key, self._keep_held), _Nodes)
        self._failing: dict[int, bool] = {}

    def of(self, node: str) -> Hashable:
        """Raises ClaimError where the pools of the node cannot be told."""
        known = self._nodes.of.get(node)
        if known is None:
            signature = tuple(self._pool(seen, node) for seen in self._fleet.seen_from(node))
            known = self._nodes.of[node] = self._nodes.numbers.setdefault(signature, next(self._nodes.next))
        return known

    def kind(self, item: PoolDevice) -> int:
        """The same number for what is the same to the claims, whoever holds it."""
        known = self._kinds.of.get(id(item))
        if known is None:
            numbers = self._kinds.numbers
            known = self._kinds.of[id(item)] = numbers.setdefault(
                self._describe(item), next(self._kinds.next)
            )
        return known

    def _pool(self, seen: NodePool, node: str) -> Hashable:
        pool = seen.pool
        if pool.local_to is None and not pool.per_device:
            return id(seen)
        usable = seen.devices
        if pool.local_to is None:
            known = self._fleet.node(node)
            usable = tuple(item for item in seen.devices if item.on(known))
            if any(self._fails(item) for item in seen.devices):
                # Then even devices that are not for this node decide how the search ends, and where.
                return id(seen), tuple(id(item) for item in usable)
        devices = self._devices(seen, usable)
        counters: Hashable = self._state.counters(pool).snapshot() if pool.counters else ()
        return pool.driver, pool.incomplete, pool.invalid is None, devices, counters

    def _devices(self, seen: NodePool, usable: Sequence[PoolDevice]) -> Hashable:
        """What of the pool's devices could be had, in order."""
        whole = usable is seen.devices
        rows = self._kinds.rows.get(id(seen)) if whole else None
        if rows is None:
            rows = tuple((self.kind(item), self._state.shareable(item)) for item in usable)
            if whole:
                self._kinds.rows[id(seen)] = rows
        holdings = self._fleet.holdings
        held = holdings.names_in(seen.pool.key)
        if not held:
            return rows
        found: list[Hashable] = []
        for item, row in zip(usable, rows, strict=True):
            if item.id[2] not in held:
                found.append(row)
            elif row[1]:
                found.append((row, tuple(sorted(holdings.consumed(item.id).items()))))
            elif self._keep_held:
                found.append((row, None))
        return tuple(found)

    def _fails(self, item: PoolDevice) -> bool:
        """Whether some expression has no answer for the device."""
        known = self._failing.get(id(item))
        if known is None:
            verdicts = (matcher.verdict(item.id[0], item.device) for matcher in self._matchers)
            known = self._failing[id(item)] = any(verdict.error for verdict in verdicts)
        return known

    def _describe(self, item: PoolDevice) -> Hashable:
        driver, device = item.id[0], item.device
        shared = self._state.shareable(item)
        return (
            tuple(matcher.verdict(driver, device) for matcher in self._matchers),
            tuple(lookup(driver, device, attribute) for attribute in self._attributes),
            item.taints,
            tuple(
                (
                    consumption.counter_set,
                    tuple((name, counter.value) for name, counter in consumption.counters.items()),
                    consumption.compatibility_groups,
                )
                for consumption in device.consumes_counters
            ),
            tuple(sorted(device.capacity.items(), key=lambda pair: pair[0])) if shared or self._sizes else (),
            shared,
            bool(device.binding_conditions),
        )


def _asks(claim: ResourceClaim) -> list[ExactDeviceRequest | DeviceSubRequest]:
    asks: list[ExactDeviceRequest | DeviceSubRequest] = []
    for request in claim.spec.devices.requests:
        if request.first_available:
            asks.extend(request.first_available)
        elif request.exactly is not None:
            asks.append(request.exactly)
    return asks


def _matchers(fleet: Fleet, asks: Sequence[ExactDeviceRequest | DeviceSubRequest]) -> dict[Matcher, None]:
    found: dict[Matcher, None] = {}
    for ask in asks:
        device_class = fleet.classes.get(ask.device_class_name)
        selectors = [*(device_class.spec.selectors if device_class is not None else ()), *ask.selectors]
        for selector in selectors:
            if selector.cel is not None:
                matcher = fleet.matcher(selector.cel.expression)
                if matcher.bad is None:
                    found[matcher] = None
    return found
