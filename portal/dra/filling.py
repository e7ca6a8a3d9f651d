"""How often a claim fits: allocate it again and again, or count, where counting gives the same."""

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from portal.dra.allocator import allocate
from portal.dra.allocator.requests import Ground, Wish, prepare
from portal.dra.allocator.state import State
from portal.dra.errors import BrokenOffError
from portal.dra.fleet import Fleet
from portal.dra.holdings import DeviceId
from portal.dra.model import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from portal.dra.outcomes import Allocated, Unschedulable
from portal.dra.pools import NodePool
from portal.dra.signature import Signatures


def fill(
    fleet: Fleet, claim: ResourceClaim, nodes: Sequence[str], *, limit: int, max_steps: int
) -> tuple[dict[str, int], int, bool]:
    """Place the claim on the nodes in turn, as often as it fits: per node, in all, and if that is exact."""
    signatures = Signatures(fleet, (claim,))
    known: dict[Hashable, int] = {}
    per_node: dict[str, int] = {}
    plan = fleet
    stock = _Stock()
    total = 0
    exact = True
    for node in nodes:
        signature = signatures.of(node)
        local = all(seen.pool.local_to is not None for seen in fleet.seen_from(node))
        count = known.get(signature) if local else None
        if count is None:
            count = stock.count(plan, claim, node)
        if count is None:
            if stock.gone:
                plan = plan.plus((_holder(stock.gone),))
            stock = _Stock()
            after, count, decided = _repeated(plan, claim, node, limit - total, max_steps)
            exact = exact and decided
            if not local:
                # Devices that several nodes can use are gone for the next node.
                plan = after
        if local:
            known[signature] = count
        count = min(count, limit - total)
        if count:
            per_node[node] = count
        total += count
        if total >= limit:
            return per_node, total, False
    return per_node, total, exact


class _Stock:
    """Counts how often a claim fits where its devices are interchangeable, instead of trying.

    `gone` are the devices that earlier nodes took; those taken for a node join them.
    """

    def __init__(self) -> None:
        self.gone: set[DeviceId] = set()
        self._shared: dict[int, list[DeviceId]] = {}

    def count(self, fleet: Fleet, claim: ResourceClaim, node: str) -> int | None:
        """How often it fits on the node; None where that has to be tried."""
        pools = fleet.seen_from(node)
        if any(seen.pool.invalid is not None for seen in pools):
            return None
        try:
            ask = prepare(Ground(fleet=fleet, node=fleet.node(node), pools=pools), claim)
            if ask.constraints or [len(wishes) for wishes in ask.alternatives] != [1]:
                return None
            wish = ask.alternatives[0][0]
            if wish.admin or wish.takes_all or wish.count < 1:
                return None
            free = self._free(fleet, wish, pools)
        except BrokenOffError:
            return None
        if free is None:
            return None
        times = len(free) // wish.count
        self.gone.update(free[: times * wish.count])
        return times

    def _free(self, fleet: Fleet, wish: Wish, pools: Sequence[NodePool]) -> list[DeviceId] | None:
        """Devices that the wish can have, in order; None if they depend on each other (shares, counters)."""
        state = State(fleet)
        free: list[DeviceId] = []
        for seen in pools:
            if seen.pool.incomplete:
                continue
            found = self._shared.get(id(seen))
            if found is None:
                found = _suitable(state, wish, seen)
                if found is None:
                    return None
            found = [device for device in found if device not in self.gone]
            if not seen.pool.per_device:
                self._shared[id(seen)] = found
            free += found
        return free


def _suitable(state: State, wish: Wish, seen: NodePool) -> list[DeviceId] | None:
    found: list[DeviceId] = []
    for item in seen.devices:
        if state.in_use(wish, item, 0) or not wish.selects(item):
            continue
        if item.device.consumes_counters or state.shareable(item):
            return None
        taken = state.take(wish, seen, item, 0)
        if taken is not None:
            found.append(item.id)
            taken.undo()
    return found


def _repeated(
    fleet: Fleet, claim: ResourceClaim, node: str, limit: int, max_steps: int
) -> tuple[Fleet, int, bool]:
    """Allocate the claim on the node again and again: the fleet after it, how often, whether that is all.

    An allocation that holds nothing (administrative access) could go on for ever: it counts once.
    """
    count = 0
    while count < limit:
        outcome = allocate(fleet, node=node, claims=(claim,), max_steps=max_steps)
        if not isinstance(outcome, Allocated):
            return fleet, count, isinstance(outcome, Unschedulable)
        count += 1
        (allocation,) = outcome.claims
        if all(result.admin_access for result in allocation.devices.results):
            return fleet, count, False
        fleet = fleet.plus((_holding(claim, allocation),))
    return fleet, count, False


def _holder(devices: Iterable[DeviceId]) -> ResourceClaim:
    """A claim that holds devices for nobody in particular."""
    results = tuple(
        DeviceRequestAllocationResult(request="", driver=driver, pool=pool, device=device)
        for driver, pool, device in sorted(devices)
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    return ResourceClaim(status=ResourceClaimStatus(allocation=allocation))


def _holding(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    return msgspec.structs.replace(claim, status=ResourceClaimStatus(allocation=allocation))
