"""Emptying a node, or devices, step by step: who is there, ask them, let nobody new in, evict, confirm.

    open ─> asked ─> closed ─> evicting ─> empty ─> maintenance ─> done
       └──────┴────────┴─────────┴─> cancelled

Asking may be left out or repeated, evicting left out. `empty` is nobody's word but what the mirror shows
while it is in step: see `inventory.taints.emptiness`. Whatever ends it takes its taints away.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from inventory.models import Cluster, Drain, DrainHolder, Maintenance, Node
from inventory.models.taints import NO_EXECUTE, NO_SCHEDULE
from inventory.taints import keeping, news
from inventory.taints.concerned import concerns_of
from inventory.taints.history import note
from inventory.taints.holds import Hold, holds_at
from inventory.taints.maintenance import FARTHEST, Terms, UnableToPlan, as_utc, begin_now
from inventory.taints.places import Scope, UnableToPlace, Where
from inventory.taints.rules import Deed, UnableToTaint
from inventory.taints.serving import serving
from portal import access, texts
from portal.accounts import audit
from portal.accounts.models import User

State = Drain.State
MAX_REASON = 500
MAX_MESSAGE = 1000
MOST_HOLDERS = 500
# From where each step may be taken.
STEPS: Mapping[str, tuple[str, ...]] = {
    State.ASKED: (State.OPEN, State.ASKED, State.CLOSED, State.EVICTING),
    State.CLOSED: (State.OPEN, State.ASKED),
    State.EVICTING: (State.CLOSED,),
    State.EMPTY: (State.CLOSED, State.EVICTING),
    State.MAINTENANCE: (State.EMPTY,),
    State.DONE: (State.EMPTY,),
    State.CANCELLED: (State.OPEN, State.ASKED, State.CLOSED, State.EVICTING),
}
LIVING = (State.OPEN, State.ASKED, State.CLOSED, State.EVICTING, State.EMPTY, State.MAINTENANCE)
OVER = (State.DONE, State.CANCELLED)


class UnableToDrain(Exception):
    """`field` is "reason", "message", "wanted_by", "ends_at", a field of the place, or ""."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class MovedMeanwhile(UnableToDrain):
    """Somebody else was faster, or this step cannot be taken from here."""


def open_drain(
    *, where: Where, reason: str, actor: User, now: datetime, source_ip: str | None = None
) -> Drain:
    """Begin: collect who is there. Nothing happens on the cluster yet. Raises UnableToDrain."""
    _may_write()
    if where.scope not in (Scope.NODE, Scope.DEVICES):
        raise UnableToDrain("scope", _("Only a node, or devices, can be emptied."))
    reason = _clean("reason", reason, most=MAX_REASON, required=True)
    place = where.columns()
    with transaction.atomic():
        # Who begins at the same moment waits here, and then sees this one.
        Cluster.objects.select_for_update().only("pk").get(pk=where.cluster.pk)
        twin = Drain.objects.filter(**place, state__in=LIVING).first()
        if twin is not None:
            raise UnableToDrain("", _("It is being emptied already."))
        drain = Drain.objects.create(**place, reason=reason, created_by=actor, created_at=now, changed_at=now)
        refresh(drain, now=now)
        note(drain, "opened", now=now, actor=actor)
        _record("drain.open", drain, actor=actor, now=now, source_ip=source_ip, after={"reason": reason})
    return drain


def ask(
    *,
    drain: Drain,
    message: str,
    wanted_by: datetime | None,
    seen_version: int,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> int:
    """Ask those who are there to leave, with a message; how many people were asked. Raises UnableToDrain."""
    message = _clean("message", message, most=MAX_MESSAGE)
    if wanted_by is not None:
        wanted_by = as_utc(wanted_by)
        if wanted_by <= now:
            raise UnableToDrain("wanted_by", _("This time has passed."))
        if wanted_by > now + FARTHEST:
            raise UnableToDrain("wanted_by", _("That is too far ahead: at most two years."))
    becomes = drain.state if drain.state in (State.CLOSED, State.EVICTING) else State.ASKED
    with transaction.atomic():
        _step(drain, State.ASKED, seen_version, now=now, becomes=becomes, wanted_by=wanted_by)
        refresh(drain, now=now)
        holders = list(drain.holders.filter(gone_at=None))
        concerns = concerns_of(
            drain.cluster_id, [(holder.namespace, holder.uid) for holder in holders], now=now
        )
        told = news.ask_holders(drain, holders, concerns, message=message, now=now)
        drain.holders.filter(gone_at=None).update(told_at=now)
        note(drain, "asked", now=now, actor=actor, words=message)
        _record("drain.ask", drain, actor=actor, now=now, source_ip=source_ip, after={"people": told})
    return told


def close(
    *, drain: Drain, seen_version: int, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Let nobody new in: taint the devices. Where the cluster serves no rules, its operator has to cordon the
    node, and the desk believes the mirror. Raises UnableToDrain; rules that were made by then stay, and the
    next attempt goes on with them."""
    _look(drain, State.CLOSED, seen_version)
    if serving(drain.cluster):
        _taint(drain, NO_SCHEDULE, actor=actor, now=now, source_ip=source_ip)
    elif not is_cordoned(drain):
        raise UnableToDrain("", _("Cordon the node first: this cluster cannot taint devices by rule."))
    with transaction.atomic():
        _step(drain, State.CLOSED, seen_version, now=now)
        note(drain, "closed", now=now, actor=actor)
        _record("drain.close", drain, actor=actor, now=now, source_ip=source_ip)


def evict(
    *, drain: Drain, seen_version: int, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Have the Pods that are still there evicted, as far as they do not tolerate it. Raises UnableToDrain."""
    _look(drain, State.EVICTING, seen_version)
    if not serving(drain.cluster):
        raise UnableToDrain("", serving(drain.cluster).why_not)
    _taint(drain, NO_EXECUTE, actor=actor, now=now, source_ip=source_ip)
    with transaction.atomic():
        _step(drain, State.EVICTING, seen_version, now=now)
        concerns = [hold.concern for hold in holds_at(drain, now=now) if not hold.counted]
        news.tell_evicting(drain, concerns, now=now)
        note(drain, "evicting", now=now, actor=actor)
        _record("drain.evict", drain, actor=actor, now=now, source_ip=source_ip)


def hand_over(
    *,
    drain: Drain,
    ends_at: datetime,
    reason: str,
    seen_version: int,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> Maintenance:
    """What is empty goes into maintenance until `ends_at`; its taints stand until that is over. Raises
    UnableToDrain."""
    _look(drain, State.MAINTENANCE, seen_version)
    rules = drain.rules.filter(removed_at=None)
    effect = rules.values_list("effect", flat=True).first() or ""
    terms = Terms(starts_at=now, ends_at=ends_at, reason=reason or drain.reason, effect=effect)
    try:
        with transaction.atomic():
            # Of two who do it at the same moment, the second waits here, and finds it done.
            drain.refresh_from_db(from_queryset=Drain.objects.select_for_update())
            _look(drain, State.MAINTENANCE, seen_version)
            begun = begin_now(
                key=drain.key, where=where_of(drain), terms=terms, actor=actor, now=now, source_ip=source_ip
            )
            drain.rules.update(maintenance=begun)
            _step(drain, State.MAINTENANCE, seen_version, now=now, maintenance=begun)
            note(drain, "handed-over", now=now, actor=actor)
            _record("drain.hand-over", drain, actor=actor, now=now, source_ip=source_ip)
    except UnableToPlan as error:
        raise UnableToDrain(error.field, error.message) from error
    return begun


def finish(
    *, drain: Drain, seen_version: int, actor: User, now: datetime, source_ip: str | None = None
) -> int:
    """Back in service, or given up: the taints go. How many rules could not be removed yet; they are tried
    again. Raises UnableToDrain."""
    becomes = State.DONE if drain.state == State.EMPTY else State.CANCELLED
    with transaction.atomic():
        _step(drain, becomes, seen_version, now=now)
        note(drain, "done" if becomes == State.DONE else "cancelled", now=now, actor=actor)
        action = "drain.finish" if becomes == State.DONE else "drain.cancel"
        _record(action, drain, actor=actor, now=now, source_ip=source_ip)
    return keeping.remove_leftovers(now=now, cluster=drain.cluster, actor=actor)


def refresh(drain: Drain, *, now: datetime) -> list[Hold]:
    """Bring the holders in step with what the mirror shows; who was not told yet is new. Only call it while
    that may be believed, except to begin with."""
    holds = holds_at(drain, now=now)[:MOST_HOLDERS]
    known = {row.uid: row for row in drain.holders.all()}
    for hold in holds:
        concern = hold.concern
        columns = {
            "namespace": hold.namespace, "name": hold.name, "counted": hold.counted,
            "things": list(hold.things), "pods": list(hold.pods), "project": concern.project,
            "request_key": concern.key, "held_until": concern.until, "gone_at": None,
        }  # fmt: skip
        row = known.get(hold.uid)
        if row is None:
            DrainHolder.objects.create(drain=drain, uid=hold.uid, **columns)
        elif any(getattr(row, name) != value for name, value in columns.items()):
            DrainHolder.objects.filter(pk=row.pk).update(**columns)
    here = {hold.uid for hold in holds}
    gone = [row.pk for row in known.values() if row.uid not in here and row.gone_at is None]
    if gone:
        drain.holders.filter(pk__in=gone).update(gone_at=now)
    return holds


def where_of(drain: Drain) -> Where:
    """Its place, for others to plan with."""
    return Where(
        drain.cluster, drain.scope, drain.driver, drain.pool_name, drain.node_name, drain.devices
    )  # fmt: skip


def is_cordoned(drain: Drain) -> bool:
    """Whether its node takes no new Pods, as far as the mirror knows; devices have no cordon."""
    nodes = Node.objects.filter(cluster=drain.cluster_id, name=drain.node_name, unschedulable=True)
    return drain.scope == Scope.NODE and nodes.exists()


# --- inside -------------------------------------------------------------------------------------------


def _may_write() -> None:
    if access.only_looks():
        raise UnableToDrain("", access.why_only_looks())


def _look(drain: Drain, to: str, seen_version: int) -> None:
    """Refuse before the cluster is asked."""
    _may_write()
    if drain.version != seen_version or drain.state not in STEPS[to]:
        raise MovedMeanwhile("", _("It has moved on meanwhile. Look at it again."))


def _step(
    drain: Drain, to: str, seen_version: int, *, now: datetime, becomes: str = "", **columns: Any
) -> None:
    """Take a step, unless somebody has taken one since."""
    _may_write()
    mine = Drain.objects.filter(pk=drain.pk, version=seen_version, state__in=STEPS[to])
    written = mine.update(
        state=becomes or to, changed_at=now, version=F("version") + 1, problem="", **columns
    )
    if not written:
        raise MovedMeanwhile("", _("It has moved on meanwhile. Look at it again."))
    drain.refresh_from_db()


def _taint(drain: Drain, effect: str, *, actor: User, now: datetime, source_ip: str | None) -> None:
    deed = Deed(actor=actor, now=now, source_ip=source_ip, drain=drain)
    try:
        keeping.put_rules(drain, effect, deed=deed)
    except (UnableToTaint, UnableToPlace) as error:
        Drain.objects.filter(pk=drain.pk).update(problem=error.message[:1000])
        raise UnableToDrain("", error.message) from error


def _clean(field: str, text: str, *, most: int, required: bool = False) -> str:
    try:
        found = texts.plain(text)
    except texts.UncleanText as unclean:
        raise UnableToDrain(field, unclean.message) from None
    if required and not found:
        raise UnableToDrain(field, _("Say why: holders read it."))
    if len(found) > most:
        raise UnableToDrain(field, _("At most %(most)d characters.") % {"most": most})
    return found


def _record(
    action: str,
    drain: Drain,
    *,
    actor: User | None,
    now: datetime,
    source_ip: str | None,
    after: dict[str, Any] | None = None,
) -> None:
    audit.record(
        now=now,
        actor=actor,
        action=action,
        target=drain,
        target_id=str(drain.key),
        after={"state": drain.state} | (after or {}),
        source_ip=source_ip,
    )
