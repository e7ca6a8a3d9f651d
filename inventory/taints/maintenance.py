"""Planned maintenance: a time, a place, a reason, and the taint that stands there from start to end.

What is planned here is carried out by `inventory.taints.keeping`, at its time or, if that has come, at once.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from inventory.models import Effect, Maintenance
from inventory.taints import news
from inventory.taints.history import note
from inventory.taints.places import UnableToPlace, Where, selectors_at
from inventory.taints.serving import serving
from portal import access, texts
from portal.accounts import audit
from portal.accounts.models import User

State = Maintenance.State
MAX_REASON = 500
# A form that lay open for a while still means "now".
SLACK = timedelta(minutes=10)
LONGEST = timedelta(days=90)
FARTHEST = timedelta(days=730)
LIVING = (State.PLANNED, State.ACTIVE, State.ENDING)
OVER = (State.ENDED, State.CANCELLED, State.MISSED)


class UnableToPlan(Exception):
    """`field` is "starts_at", "ends_at", "reason", "effect", "confirm", a field of the place, or ""."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class ChangedMeanwhile(UnableToPlan):
    """Somebody else was faster."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What somebody plans. `effect` "" = nothing is tainted."""

    starts_at: datetime
    ends_at: datetime
    reason: str
    effect: str = ""


def plan(
    *,
    where: Where,
    terms: Terms,
    actor: User,
    now: datetime,
    confirmed: str = "",
    source_ip: str | None = None,
) -> Maintenance:
    """Plan it and tell the holders. One that taints a whole cluster needs `confirmed`, the cluster's name.
    Raises UnableToPlan."""
    _may_write()
    terms = _checked(terms, now=now, begun=False)
    _check_effect(where, terms.effect, confirmed)
    with transaction.atomic():
        planned = Maintenance.objects.create(
            **where.columns(), **_columns(terms), created_by=actor, created_at=now, changed_at=now
        )
        note(planned, "planned", now=now, actor=actor)
        _record("maintenance.plan", planned, actor=actor, now=now, source_ip=source_ip, after=_told(planned))
        news.tell_holders(planned, "planned", now=now, besides=actor)
    return planned


def change(
    *,
    maintenance: Maintenance,
    terms: Terms,
    seen_version: int,
    actor: User,
    now: datetime,
    confirmed: str = "",
    source_ip: str | None = None,
) -> Maintenance:
    """Change what is planned; of what is under way its end, reason and effect. Raises UnableToPlan."""
    _may_write()
    if maintenance.state not in (State.PLANNED, State.ACTIVE):
        raise UnableToPlan("", _("It is over: plan another one."))
    begun = maintenance.state == State.ACTIVE
    if begun:
        terms = Terms(
            starts_at=maintenance.starts_at, ends_at=terms.ends_at, reason=terms.reason, effect=terms.effect
        )
    terms = _checked(terms, now=now, begun=begun)
    if terms.effect != maintenance.effect:
        _check_effect(_where(maintenance), terms.effect, confirmed)
    before = _told(maintenance)
    with transaction.atomic():
        _claim(maintenance, seen_version, now=now, **_columns(terms))
        note(maintenance, "changed", now=now, actor=actor)
        old, new = audit.changes(before, _told(maintenance))
        _record(
            "maintenance.change",
            maintenance,
            actor=actor,
            now=now,
            source_ip=source_ip,
            before=old,
            after=new,
        )
        if new is not None:
            news.tell_holders(maintenance, "changed", now=now, besides=actor)
    return maintenance


def cancel(
    *, maintenance: Maintenance, seen_version: int, actor: User, now: datetime, source_ip: str | None = None
) -> Maintenance:
    """It does not take place; one that is under way ends now. Raises UnableToPlan."""
    _may_write()
    if maintenance.state == State.PLANNED:
        becomes, what = State.CANCELLED, "cancelled"
    elif maintenance.state == State.ACTIVE:
        becomes, what = State.ENDING, "ended-early"
    else:
        raise UnableToPlan("", _("It is over already."))
    before = {"state": maintenance.state}
    with transaction.atomic():
        _claim(maintenance, seen_version, now=now, state=becomes)
        note(maintenance, what, now=now, actor=actor)
        _record(
            "maintenance.cancel" if becomes == State.CANCELLED else "maintenance.end",
            maintenance,
            actor=actor,
            now=now,
            source_ip=source_ip,
            before=before,
            after={"state": becomes},
        )
        if becomes == State.CANCELLED:
            news.tell_holders(maintenance, "cancelled", now=now, besides=actor)
    return maintenance


def begin_now(
    *, key: uuid.UUID, where: Where, terms: Terms, actor: User, now: datetime, source_ip: str | None = None
) -> Maintenance:
    """Maintenance of what has been emptied, under the same key: its rules are the drain's. Raises
    UnableToPlan."""
    terms = _checked(terms, now=now, begun=False)
    begun = Maintenance.objects.create(
        **where.columns(),
        **_columns(terms),
        key=key,
        state=State.ACTIVE,
        started_at=now,
        created_by=actor,
        created_at=now,
        changed_at=now,
    )
    note(begun, "begun", now=now, actor=actor)
    _record("maintenance.plan", begun, actor=actor, now=now, source_ip=source_ip, after=_told(begun))
    return begun


def as_utc(at: datetime) -> datetime:
    """The moment in UTC; one that no calendar has there is as near to it as there is."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return at.replace(tzinfo=UTC)


# --- inside -------------------------------------------------------------------------------------------


def _may_write() -> None:
    if access.only_looks():
        raise UnableToPlan("", access.why_only_looks())


def _claim(maintenance: Maintenance, seen_version: int, *, now: datetime, **columns: Any) -> None:
    """Write, unless somebody has written since."""
    mine = Maintenance.objects.filter(pk=maintenance.pk, version=seen_version, state=maintenance.state)
    if not mine.update(**columns, changed_at=now, version=F("version") + 1, problem="", tried_at=None):
        raise ChangedMeanwhile(
            "", _("Somebody changed it meanwhile. Look at it again, then repeat your change.")
        )
    maintenance.refresh_from_db()


def _checked(terms: Terms, *, now: datetime, begun: bool) -> Terms:
    try:
        reason = texts.plain(terms.reason)
    except texts.UncleanText as unclean:
        raise UnableToPlan("reason", unclean.message) from None
    if not reason:
        raise UnableToPlan("reason", _("Say why: holders read it."))
    if len(reason) > MAX_REASON:
        raise UnableToPlan("reason", _("At most %(most)d characters.") % {"most": MAX_REASON})
    starts, ends = as_utc(terms.starts_at), as_utc(terms.ends_at)
    if not begun and starts < now - SLACK:
        raise UnableToPlan("starts_at", _("This time has passed."))
    if starts > now + FARTHEST:
        raise UnableToPlan("starts_at", _("That is too far ahead: at most two years."))
    if ends <= starts:
        raise UnableToPlan("ends_at", _("The end has to come after the start."))
    if ends <= now:
        raise UnableToPlan("ends_at", _("This time has passed."))
    # One that goes on may be prolonged, again and again, but never for longer than that at once.
    if ends - (now if begun else starts) > LONGEST:
        raise UnableToPlan("ends_at", _("Maintenance lasts 90 days at most."))
    if terms.effect not in ("", *Effect.values):
        raise UnableToPlan("effect", _("There is no such effect."))
    return Terms(starts_at=starts, ends_at=ends, reason=reason, effect=terms.effect)


def _check_effect(where: Where, effect: str, confirmed: str) -> None:
    if not effect:
        return
    served = serving(where.cluster)
    if not served:
        raise UnableToPlan("effect", served.why_not)
    if effect == Effect.NONE and not served.knows_none:
        raise UnableToPlan("effect", _("This cluster does not know the effect None yet."))
    try:
        selectors = selectors_at(where)
    except UnableToPlace as error:
        raise UnableToPlan(error.field, error.message) from error
    if any(selector.selects_all for selector in selectors) and confirmed.strip() != where.cluster.name:
        raise UnableToPlan(
            "confirm",
            _("This taints every device of the cluster: type its name, %(name)s, to confirm.")
            % {"name": where.cluster.name},
        )


def _where(maintenance: Maintenance) -> Where:
    return Where(
        maintenance.cluster,
        maintenance.scope,
        maintenance.driver,
        maintenance.pool_name,
        maintenance.node_name,
        maintenance.devices,
    )


def _columns(terms: Terms) -> dict[str, Any]:
    return {
        "starts_at": terms.starts_at,
        "ends_at": terms.ends_at,
        "reason": terms.reason,
        "effect": terms.effect,
    }


def _told(maintenance: Maintenance) -> dict[str, Any]:
    return {
        "cluster": maintenance.cluster.name,
        "scope": maintenance.scope,
        "driver": maintenance.driver,
        "pool": maintenance.pool_name,
        "node": maintenance.node_name,
        "devices": len(maintenance.devices),
        "starts_at": maintenance.starts_at.isoformat(),
        "ends_at": maintenance.ends_at.isoformat(),
        "reason": maintenance.reason,
        "effect": maintenance.effect,
    }


def _record(
    action: str,
    maintenance: Maintenance,
    *,
    actor: User | None,
    now: datetime,
    source_ip: str | None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    audit.record(
        now=now,
        actor=actor,
        action=action,
        target=maintenance,
        target_id=str(maintenance.key),
        before=dict(before) if before else None,
        after=dict(after) if after else None,
        source_ip=source_ip,
    )
