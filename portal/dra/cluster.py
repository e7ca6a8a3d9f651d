"""The same question for a whole cluster: which nodes would do, and how often."""

from collections.abc import Sequence

import msgspec

from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim, Toleration
from portal.dra.outcomes import Failed, Reason


class Feasibility(msgspec.Struct, frozen=True):
    """Nodes on which a Pod that asks only for these claims would be placed now, and why the others would not."""

    nodes: tuple[str, ...]
    rejected: dict[str, Reason]
    error: Failed | None = None


class Room(msgspec.Struct, frozen=True):
    """How many more such claims fit now; `exact` is false where the count stopped at `limit`."""

    count: int
    exact: bool
    per_node: dict[str, int]
    error: Failed | None = None


def feasible_nodes(
    fleet: Fleet,
    claims: Sequence[ResourceClaim],
    *,
    tolerations: Sequence[Toleration] = (),
    node_selector: dict[str, str] | None = None,
) -> Feasibility:
    """Nodes that are schedulable for such a Pod and on which all claims can be allocated."""
    raise NotImplementedError


def how_many_more(
    fleet: Fleet,
    claim: ResourceClaim,
    *,
    tolerations: Sequence[Toleration] = (),
    node_selector: dict[str, str] | None = None,
    limit: int = 1000,
) -> Room:
    """How many further claims of this kind could be placed now, one after the other."""
    raise NotImplementedError
