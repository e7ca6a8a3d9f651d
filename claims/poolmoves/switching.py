"""Switching the flavors of a node pool between the Device Plugin and DRA, and rolling that back: the effect
is shown first, place by place, and only what was shown is done.

The way is that of the catalogue (`claims.catalogue.backends`): each place of a flavor has a stage, and
conditions that decide where an administrator has not.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.catalogue import placements
from claims.catalogue.backends import Choice, Rule, choose_backend
from claims.catalogue.flavor_terms import UnableToChangeFlavor
from claims.catalogue.flavors import claim_version
from claims.catalogue.placements import selects
from claims.catalogue.places import choices_of
from claims.catalogue.stock import FleetOf, Stock, stocks_of
from claims.models import FINAL_STATES, Placement, PoolPlan, PoolPlanEntry, Request
from claims.poolmoves.plans import UnableToPlan
from inventory.poolmoves.pool import CANARY, Members
from inventory.snapshot import fleet
from portal.accounts import audit
from portal.accounts.models import User

Way = Placement.Stage
Plan = PoolPlan.Stage


@dataclass(frozen=True, kw_only=True)
class PlaceEffect:
    """One place of a flavor: its stage and way now, and what they would be. `after` is None where it stays as
    it is; `why_not` says why nothing can be done here."""

    placement: Placement
    part: str
    # It serves nodes beyond the pool, too: it selects none.
    whole_cluster: bool
    stage_now: str
    choice: Choice
    stock: Stock
    stage: str
    after: Choice | None
    stock_after: Stock | None
    # Requests that are not over, by the way they were made; they keep it.
    by_plugin: int
    by_dra: int
    why_not: str = ""

    @property
    def changes(self) -> bool:
        return self.after is not None

    @property
    def switches(self) -> bool:
        """Whether new requests would be served another way."""
        return self.after is not None and self.after.backend != self.choice.backend


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a switch would do; `seen` names exactly this, for who decides on it."""

    places: Sequence[PlaceEffect]
    seen: str

    @property
    def changes(self) -> list[PlaceEffect]:
        return [place for place in self.places if place.changes]


def places_in(plan: PoolPlan, members: Members) -> list[Placement]:
    """Places of flavors (archived ones left out) that are served on the pool's nodes, by its resource or its
    class."""
    rows = (
        Placement.objects.filter(cluster=plan.cluster, flavor__archived_at=None)
        .select_related("flavor", "cluster")
        .order_by("flavor__position", "flavor__name", "position", "pk")
    )
    found = [
        row
        for row in rows
        if plan.extended_resource == row.extended_resource or plan.device_class == row.device_class
    ]
    labels = [node.labels for node in members.nodes.values()]
    own = (plan.labels, plan.canary_labels)
    return [
        row
        for row in found
        if not row.node_selector
        or row.node_selector in own
        or any(selects(row.node_selector, of_node) for of_node in labels)
    ]


def part_of(placement: Placement, plan: PoolPlan, members: Members) -> str:
    """CANARY where a place is served on the canary's nodes alone, else "old"."""
    if plan.canary_labels and placement.node_selector == plan.canary_labels:
        return CANARY
    here = {
        part for name, part in members.parts.items()
        if selects(placement.node_selector, members.nodes[name].labels)
    }  # fmt: skip
    return CANARY if here == {CANARY} else "old"


def targets_of(plan: PoolPlan, rows: Sequence[Placement], members: Members) -> dict[int, str]:
    """What the pool's stage asks for, by place: the plugin at first and DRA at last; DRA on the canary alone
    while it is tried; and by the conditions of each flavor while both are there."""
    if plan.stage == Plan.DUAL:
        return {row.pk: Way.AUTOMATIC for row in rows}
    if plan.stage == Plan.MIGRATED:
        return {row.pk: Way.DRA for row in rows}
    tried = plan.stage == Plan.CANARY
    return {
        row.pk: Way.DRA if tried and part_of(row, plan, members) == CANARY else Way.PLUGIN for row in rows
    }


def targets_for(rows: Sequence[Placement], way: str) -> dict[int, str]:
    """The same way for all. Raises UnableToPlan."""
    if way not in Way.values:
        raise UnableToPlan({"to": [_("Choose one of: %(choices)s.") % {"choices": ", ".join(Way.values)}]})
    return {row.pk: way for row in rows}


def targets_back(entry: PoolPlanEntry, rows: Sequence[Placement]) -> dict[int, str]:
    """As it was before a switch; places that somebody has changed since are left alone."""
    before = {int(told["id"]): (str(told["from"]), str(told["to"])) for told in entry.facts["places"]}
    return {row.pk: before[row.pk][0] for row in rows if row.pk in before and row.stage == before[row.pk][1]}


def effect(
    plan: PoolPlan, members: Members, *, targets: Mapping[int, str], rows: Sequence[Placement],
    fleet_of: FleetOf = fleet,
) -> Effect:  # fmt: skip
    """What bringing places (by primary key) to these stages would do. Those without a target stay."""
    now = choices_of(rows)
    then = {row.pk: _after(row, now[row.pk], targets.get(row.pk)) for row in rows}
    clusters = {plan.cluster_id: plan.cluster}
    stocks = stocks_of(rows, choices=now, clusters=clusters, fleet_of=fleet_of)
    moved = [row for row in rows if (choice := then[row.pk][0]) and choice.backend != now[row.pk].backend]
    later = stocks_of(
        moved,
        choices={row.pk: choice for row in moved if (choice := then[row.pk][0]) is not None},
        clusters=clusters,
        fleet_of=fleet_of,
    )
    open_requests = _open(plan, rows)
    found = [
        PlaceEffect(
            placement=row,
            part=part_of(row, plan, members),
            whole_cluster=not row.node_selector,
            stage_now=row.stage,
            choice=now[row.pk],
            stock=stocks[row.pk],
            stage=targets.get(row.pk, row.stage),
            after=then[row.pk][0],
            stock_after=later.get(row.pk, stocks[row.pk]) if then[row.pk][0] else None,
            by_plugin=open_requests[row.flavor_id, Request.Backend.PLUGIN],
            by_dra=open_requests[row.flavor_id, Request.Backend.DRA],
            why_not=then[row.pk][1],
        )
        for row in rows
    ]
    return Effect(places=found, seen=_digest(plan, found))


def apply(
    *,
    plan: PoolPlan,
    found: Effect,
    seen: str,
    why: str,
    user: User,
    now: datetime,
    undoes: PoolPlanEntry | None = None,
    source_ip: str | None = None,
) -> PoolPlanEntry:
    """Do what `found` shows, if that is what was `seen`. Raises UnableToPlan (with `conflict` where something
    has changed meanwhile); nothing is changed then."""
    if seen != found.seen:
        raise UnableToPlan(
            {WHOLE: [_("Something has changed since you looked. This is what the switch would do now.")]},
            conflict=True,
        )
    if not found.changes:
        raise UnableToPlan({WHOLE: [_("Nothing would change.")]})
    if not why:
        raise UnableToPlan({"why": [_("Say why; it is kept with the history of the pool.")]})
    try:
        with transaction.atomic():
            flavors = {place.placement.flavor_id: place.placement.flavor for place in found.changes}
            for flavor in flavors.values():
                claim_version(flavor, seen_version=flavor.version, user=user, now=now)
            for place in found.changes:
                placements.switch(
                    placement=place.placement, stage=place.stage, user=user, now=now, source_ip=source_ip
                )
            return _note(plan, found, why=why, user=user, now=now, undoes=undoes, ip=source_ip)
    except UnableToChangeFlavor as error:
        raise UnableToPlan(error.errors, conflict=error.conflict) from error


def undone(plan: PoolPlan) -> set[int]:
    """Keys of the switches that were rolled back."""
    rows = plan.entries.filter(kind=PoolPlanEntry.Kind.UNDO).values_list("facts", flat=True)
    return {int(facts["undoes"]) for facts in rows if "undoes" in facts}


# --- inside -----------------------------------------------------------------------------------------


def _after(row: Placement, choice: Choice, stage: str | None) -> tuple[Choice | None, str]:
    if stage is None or stage == row.stage:
        return None, ""
    if not (row.device_class and row.extended_resource):
        return None, _("Only one way is offered here: name the other one at the flavor first.")
    if choice.code == "not-served":
        return None, _("The cluster does not serve DRA.")
    if stage == Way.AUTOMATIC:
        row_then = Placement(**{f.attname: getattr(row, f.attname) for f in Placement._meta.concrete_fields})
        row_then.stage = stage
        row_then.cluster = row.cluster
        return choices_of([row_then])[row.pk], ""
    return choose_backend(dra=True, plugin=True, stage=stage, rule=Rule(), versions={}), ""


def _open(plan: PoolPlan, rows: Sequence[Placement]) -> Counter[tuple[int, str]]:
    requests = Request.objects.filter(
        cluster=plan.cluster, flavor__in={row.flavor_id for row in rows}
    ).exclude(state__in=FINAL_STATES)
    counted: Counter[tuple[int, str]] = Counter()
    for flavor, backend in requests.values_list("flavor_id", "backend"):
        if flavor is not None:
            counted[flavor, backend] += 1
    return counted


def _digest(plan: PoolPlan, found: Sequence[PlaceEffect]) -> str:
    told = [
        (
            place.placement.pk,
            place.placement.flavor.version,
            place.stage_now,
            place.stage,
            place.choice.backend,
            place.after.backend if place.after else "",
        )
        for place in found
    ]
    return hashlib.sha256(json.dumps([plan.pk, plan.stage, told]).encode()).hexdigest()[:32]


def _note(
    plan: PoolPlan, found: Effect, *, why: str, user: User, now: datetime, undoes: PoolPlanEntry | None,
    ip: str | None,
) -> PoolPlanEntry:  # fmt: skip
    told = [
        {
            "id": place.placement.pk,
            "flavor": place.placement.flavor.slug,
            "pool": place.placement.pool,
            "from": place.stage_now,
            "to": place.stage,
        }
        for place in found.changes
    ]
    facts: dict[str, object] = {"places": told}
    if undoes is not None:
        facts["undoes"] = undoes.pk
    kind = PoolPlanEntry.Kind.UNDO if undoes else PoolPlanEntry.Kind.SWITCH
    entry = PoolPlanEntry.objects.create(plan=plan, kind=kind, at=now, person=user, why=why, facts=facts)
    audit.record(
        now=now, actor=user, action=f"pool-plan.{kind}", target=plan,
        before={f"{place['flavor']} {place['pool']}".strip(): place["from"] for place in told},
        after={f"{place['flavor']} {place['pool']}".strip(): place["to"] for place in told} | {"why": why},
        source_ip=ip,
    )  # fmt: skip
    return entry
