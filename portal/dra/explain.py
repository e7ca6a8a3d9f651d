"""Why a claim does not fit: the funnel of each request and the nearest miss, as data."""

from collections.abc import Mapping, Sequence

import msgspec

from portal.dra.allocator import DEFAULT_STEPS, allocate
from portal.dra.cluster import Feasibility, feasible_nodes, openness
from portal.dra.errors import BrokenOffError
from portal.dra.fleet import Fleet
from portal.dra.funnel import RequestFunnel, Stage, funnel
from portal.dra.model import ResourceClaim, ResourceClaimStatus, Toleration
from portal.dra.outcomes import Allocated, Reason
from portal.dra.places import Places

_MOST_HOLDERS = 100


class Explanation(msgspec.Struct, frozen=True):
    """Whether and where a claim fits, and what stands in its way.

    `nearest` is None where the claim fits. `held_by` lists (device, claim) for devices that the claim could
    use if nobody held them, at most a hundred.
    """

    feasible: Feasibility
    funnels: tuple[RequestFunnel, ...]
    nearest: Reason | None
    held_by: tuple[tuple[str, str], ...]


def explain(
    fleet: Fleet,
    claim: ResourceClaim,
    *,
    node: str | None = None,
    tolerations: Sequence[Toleration] = (),
    node_selector: Mapping[str, str] | None = None,
    max_steps: int = DEFAULT_STEPS,
    feasible: Feasibility | None = None,
    holders: bool = True,
) -> Explanation:
    """Explain what would become of the claim if it were to be allocated now, on one node or on any.

    `feasible` is the answer for all nodes, where it is known already; without `holders`, nobody is told in
    `held_by`.
    """
    fresh = msgspec.structs.replace(claim, status=ResourceClaimStatus())
    if node is not None:
        fleet = fleet.only_node(node)
    if feasible is None or node is not None:
        feasible = feasible_nodes(
            fleet, (fresh,), tolerations=tolerations, node_selector=node_selector, max_steps=max_steps
        )
    if feasible.error is not None:
        return Explanation(feasible=feasible, funnels=(), nearest=feasible.error.error, held_by=())
    where = openness(fleet, tolerations=tolerations, node_selector=node_selector)
    places = Places(where.nodes, where.closed)
    try:
        funnels = tuple(funnel(fleet, fresh, places))
        held_by = _holders(fleet, fresh, places) if holders else ()
    except BrokenOffError as error:
        # Without any node to try, this is where a fault of the claim shows.
        return Explanation(feasible=feasible, funnels=(), nearest=error.reason, held_by=())
    nearest = None
    if not feasible.nodes:
        nearest = _nearest(fleet, fresh, funnels, feasible, where.open)
    return Explanation(feasible=feasible, funnels=funnels, nearest=nearest, held_by=held_by)


def _nearest(
    fleet: Fleet,
    claim: ResourceClaim,
    funnels: Sequence[RequestFunnel],
    feasible: Feasibility,
    open_nodes: Sequence[str],
) -> Reason:
    """The one change that would help: the request that runs dry, else the constraint in the way."""
    if feasible.undecided:
        return Reason(code="miss-undecided", params={"nodes": len(feasible.undecided)})
    dry = _dry(claim, funnels)
    if dry is not None:
        return dry
    broken = [
        r
        for r in feasible.rejected.values()
        if r.code in ("invalid-pool", "incomplete-pool", "all-unconstrainable")
    ]
    if broken:
        return broken[0]
    devices = claim.spec.devices
    for index, constraint in enumerate(devices.constraints):
        rest = devices.constraints[:index] + devices.constraints[index + 1 :]
        relaxed = msgspec.structs.replace(
            claim,
            spec=msgspec.structs.replace(
                claim.spec, devices=msgspec.structs.replace(devices, constraints=rest)
            ),
        )
        for name in _promising(funnels, open_nodes):
            if isinstance(
                allocate(fleet, node=name, claims=(relaxed,), max_steps=DEFAULT_STEPS // 100), Allocated
            ):
                attribute = constraint.match_attribute or constraint.distinct_attribute or ""
                return Reason(code="miss-constraint", params={"attribute": attribute, "node": name})
    return Reason(code="miss-combination" if len(devices.requests) > 1 else "miss-unknown")


def _dry(claim: ResourceClaim, funnels: Sequence[RequestFunnel]) -> Reason | None:
    """The miss of the first request that has no devices left, of its alternative that came furthest."""
    for request in claim.spec.devices.requests:
        own = [item for item in funnels if item.request.partition("/")[0] == request.name]
        if own and all(item.miss is not None for item in own):
            return max(own, key=lambda item: sum(1 for stage in item.stages if stage.devices)).miss
    return None


def _promising(funnels: Sequence[RequestFunnel], open_nodes: Sequence[str]) -> list[str]:
    """A few nodes that still have devices for some request, best first."""
    wanted = {item.node_name for one in funnels for item in one.left}
    return sorted(open_nodes, key=lambda name: name not in wanted)[:20]


def _holders(fleet: Fleet, claim: ResourceClaim, places: Places) -> tuple[tuple[str, str], ...]:
    """Who holds the devices that the claim could use if nobody held anything."""
    found: dict[tuple[str, str], None] = {}
    for one in funnel(fleet.unheld, claim, places):
        for item in one.left:
            for holder in fleet.holdings.holders(item.id):
                found["/".join(item.id), "/".join(filter(None, holder))] = None
                if len(found) >= _MOST_HOLDERS:
                    return tuple(found)
    return tuple(found)


__all__ = ["Explanation", "RequestFunnel", "Stage", "explain"]
