"""What stands in the way of a request that waits for a device, by the desk's own engine, beside what the
scheduler said: why none fits, and who holds those that would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from claims.asks.engine import claim_of, node_tolerations
from claims.models import Request
from claims.preview.outlook import Held, held_by
from claims.preview.panel import HELD_SHOWN, FleetOf, reasons_of
from claims.requests.rehearsal import manifest_of
from inventory.snapshot import fleet
from portal.accounts.models import User
from portal.dra.explain import explain


@dataclass(frozen=True, kw_only=True)
class InTheWay:
    """Reasons in sentences, and who holds devices that would do, whose time ends first first."""

    reasons: Sequence[str] = ()
    held: Sequence[Held] = ()


def in_the_way(request: Request, *, viewer: User, now: datetime, fleet_of: FleetOf = fleet) -> InTheWay:
    """Empty when the request does not wait for a device. Looks at the whole fleet: only for a page that is
    drawn."""
    if request.state != Request.State.WAITING_FOR_DEVICE or request.shape == Request.Shape.ENTITLEMENT:
        return InTheWay()
    explanation = explain(
        fleet_of(request.cluster),
        claim_of(manifest_of(request)),
        tolerations=node_tolerations(request.tolerations),
        node_selector=request.node_selector,
    )
    held = held_by(explanation.held_by, cluster=request.cluster, viewer=viewer, now=now)
    return InTheWay(reasons=reasons_of(explanation), held=held[:HELD_SHOWN])
