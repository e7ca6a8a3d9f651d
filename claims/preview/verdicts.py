"""What can be said of an ask that is looked at now: free, busy, to be had from a pool that can grow, out of
service, or impossible.

The engine answers each: it is asked again as if nobody held anything, and as if every node and device were
in service.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.db import models
from django.utils.translation import gettext_lazy as _

from claims.catalogue.stock import EVERYWHERE
from portal.dra.allocator import DEFAULT_STEPS
from portal.dra.cluster import Feasibility, feasible_nodes
from portal.dra.fleet import Fleet
from portal.dra.model import DeviceToleration, ResourceClaim, Toleration

# A question on the side may be given up sooner than the one that was asked.
ASIDE = DEFAULT_STEPS // 20


class Verdict(models.TextChoices):
    """What the panel says first."""

    FREE = "free", _("free now")
    BUSY = "busy", _("busy")
    GROW = "can-grow", _("a pool can grow")
    OUT = "out-of-service", _("out of service")
    IMPOSSIBLE = "impossible", _("impossible here")
    UNKNOWN = "unknown", _("unknown")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A claim and the Pod that would use it, in terms of the engine."""

    fleet: Fleet
    claim: ResourceClaim
    tolerations: Sequence[Toleration] = ()
    node_selector: dict[str, str] = field(default_factory=dict)

    def feasible(self, *, max_steps: int = DEFAULT_STEPS) -> Feasibility:
        """Where it would be placed now."""
        return feasible_nodes(
            self.fleet,
            [self.claim],
            tolerations=self.tolerations,
            node_selector=self.node_selector,
            max_steps=max_steps,
        )

    def fits(self) -> bool:
        """Whether it certainly would be placed now."""
        found = self.feasible(max_steps=ASIDE)
        return found.error is None and bool(found.nodes)

    def changed(self, **changes: Any) -> "Asked":
        """The same with something else in its place."""
        values: dict[str, Any] = {
            "fleet": self.fleet,
            "claim": self.claim,
            "tolerations": self.tolerations,
            "node_selector": self.node_selector,
        }
        return Asked(**values | changes)

    def if_nobody_held_anything(self) -> "Asked":
        return self.changed(fleet=self.fleet.unheld)

    def if_all_were_in_service(self) -> "Asked":
        """Every node of the pool takes the Pod, and no taint of a device is in the way."""
        return self.changed(tolerations=EVERYWHERE, claim=tolerating(self.claim))


def judge(asked: Asked, *, now: Feasibility, can_grow: bool) -> Verdict:
    """The verdict, where `now` is what the engine says of the present."""
    if now.error is not None:
        return Verdict.UNKNOWN
    if now.nodes:
        return Verdict.FREE
    if now.undecided:
        return Verdict.UNKNOWN
    idle = asked.if_nobody_held_anything()
    if idle.fits():
        return Verdict.BUSY
    if can_grow:
        return Verdict.GROW
    return Verdict.OUT if idle.if_all_were_in_service().fits() else Verdict.IMPOSSIBLE


def tolerating(claim: ResourceClaim, toleration: DeviceToleration | None = None) -> ResourceClaim:
    """The claim with one more toleration of taints of devices in every request; None = of every taint."""
    added = toleration or DeviceToleration(operator="Exists")

    def relaxed(ask: Any) -> Any:
        return msgspec.structs.replace(ask, tolerations=(*ask.tolerations, added))

    requests = tuple(
        msgspec.structs.replace(
            request,
            exactly=relaxed(request.exactly) if request.exactly is not None else None,
            first_available=tuple(relaxed(ask) for ask in request.first_available),
        )
        for request in claim.spec.devices.requests
    )
    devices = msgspec.structs.replace(claim.spec.devices, requests=requests)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))
