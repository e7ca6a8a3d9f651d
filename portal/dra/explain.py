"""Why a claim does not fit: the funnel of each request and the nearest miss, as data."""

import msgspec

from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim
from portal.dra.outcomes import Outcome, Reason


class Stage(msgspec.Struct, frozen=True):
    """One step of the funnel: how many devices and nodes are left after it."""

    reason: Reason
    devices: int
    nodes: int


class RequestFunnel(msgspec.Struct, frozen=True):
    request: str
    wanted: int | None
    stages: tuple[Stage, ...]


class Explanation(msgspec.Struct, frozen=True):
    """`funnels` per request (or subrequest), `nearest` the closest miss, `held_by` claim per device that would match."""

    outcome: Outcome
    funnels: tuple[RequestFunnel, ...]
    nearest: Reason | None
    held_by: tuple[tuple[str, str], ...]


def explain(fleet: Fleet, claim: ResourceClaim) -> Explanation:
    """Explain the state of one claim against the fleet."""
    raise NotImplementedError
