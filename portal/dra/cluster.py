"""The same question for a whole cluster: which nodes would do, and how often."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

import msgspec

from portal.dra.allocator import DEFAULT_STEPS, allocate
from portal.dra.availability import unavailable
from portal.dra.errors import ClaimError
from portal.dra.filling import fill
from portal.dra.fleet import Fleet
from portal.dra.model import Node, ResourceClaim, ResourceClaimStatus, Toleration
from portal.dra.outcomes import Allocated, Failed, Outcome, Reason, Undecided, Unschedulable
from portal.dra.signature import Signatures


class Feasibility(msgspec.Struct, frozen=True):
    """Where a Pod that asks only for these claims would be placed now, and why not on the other nodes.

    `undecided` nodes are those whose search took too long; `error` means that no node can help.
    """

    nodes: tuple[str, ...]
    rejected: dict[str, Reason]
    undecided: tuple[str, ...] = ()
    error: Failed | None = None


class Room(msgspec.Struct, frozen=True):
    """How many more such claims fit now, one after the other.

    `exact` is false where counting stopped early: at the limit, or at a search that took too long.
    """

    count: int
    exact: bool
    per_node: dict[str, int]
    error: Failed | None = None


def candidates(fleet: Fleet) -> Iterator[Node]:
    """The nodes in the order given; if none are known, those that devices are local to, by name."""
    if fleet.nodes:
        yield from fleet.nodes.values()
        return
    for name in sorted({item.node_name for item in fleet.devices() if item.node_name is not None}):
        yield fleet.node(name)


class Openness(msgspec.Struct, frozen=True):
    """Which candidates take new Pods, and why the others do not."""

    nodes: tuple[Node, ...]
    open: tuple[str, ...]
    closed: Mapping[str, Reason]


def openness(
    fleet: Fleet, *, tolerations: Sequence[Toleration] = (), node_selector: Mapping[str, str] | None = None
) -> Openness:
    """Where a Pod with these tolerations and this node selector may go; whoever holds devices."""

    def look() -> Openness:
        nodes = tuple(candidates(fleet))
        found = {
            node.metadata.name: unavailable(node, tolerations=tolerations, node_selector=node_selector)
            for node in nodes
        }
        closed = {name: reason for name, reason in found.items() if reason is not None}
        return Openness(
            nodes=nodes,
            open=tuple(name for name in found if name not in closed),
            closed=closed,
        )

    labels = tuple(sorted((node_selector or {}).items()))
    return fleet.recall(("openness", tuple(tolerations), labels), look)


def tried(
    fleet: Fleet, claims: Sequence[ResourceClaim], nodes: Sequence[str], *, max_steps: int = DEFAULT_STEPS
) -> Iterator[tuple[str, Outcome]]:
    """The outcome on each of the nodes in turn; an error of the claim is the last thing said."""
    for node, outcome, own in _tried_once(fleet, claims, nodes, max_steps):
        if own or not isinstance(outcome, Allocated):
            yield node, outcome
        else:
            yield node, allocate(fleet, node=node, claims=claims, max_steps=max_steps)


def _tried_once(
    fleet: Fleet, claims: Sequence[ResourceClaim], nodes: Sequence[str], max_steps: int
) -> Iterator[tuple[str, Outcome, bool]]:
    """Outcomes per node and whether they are its own: nodes that are alike are tried once."""
    signatures = Signatures(fleet, claims)
    pinned = any(claim.status.allocation is not None for claim in claims)
    known: dict[Hashable, Outcome] = {}
    for node in nodes:
        try:
            signature = (node if pinned else None, signatures.of(node))
        except ClaimError as error:
            yield node, Failed(scope="claim", error=error.reason, object=error.at), True
            return
        outcome = known.get(signature)
        own = outcome is None or isinstance(outcome, Failed)
        if outcome is None or isinstance(outcome, Failed):
            outcome = known[signature] = allocate(fleet, node=node, claims=claims, max_steps=max_steps)
        yield node, outcome, own
        if isinstance(outcome, Failed) and outcome.scope == "claim":
            return


def feasible_nodes(
    fleet: Fleet,
    claims: Sequence[ResourceClaim],
    *,
    tolerations: Sequence[Toleration] = (),
    node_selector: Mapping[str, str] | None = None,
    max_steps: int = DEFAULT_STEPS,
) -> Feasibility:
    """Nodes that take new Pods and on which all claims can be allocated together."""
    found_open = openness(fleet, tolerations=tolerations, node_selector=node_selector)
    open_nodes, rejected = found_open.open, dict(found_open.closed)
    found: list[str] = []
    undecided: list[str] = []
    error: Failed | None = None
    for node_name, outcome, _ in _tried_once(fleet, claims, open_nodes, max_steps):
        match outcome:
            case Allocated():
                found.append(node_name)
            case Undecided():
                undecided.append(node_name)
            case Unschedulable():
                rejected[node_name] = Reason(code="no-devices", params={"node": node_name})
            case Failed(scope="node"):
                rejected[node_name] = outcome.error
            case Failed():
                error = outcome
    return Feasibility(nodes=tuple(found), rejected=rejected, undecided=tuple(undecided), error=error)


def how_many_more(
    fleet: Fleet,
    claim: ResourceClaim,
    *,
    tolerations: Sequence[Toleration] = (),
    node_selector: Mapping[str, str] | None = None,
    limit: int = 1_000_000,
    max_steps: int = DEFAULT_STEPS,
) -> Room:
    """How many further claims like this one could be placed now, each on the first node that takes it."""
    fresh = msgspec.structs.replace(claim, status=ResourceClaimStatus())
    feasible = feasible_nodes(
        fleet, (fresh,), tolerations=tolerations, node_selector=node_selector, max_steps=max_steps
    )
    if feasible.error is not None:
        return Room(count=0, exact=True, per_node={}, error=feasible.error)
    per_node, total, decided = fill(fleet, fresh, feasible.nodes, limit=limit, max_steps=max_steps)
    return Room(count=total, exact=decided and not feasible.undecided, per_node=per_node)
