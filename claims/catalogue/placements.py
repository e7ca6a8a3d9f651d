"""Placements: where a flavor is served and by which means, what the mirror says of it, and changing it.

What cannot be right (an expression that does not compile, a class that is not there) is an error and stops;
what may become right (nothing matches at present, nobody advertises the resource yet) is a warning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.utils.translation import gettext as _

from claims.catalogue.flavor_terms import UnableToChangeFlavor
from claims.catalogue.flavors import claim_version
from claims.catalogue.placement_terms import COLUMNS, Terms
from claims.models import Flavor, Placement
from inventory.classes import check_expression
from inventory.models import CountedUnits, DeviceClass, Node
from portal.accounts import audit
from portal.accounts.models import User


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about a placement that may be wrong; `name` is the field that it is about."""

    name: str
    words: str


def findings(placement: Placement) -> list[Finding]:
    """What may be wrong with a stored placement, by what the mirror shows now."""
    said = [*_about_class(placement), *_about_selectors(placement)]
    cluster = placement.cluster
    if resource := placement.extended_resource:
        units = CountedUnits.objects.filter(cluster=cluster, resource=resource, capacity__gt=0)
        if not units.exists():
            words = _("No node of the cluster advertises this resource at present.")
            said.append(Finding(name="extended_resource", words=words))
    if wanted := placement.node_selector:
        labels = Node.objects.filter(cluster=cluster).values_list("labels", flat=True)
        if not any(selects(wanted, of_node) for of_node in labels.iterator()):
            words = _("No node of the cluster has these labels at present.")
            said.append(Finding(name="node_selector", words=words))
    return said


def _about_class(placement: Placement) -> Iterator[Finding]:
    if not placement.device_class:
        return
    found = DeviceClass.objects.filter(cluster=placement.cluster, name=placement.device_class).first()
    words = ""
    if found is None:
        words = _("The cluster has no such DeviceClass (any more).")
    elif found.problem:
        words = _("This class cannot be used: %(problem)s") % {"problem": found.problem}
    elif not found.matches.exists():
        words = _("No device of the cluster belongs to this class at present.")
    if words:
        yield Finding(name="device_class", words=words)


def _about_selectors(placement: Placement) -> Iterator[Finding]:
    for number, expression in enumerate(placement.selectors, 1):
        check = check_expression(cluster=placement.cluster, expression=expression)
        told = {"number": number, "problem": check.problem or check.evaluation_error}
        if check.problem:
            yield Finding(name="selectors", words=_("Expression %(number)d: %(problem)s") % told)
        elif check.evaluation_error:
            words = _("Expression %(number)d fails for a device of the cluster: %(problem)s") % told
            yield Finding(name="selectors", words=words)
        elif not check.matched:
            words = _("Expression %(number)d matches no device at present.") % told
            yield Finding(name="selectors", words=words)


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels belongs to the pool; an empty selector is the whole cluster."""
    return all(labels.get(name) == value for name, value in selector.items())


# --- changing ---------------------------------------------------------------------------------------


def save(
    *,
    flavor: Flavor,
    placement: Placement | None,
    terms: Terms,
    seen_version: int,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> Placement:
    """Add a placement (None) or change one, if the flavor still is at `seen_version`. Raises
    UnableToChangeFlavor; nothing is changed then."""
    with transaction.atomic():
        claim_version(flavor, seen_version=seen_version, user=user, now=now)
        rows = Placement.objects.filter(flavor=flavor)
        others = rows.exclude(pk=placement.pk) if placement else rows
        if others.filter(cluster=terms.cluster, pool=terms.columns["pool"]).exists():
            raise UnableToChangeFlavor(
                {"pool": [_("The flavor is served there already; give this node pool another name.")]}
            )
        before = as_dict(placement) if placement else None
        if placement is None:
            last = rows.aggregate(last=models.Max("position"))["last"] or 0
            placement = Placement(flavor=flavor, position=last + 1)
        placement.cluster = terms.cluster
        for name, value in terms.columns.items():
            setattr(placement, name, value)
        placement.save()
        audit.record_edit(
            kind="placement",
            target=placement,
            before=before,
            after=as_dict(placement),
            actor=user,
            now=now,
            source_ip=source_ip,
        )
    return placement


def remove(
    *,
    placement: Placement,
    seen_version: int,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """No longer serve the flavor there. Requests that were made go on. Raises UnableToChangeFlavor."""
    with transaction.atomic():
        claim_version(placement.flavor, seen_version=seen_version, user=user, now=now)
        audit.record_edit(
            kind="placement",
            target=placement,
            before=as_dict(placement),
            after=None,
            actor=user,
            now=now,
            source_ip=source_ip,
        )
        placement.delete()


def switch(
    *, placement: Placement, stage: str, user: User, now: datetime, source_ip: str | None = None
) -> None:
    """Go to DRA, back to the Device Plugin, or by the conditions again. Harmless when it is so already.
    Raises UnableToChangeFlavor when the placement offers only one way."""
    if stage not in Placement.Stage.values:
        raise UnableToChangeFlavor({"stage": [_("There is no such stage.")]})
    if not (placement.device_class and placement.extended_resource):
        raise UnableToChangeFlavor({"stage": [_("There is only one way here: nothing to switch.")]})
    with transaction.atomic():
        before = placement.stage
        changed = Placement.objects.filter(pk=placement.pk).exclude(stage=stage).update(stage=stage)
        if changed:
            Flavor.objects.filter(pk=placement.flavor_id).update(
                version=models.F("version") + 1, changed_at=now, changed_by=user
            )
            placement.refresh_from_db()
            audit.record_edit(
                kind="placement",
                target=placement,
                before={"stage": before},
                after={"stage": stage},
                actor=user,
                now=now,
                source_ip=source_ip,
            )


def as_dict(placement: Placement) -> dict[str, Any]:
    """For audit entries, forms and REST."""
    return {"cluster": placement.cluster.name} | {name: getattr(placement, name) for name in COLUMNS}
