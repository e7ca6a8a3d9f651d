"""Who has to agree to a request: by the rule of its flavor and of everything else that it asks for."""

from collections.abc import Mapping

from claims.asks.values import Ask, Reading
from claims.models import Flavor, Placement
from inventory.models import Cluster


def approval_for(ask: Ask | Reading) -> tuple[str, bool]:
    """Who has to agree, and whether the requester may be the one: all that the flavor, its alternatives and
    further parts ask for, taken together."""
    if ask.cluster is None:
        return Flavor.Approval.NONE, False
    device_class = (
        ask.device_class if isinstance(ask.device_class, str) else ask.device_class and ask.device_class.name
    )
    rules = _rules(ask.flavor, ask.cluster, device_class or "")
    for piece in ask.options.alternatives:
        rules += _rules(piece.flavor, ask.cluster, "")
    for piece in ask.options.parts:
        rules += _rules(None, ask.cluster, piece.name)
    asked = [(approval, own) for approval, own in rules if approval != Flavor.Approval.NONE]
    if not asked:
        return Flavor.Approval.NONE, False
    who = {part for approval, _own in asked for part in _PARTS[approval]}
    approval = next(rule for rule, parts in _PARTS.items() if parts == who)
    return approval, all(own for _approval, own in asked)


def _rules(flavor: Flavor | None, cluster: Cluster, device_class: str) -> list[tuple[str, bool]]:
    """Who describes what they need meets the rules of the flavors that are made of the same class there:
    asking past the catalogue is no way around an approval."""
    if flavor is not None:
        return [(flavor.approval, flavor.own_approval)]
    rows = Placement.objects.filter(
        cluster=cluster, device_class=device_class, flavor__archived_at=None
    ).values_list("flavor__approval", "flavor__own_approval")
    return list(rows)


_PARTS: Mapping[str, set[str]] = {
    Flavor.Approval.LEAD: {"lead"},
    Flavor.Approval.ADMINISTRATOR: {"administrator"},
    Flavor.Approval.BOTH: {"lead", "administrator"},
}
