"""An explanation as text for people."""

from portal.dra.explain import Explanation, explain
from portal.dra.fleet import Fleet
from portal.dra.funnel import RequestFunnel
from portal.dra.model import ResourceClaim

_MOST_NODES = 10
_MOST_HOLDERS = 10


def tell(fleet: Fleet, claim: ResourceClaim, *, node: str | None = None) -> tuple[str, str]:
    """Lines for one claim, and the outcome in one word, as `allocate` names it."""
    found = explain(fleet, claim, node=node)
    name = "/".join(filter(None, claim.key))
    lines: list[str]
    if found.feasible.error is not None:
        lines = [f"claim {name}: error", f"  {found.nearest}"]
        outcome = "error"
    elif found.feasible.nodes:
        lines = [f"claim {name}: fits on {_some(found.feasible.nodes)}"]
        outcome = "allocated"
    else:
        outcome = "undecided" if found.feasible.undecided else "unschedulable"
        lines = [f"claim {name}: does not fit", f"  nearest: {found.nearest}"]
    for one in found.funnels:
        lines.extend(_funnel(one))
    if not found.feasible.nodes:
        lines.extend(_rest(found))
    return "\n".join(lines) + "\n", outcome


def _funnel(one: RequestFunnel) -> list[str]:
    wanted = "all devices" if one.wanted is None else f"{one.wanted} device{'s' if one.wanted != 1 else ''}"
    lines = [f"  request {one.request}, {wanted}:"]
    lines.extend(
        f"    {stage.devices:>7} devices on {stage.nodes:>5} nodes  {stage.reason}" for stage in one.stages
    )
    return lines


def _rest(found: Explanation) -> list[str]:
    lines = []
    if found.held_by:
        lines.append("  held:")
        lines.extend(f"    {device} by {holder}" for device, holder in found.held_by[:_MOST_HOLDERS])
        if len(found.held_by) > _MOST_HOLDERS:
            lines.append(f"    … and {len(found.held_by) - _MOST_HOLDERS} more")
    closed = [reason for reason in found.feasible.rejected.values() if reason.code.startswith("node-")]
    if closed:
        lines.append("  nodes that take no new Pods:")
        lines.extend(f"    {reason}" for reason in closed[:_MOST_NODES])
        if len(closed) > _MOST_NODES:
            lines.append(f"    … and {len(closed) - _MOST_NODES} more")
    return lines


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - _MOST_NODES
    return ", ".join(names[:_MOST_NODES]) + (f" and {rest} more nodes" if rest > 0 else "")
