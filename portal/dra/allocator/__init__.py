"""What kube-scheduler's structured allocator would choose for an ordered list of claims on one node."""

import uuid
from collections.abc import Callable, Sequence

from portal.dra import nodeselector
from portal.dra.allocator.requests import Ask, Ground, Wish, label, prepare
from portal.dra.allocator.results import allocation_of
from portal.dra.allocator.search import Search, StepLimitError
from portal.dra.allocator.state import State
from portal.dra.errors import BrokenOffError, ClaimError
from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim
from portal.dra.outcomes import Allocated, Failed, Outcome, Reason, Undecided, Unschedulable

DEFAULT_STEPS = 1_000_000


def _random_share() -> str:
    return str(uuid.uuid4())


def allocate(
    fleet: Fleet,
    *,
    node: str,
    claims: Sequence[ResourceClaim],
    max_steps: int = DEFAULT_STEPS,
    share_id: Callable[[], str] = _random_share,
) -> Outcome:
    """Allocate all claims on the node, in order, or none of them.

    A claim that already is allocated keeps what it has, provided that it can be used on this node.
    `share_id` makes the identifiers of shares of a device; they have to be unique per device.
    """
    open_claims = [claim for claim in claims if claim.status.allocation is None]
    try:
        for claim in claims:
            if claim.status.allocation is not None and not _usable(fleet, node, claim):
                name = "/".join(filter(None, claim.key))
                return Unschedulable(
                    (Reason(code="allocated-elsewhere", params={"claim": name, "node": node}),)
                )
        pools = fleet.seen_from(node)
        ground = Ground(fleet=fleet, node=fleet.node(node), pools=pools)
        asks = tuple(prepare(ground, claim) for claim in open_claims)
        search = Search(asks, pools, State(fleet), max_steps)
        if not search.run():
            return Unschedulable((Reason(code="no-devices", params={"node": node}),))
        new = iter(
            [
                allocation_of(
                    ask,
                    search.taken[index],
                    search.chosen[index],
                    node=node,
                    features=fleet.features,
                    share_id=share_id,
                )
                for index, ask in enumerate(asks)
            ]
        )
    except BrokenOffError as error:
        return Failed(scope="node" if error.scope == "node" else "claim", error=error.reason, object=error.at)
    except StepLimitError:
        return Undecided(steps=max_steps)
    return Allocated(
        node=node,
        claims=tuple(claim.status.allocation or next(new) for claim in claims),
    )


def _usable(fleet: Fleet, node: str, claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return True
    try:
        return nodeselector.matches(allocation.node_selector, fleet.node(node))
    except nodeselector.UnusableSelector as error:
        raise ClaimError("bad-node-selector", at=label(claim), message=str(error)) from None


__all__ = ["DEFAULT_STEPS", "Ask", "Wish", "allocate"]
