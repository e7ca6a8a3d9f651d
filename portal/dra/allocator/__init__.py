"""What kube-scheduler's structured allocator would choose for an ordered list of claims on one node."""

from collections.abc import Sequence

from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim
from portal.dra.outcomes import Outcome

DEFAULT_STEPS = 1_000_000


def allocate(
    fleet: Fleet, *, node: str, claims: Sequence[ResourceClaim], max_steps: int = DEFAULT_STEPS
) -> Outcome:
    """Allocate all claims on the node, in order, or none of them."""
    raise NotImplementedError
