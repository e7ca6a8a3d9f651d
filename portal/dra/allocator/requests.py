"""What each request of a claim asks for, checked and ready for the search."""

from collections.abc import Iterator, Sequence

import msgspec

from portal.dra import features as gates
from portal.dra.allocator.capacity import Requested, share_of, suffices
from portal.dra.allocator.constraints import Constraint, constraints_of
from portal.dra.errors import ClaimError, NodeError
from portal.dra.fleet import Fleet
from portal.dra.matching import Matcher
from portal.dra.model import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    Node,
    ResourceClaim,
)
from portal.dra.pools import NodePool, PoolDevice
from portal.dra.units import nanos

MAX_RESULTS = 32


class Clause(msgspec.Struct, frozen=True):
    """One selector with the object that it stands in, for error messages."""

    matcher: Matcher
    owner: str
    index: int


class Ground(msgspec.Struct, frozen=True):
    """Where the search takes place: a node, and the pools that it sees."""

    fleet: Fleet
    node: Node
    pools: tuple[NodePool, ...]


class Wish:
    """One request, or one alternative of a request, that can be fulfilled by devices."""

    def __init__(
        self,
        request: DeviceRequest,
        ask: ExactDeviceRequest | DeviceSubRequest,
        *,
        device_class: DeviceClass,
        clauses: Sequence[Clause],
        ground: Ground,
    ) -> None:
        self.parent = request.name
        self.name = f"{request.name}/{ask.name}" if isinstance(ask, DeviceSubRequest) else request.name
        self.device_class = device_class
        self.clauses = tuple(clauses)
        self.admin = isinstance(ask, ExactDeviceRequest) and bool(ask.admin_access)
        self.tolerations: tuple[DeviceToleration, ...] = ask.tolerations
        self.capacity: Requested = dict(ask.capacity.requests) if ask.capacity is not None else {}
        self.takes_all = ask.allocation_mode == "All"
        self.count = ask.count or 1
        self.all_devices: tuple[tuple[NodePool, PoolDevice], ...] = ()
        self._node = ground.node
        self._binding = ground.fleet.features.enabled(gates.DEVICE_BINDING_CONDITIONS)
        self._selectable: dict[int, bool] = {}

    def known_to_select(self, item: PoolDevice) -> bool | None:
        """What `selects` has said about the device; None if it was not asked yet."""
        return self._selectable.get(id(item))

    def would_select(self, item: PoolDevice) -> bool | None:
        """What `selects` says about the device, asked or not; None where CEL has no answer."""
        try:
            return self.selects(item)
        except ClaimError:
            return None

    def selects(self, item: PoolDevice) -> bool:
        """Whether class and request admit the device on this node; ClaimError where CEL has no answer."""
        known = self._selectable.get(id(item))
        if known is None:
            known = self._selectable[id(item)] = self._evaluate(item)
        return known

    def _evaluate(self, item: PoolDevice) -> bool:
        if item.device.binding_conditions and not self._binding:
            return False
        driver = item.id[0]
        for clause in self.clauses:
            if clause.matcher.bad is not None:
                raise ClaimError(
                    "cel-compile-error",
                    at=clause.owner,
                    selector=clause.index,
                    message=clause.matcher.bad.message,
                )
            verdict = clause.matcher.verdict(driver, item.device)
            if verdict.error:
                raise ClaimError(
                    "cel-evaluation-error",
                    at=clause.owner,
                    selector=clause.index,
                    device="/".join(item.id),
                    message=verdict.error,
                )
            if not verdict.matches:
                return False
        return item.on(self._node)


class Ask:
    """One claim, ready for the search: its requests in order, each with its alternatives.

    `least_from[i]` is the smallest number of devices that requests from the i-th on can ask for.
    """

    def __init__(
        self, claim: ResourceClaim, alternatives: Sequence[tuple[Wish, ...]], constraints: list[Constraint]
    ) -> None:
        self.claim = claim
        self.alternatives = tuple(alternatives)
        self.least_from = [0]
        for wishes in reversed(self.alternatives):
            self.least_from.insert(0, self.least_from[0] + min(wish.count for wish in wishes))
        self.constraints = constraints


def prepare(ground: Ground, claim: ResourceClaim) -> Ask:
    """Check a claim and look up what it refers to; ClaimError and NodeError name the request at fault."""
    alternatives = []
    least = 0
    for request in claim.spec.devices.requests:
        wishes = tuple(_wish(ground, claim, request, ask) for ask in _asks(ground.fleet, claim, request))
        alternatives.append(wishes)
        least += min(wish.count for wish in wishes)
    if least > MAX_RESULTS:
        raise ClaimError("too-many-devices", at=label(claim), count=least, limit=MAX_RESULTS)
    try:
        constraints = constraints_of(claim, ground.fleet.features)
    except ClaimError as error:
        error.at = label(claim)
        raise
    return Ask(claim, alternatives, constraints)


def label(claim: ResourceClaim, request: str = "") -> str:
    """How errors name a claim or one of its requests."""
    name = "/".join(filter(None, claim.key))
    return f"claim {name}, request {request}" if request else f"claim {name}"


def _asks(
    fleet: Fleet, claim: ResourceClaim, request: DeviceRequest
) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    if request.first_available:
        if not fleet.features.enabled(gates.PRIORITIZED_LIST):
            raise ClaimError(
                "gate-off",
                at=label(claim, request.name),
                field="firstAvailable",
                gate=gates.PRIORITIZED_LIST,
            )
        yield from request.first_available
    else:
        yield request.exactly or ExactDeviceRequest()


def _wish(
    ground: Ground, claim: ResourceClaim, request: DeviceRequest, ask: ExactDeviceRequest | DeviceSubRequest
) -> Wish:
    fleet = ground.fleet
    at = label(claim, f"{request.name}/{ask.name}" if isinstance(ask, DeviceSubRequest) else request.name)
    for index, selector in enumerate(ask.selectors):
        if selector.cel is None:
            raise ClaimError("unsupported-selector", at=at, selector=index)
    if (
        isinstance(ask, ExactDeviceRequest)
        and ask.admin_access is not None
        and not fleet.features.enabled(gates.ADMIN_ACCESS)
    ):
        raise ClaimError("gate-off", at=at, field="adminAccess", gate=gates.ADMIN_ACCESS)
    if ask.derived_attributes and fleet.features.enabled(gates.DERIVED_ATTRIBUTES):
        raise ClaimError("no-derived-attributes", at=at)
    if not ask.device_class_name:
        raise ClaimError("no-class-name", at=at)
    device_class = fleet.classes.get(ask.device_class_name)
    if device_class is None:
        raise ClaimError("unknown-class", at=at, device_class=ask.device_class_name)
    clauses = clauses_of(fleet, device_class, ask, at)
    wish = Wish(request, ask, device_class=device_class, clauses=clauses, ground=ground)
    if ask.allocation_mode not in ("", "ExactCount", "All"):
        raise ClaimError("unsupported-mode", at=at, mode=ask.allocation_mode)
    if wish.takes_all:
        wish.all_devices = tuple(_all_devices(ground, wish, at))
        wish.count = len(wish.all_devices)
    return wish


def clauses_of(
    fleet: Fleet, device_class: DeviceClass, ask: ExactDeviceRequest | DeviceSubRequest, at: str
) -> list[Clause]:
    """All selectors to be passed, those of the class first; raises ClaimError for unknown kinds."""
    owner = f"class {device_class.metadata.name}"
    return [*_clauses(fleet, owner, device_class.spec.selectors), *_clauses(fleet, at, ask.selectors)]


def _clauses(fleet: Fleet, owner: str, selectors: Sequence[DeviceSelector]) -> Iterator[Clause]:
    for index, selector in enumerate(selectors):
        if selector.cel is None:
            raise ClaimError("unsupported-selector", at=owner, selector=index)
        yield Clause(matcher=fleet.matcher(selector.cel.expression), owner=owner, index=index)


def _all_devices(ground: Ground, wish: Wish, at: str) -> Iterator[tuple[NodePool, PoolDevice]]:
    """How much "all" is: known only when every pool of the node is complete and valid."""
    for seen in ground.pools:
        if seen.pool.incomplete:
            raise NodeError("incomplete-pool", at=at, pool="/".join(seen.pool.key))
        if seen.pool.invalid is not None:
            raise NodeError("invalid-pool", at=at, pool="/".join(seen.pool.key), why=seen.pool.invalid)
        for item in seen.devices:
            if wish.selects(item) and _large_enough(ground.fleet, wish, item):
                yield seen, item


def _large_enough(fleet: Fleet, wish: Wish, item: PoolDevice) -> bool:
    """Devices too small by nature are none of "all"; before 1.37, nor were those with too little left."""
    features = fleet.features
    if not features.enabled(gates.CONSUMABLE_CAPACITY):
        return True
    if not item.device.allow_multiple_allocations:
        return suffices(item.device, wish.capacity)
    share = share_of(item.device, wish.capacity, features)
    if share is None:
        return False
    used = {} if features.at_least(1, 37) or wish.admin else fleet.holdings.consumed(item.id)
    return all(
        used.get(name, 0) + amount.nanos <= nanos(item.device.capacity[name].value)
        for name, amount in share.items()
    )
