"""The funnel of one request as one would write it down: every device on its own, in the order of the search.

What `portal.dra.funnel` does by batches has to come out like this.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from portal.dra.allocator.capacity import share_of, suffices
from portal.dra.allocator.constraints import Constraint, MatchAttribute, constraints_of
from portal.dra.allocator.requests import Clause, clauses_of, label
from portal.dra.allocator.state import State
from portal.dra.errors import ClaimError
from portal.dra.fleet import Fleet
from portal.dra.funnel import RequestFunnel, Stage
from portal.dra.model import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    Node,
    ResourceClaim,
)
from portal.dra.model.slices import Scalar
from portal.dra.outcomes import Reason
from portal.dra.pools import PoolDevice
from portal.dra.taints import untolerated
from portal.dra.units import nanos, quantity


class Places:
    """On which nodes devices can be used; `open_nodes` are those that take new Pods."""

    def __init__(self, nodes: Sequence[Node], closed: dict[str, Reason]) -> None:
        self._nodes = nodes
        self.closed = closed
        self._names = {node.metadata.name for node in nodes}
        self._known: dict[int, frozenset[str]] = {}
        self._open: dict[int, frozenset[str]] = {}

    def of(self, item: PoolDevice) -> frozenset[str]:
        """Names of the nodes that can use the device."""
        key = _origin(item)
        known = self._known.get(key)
        if known is None:
            name = item.node_name
            if name is not None:
                known = frozenset({name}) & self._names
            else:
                known = frozenset(node.metadata.name for node in self._nodes if _reaches(item, node))
            self._known[key] = known
        return known

    def open(self, item: PoolDevice) -> frozenset[str]:
        """Those of them that take new Pods."""
        key = _origin(item)
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = frozenset(name for name in self.of(item) if name not in self.closed)
        return known

    def count(self, items: Sequence[PoolDevice]) -> int:
        """How many nodes can use at least one of the devices."""
        one_each = {_origin(item): item for item in items}
        return len(frozenset().union(*(self.of(item) for item in one_each.values())))


def _reaches(item: PoolDevice, node: Node) -> bool:
    """A node selector without meaning reaches nothing; that it is an error is said elsewhere."""
    try:
        return item.reaches(node)
    except ClaimError:
        return False


def _origin(item: PoolDevice) -> int:
    """What says where the device can be used: itself or its slice."""
    return id(item.device) if item.source.spec.per_device_node_selection else id(item.source)


def funnel(fleet: Fleet, claim: ResourceClaim, places: Places) -> Iterator[RequestFunnel]:
    """One funnel per request, or per alternative of a request, of a claim; only for claims without errors."""
    for request in claim.spec.devices.requests:
        for ask in request.first_available or ((request.exactly,) if request.exactly is not None else ()):
            device_class = fleet.classes.get(ask.device_class_name)
            if device_class is not None:
                yield _Funnel(fleet, claim, request, ask, device_class, places).run()


class _Funnel:
    def __init__(  # noqa: PLR0917 - one caller, right above
        self,
        fleet: Fleet,
        claim: ResourceClaim,
        request: DeviceRequest,
        ask: ExactDeviceRequest | DeviceSubRequest,
        device_class: DeviceClass,
        places: Places,
    ) -> None:
        self._fleet = fleet
        self._ask = ask
        self._class = device_class
        self._places = places
        self._name = f"{request.name}/{ask.name}" if isinstance(ask, DeviceSubRequest) else request.name
        self._clauses = clauses_of(fleet, device_class, ask, label(claim, self._name))
        self._constraints = [
            constraint
            for constraint in constraints_of(claim, fleet.features)
            if constraint.concerns(request.name, self._name)
        ]
        self._state = State(fleet)
        self._admin = isinstance(ask, ExactDeviceRequest) and bool(ask.admin_access)
        self._stages: list[Stage] = []
        self._miss: Reason | None = None
        self._left: list[PoolDevice] = []

    def run(self) -> RequestFunnel:
        usable = (pool for pool in self._fleet.pools if not pool.incomplete and pool.invalid is None)
        self._left = [item for pool in usable for item in self._fleet.devices(pool)]
        self._record("stage-published", {})
        if not self._left:
            self._miss = self._nothing_published()
        self._select()
        self._narrow(
            lambda item: untolerated(item.taints, self._ask.tolerations) is None,
            "stage-untainted",
            self._tainted,
        )
        if not self._admin:
            self._narrow(self._free, "stage-free", self._held)
            self._narrow(self._roomy, "stage-capacity", self._too_small, only=self._measured())
            self._narrow(self._counted, "stage-counters", self._uncounted, only=self._counting())
        self._narrow(lambda item: bool(self._places.open(item)), "stage-node", self._closed)
        takes_all = self._ask.allocation_mode == "All"
        wanted = None if takes_all else self._ask.count or 1
        if wanted is not None and wanted > 1:
            self._together(wanted)
        for constraint in self._constraints:
            self._agree(constraint, wanted or 1)
        return RequestFunnel(
            request=self._name,
            wanted=wanted,
            stages=tuple(self._stages),
            miss=self._miss,
            left=tuple(self._left),
        )

    def _record(self, code: str, params: dict[str, Any]) -> None:
        nodes = self._places.count(self._left)
        self._stages.append(Stage(reason=Reason(code, params), devices=len(self._left), nodes=nodes))

    def _narrow(
        self,
        keep: Callable[[PoolDevice], bool],
        code: str,
        miss: Callable[[list[PoolDevice]], Reason],
        *,
        only: bool = True,
        params: dict[str, Any] | None = None,
    ) -> None:
        if not only:
            return
        before = self._left
        self._left = [item for item in before if keep(item)]
        self._record(code, params or {})
        if before and not self._left and self._miss is None:
            self._miss = miss(before)

    def _select(self) -> None:
        if not self._class.spec.selectors:
            self._record("stage-class", {"device_class": self._class.metadata.name})
        for position, clause in enumerate(self._clauses):
            of_class = position < len(self._class.spec.selectors)
            params: dict[str, Any] = {"selector": clause.index}
            if of_class:
                params["device_class"] = self._class.metadata.name
            self._narrow(
                lambda item, clause=clause: (  # type: ignore[misc]  # mypy cannot infer the bound loop variable
                    clause.matcher.bad is None and self._fleet.says(clause.matcher, item)
                ),
                "stage-class-selector" if of_class else "stage-selector",
                lambda before, clause=clause, of_class=of_class: self._unselected(  # type: ignore[misc]  # as above
                    before, clause, of_class=of_class
                ),
                params=params,
            )

    def _unselected(self, before: list[PoolDevice], clause: Clause, *, of_class: bool) -> Reason:
        if of_class:
            return self._reason("miss-class", device_class=self._class.metadata.name)
        return self._reason(
            "miss-selector", before=len(before), selector=clause.index, expression=clause.matcher.expression
        )

    def _nothing_published(self) -> Reason:
        for pool in self._fleet.pools:
            if pool.invalid is not None:
                return Reason("invalid-pool", {"pool": "/".join(pool.key), "why": pool.invalid})
            if pool.incomplete:
                found, expected = len(pool.slices), pool.slices[0].spec.pool.resource_slice_count
                params = {"pool": "/".join(pool.key), "found": found, "expected": expected}
                return Reason("miss-incomplete", params)
        return Reason("miss-no-devices")

    def _tainted(self, before: list[PoolDevice]) -> Reason:
        keys = Counter(
            taint.key
            for item in before
            if (taint := untolerated(item.taints, self._ask.tolerations)) is not None
        )
        return self._reason("miss-tainted", before=len(before), taint=keys.most_common(1)[0][0])

    def _free(self, item: PoolDevice) -> bool:
        holdings = self._fleet.holdings
        return not (holdings.as_whole(item.id) if self._state.shareable(item) else holdings.at_all(item.id))

    def _held(self, before: list[PoolDevice]) -> Reason:
        example = before[0]
        holders = self._fleet.holdings.holders(example.id)
        holder = "/".join(filter(None, holders[0])) if holders else ""
        return self._reason("miss-held", before=len(before), device="/".join(example.id), holder=holder)

    def _measured(self) -> bool:
        return self._ask.capacity is not None or any(self._state.shareable(item) for item in self._left)

    def _requested(self) -> dict[str, str | int | float]:
        return dict(self._ask.capacity.requests) if self._ask.capacity is not None else {}

    def _roomy(self, item: PoolDevice) -> bool:
        if not self._state.shareable(item):
            return suffices(item.device, self._requested())
        share = share_of(item.device, self._requested(), self._fleet.features)
        if share is None:
            return False
        used = self._fleet.holdings.consumed(item.id)
        return all(
            used.get(name, 0) + amount.nanos <= nanos(item.device.capacity[name].value)
            for name, amount in share.items()
        )

    def _too_small(self, before: list[PoolDevice]) -> Reason:
        requested = self._requested()
        name, amount = next(iter(requested.items()), ("", ""))
        return self._reason("miss-capacity", before=len(before), capacity=name, amount=str(amount))

    def _counting(self) -> bool:
        return any(item.device.consumes_counters for item in self._left)

    def _counted(self, item: PoolDevice) -> bool:
        return self._short_of(item) is None

    def _short_of(self, item: PoolDevice) -> tuple[str, str, int, str] | None:
        """The first counter that has too little left for the device: set, counter, what is left, what is
        needed.
        """
        if not item.device.consumes_counters:
            return None
        if self._fleet.holdings.at_all(item.id) and (not self._admin or self._state.shareable(item)):
            return None
        pool = next(pool for pool in self._fleet.pools if pool.key == item.id[:2])
        counters = self._state.counters(pool)
        for consumption in item.device.consumes_counters:
            for name, counter in consumption.counters.items():
                left = counters.left((consumption.counter_set, name))
                if nanos(counter.value) > left:
                    return consumption.counter_set, name, left, str(counter.value)
        return None

    def _uncounted(self, before: list[PoolDevice]) -> Reason:
        example = before[0]
        counter_set, counter, left, needed = self._short_of(example) or ("", "", 0, "")
        template = quantity(needed or "0")
        return self._reason(
            "miss-counters",
            device="/".join(example.id),
            counter_set=counter_set,
            counter=counter,
            left=str(type(template)(left, template.format)),
            needed=needed,
        )

    def _closed(self, before: list[PoolDevice]) -> Reason:
        names = sorted({name for item in before for name in self._places.of(item)})
        why = next((self._places.closed[name] for name in names if name in self._places.closed), None)
        if why is None:
            return self._reason("miss-reach", before=len(before))
        return self._reason("miss-node", before=len(before), why=why)

    def _together(self, wanted: int) -> None:
        per_node: Counter[str] = Counter()
        for item in self._left:
            per_node.update(dict.fromkeys(self._places.open(item), self._worth(item, wanted)))
        good = {name for name, found in per_node.items() if found >= wanted}
        best = per_node.most_common(1)
        self._narrow(
            lambda item: bool(self._places.open(item) & good),
            "stage-together",
            lambda _: self._reason("miss-together", wanted=wanted, node=best[0][0], found=best[0][1]),
            params={"wanted": wanted},
        )

    def _agree(self, constraint: Constraint, wanted: int) -> None:
        """Devices that have the attribute, on nodes where enough of them share a value, or differ in it."""
        same = isinstance(constraint, MatchAttribute)
        groups: dict[str, Counter[tuple[str, Scalar]]] = defaultdict(Counter)
        for item in self._left:
            kind, values = constraint.values(item.id[0], item.device) or ("", frozenset())
            for name in self._places.open(item):
                groups[name].update({(kind, value): self._worth(item, wanted) for value in values})
        best = {
            name: max(found.values(), default=0) if same else len(found) for name, found in groups.items()
        }
        name = max(best, key=lambda name: best[name], default="")

        def fits(item: PoolDevice) -> bool:
            kind, values = constraint.values(item.id[0], item.device) or ("", frozenset())
            return any(
                any(groups[name][kind, value] >= wanted for value in values) if same else bool(values)
                for name in self._places.open(item)
                if best[name] >= wanted
            )

        how = "same" if same else "distinct"
        params = {"attribute": constraint.attribute, "wanted": wanted}
        self._narrow(
            fits,
            f"stage-{how}",
            lambda _: self._reason(f"miss-{how}", **params, node=name, found=best.get(name, 0)),
            params=params,
        )

    def _worth(self, item: PoolDevice, wanted: int) -> int:
        """How often the device can serve the request at most."""
        return wanted if self._state.shareable(item) else 1

    def _reason(self, code: str, **params: Any) -> Reason:
        return Reason(code, {"request": self._name, **params})
