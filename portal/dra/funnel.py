"""The funnel of one request: how many devices, on how many nodes, are left after each thing it asks for."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from portal.dra.allocator.capacity import share_of, suffices
from portal.dra.allocator.constraints import Constraint, MatchAttribute, constraints_of
from portal.dra.allocator.requests import Clause, clauses_of, label
from portal.dra.allocator.state import State
from portal.dra.batches import Batch, batches, devices_of, in_order
from portal.dra.fleet import Fleet
from portal.dra.model import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from portal.dra.model.slices import Scalar
from portal.dra.outcomes import Reason
from portal.dra.places import Places
from portal.dra.pools import Pool, PoolDevice
from portal.dra.taints import untolerated
from portal.dra.units import nanos, quantity

# What is left of a batch after a step; None if nothing is.
Keep = Callable[[Batch], Batch | None]


class Stage(msgspec.Struct, frozen=True):
    """One step of the funnel: what it asks for, and how many devices and nodes are left after it."""

    reason: Reason
    devices: int
    nodes: int


class RequestFunnel(msgspec.Struct, frozen=True):
    """`wanted` is None for all devices; `miss` says what kept the last devices out, if none are left."""

    request: str
    wanted: int | None
    stages: tuple[Stage, ...]
    miss: Reason | None
    left: tuple[PoolDevice, ...]


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
        self._claim = claim
        self._admin = isinstance(ask, ExactDeviceRequest) and bool(ask.admin_access)
        self._stages: list[Stage] = []
        self._miss: Reason | None = None
        self._left: Sequence[Batch] = ()

    def run(self) -> RequestFunnel:
        self._left = batches(self._fleet, self._claim)
        self._record("stage-published", {})
        if not self._left:
            self._miss = self._nothing_published()
        self._select()
        self._narrow(
            self._by_kind(lambda item: untolerated(item.taints, self._ask.tolerations) is None),
            "stage-untainted",
            self._tainted,
        )
        if not self._admin:
            self._narrow(self._free, "stage-free", self._held)
            self._narrow(self._roomy, "stage-capacity", self._too_small, only=self._measured())
            self._narrow(self._counted, "stage-counters", self._uncounted, only=self._counting())
        self._narrow(_whole(lambda batch: bool(self._places.open(batch))), "stage-node", self._closed)
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
            left=tuple(devices_of(self._left)),
        )

    def _record(self, code: str, params: dict[str, Any]) -> None:
        nodes = self._places.count(self._left)
        self._stages.append(Stage(reason=Reason(code, params), devices=_size(self._left), nodes=nodes))

    def _narrow(
        self,
        keep: Keep,
        code: str,
        miss: Callable[[Sequence[Batch]], Reason],
        *,
        only: bool = True,
        params: dict[str, Any] | None = None,
    ) -> None:
        if not only:
            return
        before = self._left
        kept = [found for batch in before if (found := keep(batch)) is not None]
        self._left = in_order(kept)
        self._record(code, params or {})
        if before and not self._left and self._miss is None:
            self._miss = miss(before)

    def _by_kind(self, keep: Callable[[PoolDevice], bool]) -> Keep:
        """Keeps or drops all devices of a kind alike."""
        known: dict[int, bool] = {}

        def kept(batch: Batch) -> Batch | None:
            verdict = known.get(batch.kind)
            if verdict is None:
                verdict = known[batch.kind] = keep(batch.one)
            return batch if verdict else None

        return kept

    def _select(self) -> None:
        if not self._class.spec.selectors:
            self._record("stage-class", {"device_class": self._class.metadata.name})
        for position, clause in enumerate(self._clauses):
            of_class = position < len(self._class.spec.selectors)
            params: dict[str, Any] = {"selector": clause.index}
            if of_class:
                params["device_class"] = self._class.metadata.name
            self._narrow(
                self._by_kind(
                    lambda item, clause=clause: (  # type: ignore[misc]  # mypy cannot infer the bound variable
                        clause.matcher.bad is None and self._fleet.says(clause.matcher, item)
                    )
                ),
                "stage-class-selector" if of_class else "stage-selector",
                lambda before, clause=clause, of_class=of_class: self._unselected(  # type: ignore[misc]  # as above
                    before, clause, of_class=of_class
                ),
                params=params,
            )

    def _unselected(self, before: Sequence[Batch], clause: Clause, *, of_class: bool) -> Reason:
        if of_class:
            return self._reason("miss-class", device_class=self._class.metadata.name)
        return self._reason(
            "miss-selector", before=_size(before), selector=clause.index, expression=clause.matcher.expression
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

    def _tainted(self, before: Sequence[Batch]) -> Reason:
        keys: Counter[str] = Counter()
        for batch in before:
            if (taint := untolerated(batch.one.taints, self._ask.tolerations)) is not None:
                keys[taint.key] += len(batch.items)
        return self._reason("miss-tainted", before=_size(before), taint=keys.most_common(1)[0][0])

    def _free(self, batch: Batch) -> Batch | None:
        holdings, item = self._fleet.holdings, batch.one
        held = holdings.names_in(item.id[:2])
        if not held:
            return batch
        if self._state.shareable(item):
            return batch.only([not holdings.as_whole(one.id) for one in batch.items])
        return batch.only([one.id[2] not in held for one in batch.items])

    def _held(self, before: Sequence[Batch]) -> Reason:
        example = before[0].one
        holders = self._fleet.holdings.holders(example.id)
        holder = "/".join(filter(None, holders[0])) if holders else ""
        return self._reason("miss-held", before=_size(before), device="/".join(example.id), holder=holder)

    def _measured(self) -> bool:
        return self._ask.capacity is not None or any(self._state.shareable(batch.one) for batch in self._left)

    def _requested(self) -> dict[str, str | int | float]:
        return dict(self._ask.capacity.requests) if self._ask.capacity is not None else {}

    def _roomy(self, batch: Batch) -> Batch | None:
        if not self._state.shareable(batch.one):
            return batch if suffices(batch.one.device, self._requested()) else None
        share = share_of(batch.one.device, self._requested(), self._fleet.features)
        if share is None:
            return None
        consumed = self._fleet.holdings.consumed
        whole = {name: nanos(batch.one.device.capacity[name].value) for name in share}
        return batch.only(
            [
                all(used.get(name, 0) + amount.nanos <= whole[name] for name, amount in share.items())
                for used in (consumed(item.id) for item in batch.items)
            ]
        )

    def _too_small(self, before: Sequence[Batch]) -> Reason:
        requested = self._requested()
        name, amount = next(iter(requested.items()), ("", ""))
        return self._reason("miss-capacity", before=_size(before), capacity=name, amount=str(amount))

    def _counting(self) -> bool:
        return any(batch.one.device.consumes_counters for batch in self._left)

    def _counted(self, batch: Batch) -> Batch | None:
        """What a device draws on is a matter of its kind and pool, once nobody holds it."""
        at_all = self._fleet.holdings.at_all
        if not batch.one.device.consumes_counters:
            return batch
        enough: bool | None = None
        kept = []
        for item in batch.items:
            if at_all(item.id):
                kept.append(self._short_of(item) is None)
            else:
                enough = self._short_of(item) is None if enough is None else enough
                kept.append(enough)
        return batch.only(kept)

    def _short_of(self, item: PoolDevice) -> tuple[str, str, int, str] | None:
        """The first counter that has too little left for the device: set, counter, what is left, what is
        needed.
        """
        if not item.device.consumes_counters:
            return None
        if self._fleet.holdings.at_all(item.id) and (not self._admin or self._state.shareable(item)):
            return None
        counters = self._state.counters(self._pools[item.id[:2]])
        for consumption in item.device.consumes_counters:
            for name, counter in consumption.counters.items():
                left = counters.left((consumption.counter_set, name))
                if nanos(counter.value) > left:
                    return consumption.counter_set, name, left, str(counter.value)
        return None

    @cached_property
    def _pools(self) -> dict[tuple[str, str], Pool]:
        return {pool.key: pool for pool in self._fleet.pools}

    def _uncounted(self, before: Sequence[Batch]) -> Reason:
        example = before[0].one
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

    def _closed(self, before: Sequence[Batch]) -> Reason:
        names = sorted(frozenset[str]().union(*map(self._places.of, before)))
        why = next((self._places.closed[name] for name in names if name in self._places.closed), None)
        if why is None:
            return self._reason("miss-reach", before=_size(before))
        return self._reason("miss-node", before=_size(before), why=why)

    def _together(self, wanted: int) -> None:
        per_node: Counter[str] = Counter()
        for batch in self._left:
            worth = self._worth(batch, wanted)
            for name in self._places.open(batch):
                per_node[name] += worth
        good = {name for name, found in per_node.items() if found >= wanted}
        best = per_node.most_common(1)
        self._narrow(
            _whole(lambda batch: not self._places.open(batch).isdisjoint(good)),
            "stage-together",
            lambda _: self._reason("miss-together", wanted=wanted, node=best[0][0], found=best[0][1]),
            params={"wanted": wanted},
        )

    def _agree(self, constraint: Constraint, wanted: int) -> None:
        """Devices that have the attribute, on nodes where enough of them share a value, or differ in it."""
        same = isinstance(constraint, MatchAttribute)
        groups: dict[str, Counter[tuple[str, Scalar]]] = defaultdict(Counter)
        for batch in self._left:
            kind, values = constraint.values(batch.one.id[0], batch.one.device) or ("", frozenset())
            for name in self._places.open(batch):
                found = groups[name]
                for value in values:
                    found[kind, value] += self._worth(batch, wanted)
        best = {
            name: max(found.values(), default=0) if same else len(found) for name, found in groups.items()
        }
        name = max(best, key=lambda name: best[name], default="")

        def fits(batch: Batch) -> bool:
            kind, values = constraint.values(batch.one.id[0], batch.one.device) or ("", frozenset())
            return any(
                any(groups[name][kind, value] >= wanted for value in values) if same else bool(values)
                for name in self._places.open(batch)
                if best[name] >= wanted
            )

        how = "same" if same else "distinct"
        params = {"attribute": constraint.attribute, "wanted": wanted}
        self._narrow(
            _whole(fits),
            f"stage-{how}",
            lambda _: self._reason(f"miss-{how}", **params, node=name, found=best.get(name, 0)),
            params=params,
        )

    def _worth(self, batch: Batch, wanted: int) -> int:
        """How often the devices can serve the request at most."""
        return len(batch.items) * (wanted if self._state.shareable(batch.one) else 1)

    def _reason(self, code: str, **params: Any) -> Reason:
        return Reason(code, {"request": self._name, **params})


def _whole(keep: Callable[[Batch], bool]) -> Keep:
    """Keeps or drops batches as they are."""
    return lambda batch: batch if keep(batch) else None


def _size(some: Sequence[Batch]) -> int:
    return sum(len(batch.items) for batch in some)
