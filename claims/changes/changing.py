"""Changes of requests that go on: more time, another number or memory of devices, another purpose. Each is a
request of its own: what is and what shall be, a reason, and the agreement of whoever the flavor names.

More time and another purpose are changed in place. A claim on a cluster cannot be changed, so everything else
becomes a new request that takes the place of the first; the first gives its devices back as soon as the new
one has its own, or when a person says so. Conditions of approvals are in `claims.changes.decisions`.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.asks.again import values_of
from claims.asks.judging import parse, understand
from claims.asks.reading import WHOLE, WrongValue, read_choice, read_text
from claims.asks.values import Ask, UnableToSubmit
from claims.bookings.conflicts import conflicts, keep_clear, words_of
from claims.changes.news import tell_approvers, tell_requester
from claims.models import Flavor, Placement, Request, RequestChange
from claims.money.budget_guard import refuse_spent
from claims.quotas import guard as quotas_guard
from claims.requests.approval_rules import approval_for
from claims.requests.desk_acts import end_replaced
from claims.requests.making import add_follower, patience, request_of
from claims.requests.rehearsal import Connect, rehearse
from claims.requests.states import LIVE
from claims.requests.transitions import record
from inventory.clusters import client_for
from inventory.models import Cluster
from portal import access
from portal.accounts.models import User

State = RequestChange.State
Origin = RequestChange.Origin
Release = RequestChange.Release

HOUR = timedelta(hours=1)
MAX_REASON = 1_000
# What can change, in the order in which it is told; the first two need another object on the cluster.
REPLACING = ("count", "min_memory")
FIELDS = (*REPLACING, "duration_hours", "purpose")
# Names of the form, and what they are called here.
_TYPED = {"count": "count", "min_memory": "min_memory", "duration": "duration_hours", "purpose": "purpose"}


class UnableToChangeRequest(Exception):
    """Nothing was changed. `errors` maps field names (or WHOLE) to messages for people."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(said)}" for name, said in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a change would come to."""

    ask: Ask
    current: Mapping[str, Any]
    wanted: Mapping[str, Any]

    @property
    def replaces(self) -> bool:
        """Whether the cluster needs another object for it."""
        return any(name in self.wanted for name in REPLACING)

    @property
    def more(self) -> bool:
        """Whether it takes something from others, so that somebody may have to agree."""
        longer = self.wanted.get("duration_hours", 0) > self.current.get("duration_hours", 0)
        return longer or self.replaces


def ask(
    *,
    request: Request,
    user: User,
    values: Mapping[str, object],
    now: datetime,
    source_ip: str | None = None,
    connect: Connect = client_for,
) -> RequestChange:
    """Ask for a change: `values` has those of count, min_memory, duration (with duration_unit) and purpose
    that shall be different, a `reason`, and `release` (of the first request, if it has to be replaced).

    The cluster judges on trial what it would have to create. Where nobody has to agree, it is done at once.
    Raises UnableToChangeRequest with every error; talks to the cluster: not inside a transaction."""
    _require_writing()
    if request.state not in LIVE:
        raise _whole(_not_live(request))
    errors: dict[str, list[str]] = {}
    reason = _attempt(errors, "reason", lambda: read_text(values, "reason", limit=MAX_REASON), "")
    if not reason and "reason" not in errors:
        errors["reason"] = [_("Say why: those who decide read it.")]
    release = _attempt(errors, "release", lambda: _release(values), Release.WHEN_SERVED.value)
    found = read_wanted(request, values, user=user, now=now, errors=errors)
    if errors or found is None:
        raise UnableToChangeRequest(errors)
    approval, own = approval_for(found.ask) if found.more else (Flavor.Approval.NONE, False)
    change = RequestChange(
        request=request,
        current=dict(found.current),
        wanted=dict(found.wanted),
        reason=reason,
        person=user,
        approval=approval,
        own_approval=own,
        replaces=found.replaces,
        release=release,
        created_at=now,
        changed_at=now,
    )
    try_out(change, found, now=now, connect=connect)
    with transaction.atomic():
        _lock(request)
        if request.state not in LIVE:
            raise _whole(_not_live(request))
        try:
            with transaction.atomic():
                change.save(force_insert=True)
        except IntegrityError:
            raise _whole(_("Another change of it is open; it has to be settled first.")) from None
        after = {**change.wanted, "message": reason}
        record(
            request,
            "request.change-ask",
            actor=user,
            now=now,
            before=change.current,
            after=after,
            ip=source_ip,
        )
        if approval == Flavor.Approval.NONE:
            apply(change, actor=user, now=now, ip=source_ip)
        else:
            tell_approvers(change, now=now)
    return change


def withdraw(*, change: RequestChange, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Give a change up before it is done. Harmless when it is withdrawn already."""
    _require_writing()
    with transaction.atomic():
        moved = move(change, (State.WAITING, State.OFFERED), State.WITHDRAWN, now=now, ended_at=now)
        if moved:
            record(change.request, "request.change-withdraw", actor=user, now=now, ip=source_ip)
    if not moved and change.state != State.WITHDRAWN:
        raise _whole(not_now(change))


def read_wanted(
    request: Request,
    values: Mapping[str, object],
    *,
    user: User,
    now: datetime,
    errors: dict[str, list[str]],
) -> Wanted | None:
    """What would be different, read by the rules of the form; None, and messages in `errors`, where it makes
    no sense."""
    typed = {name: values[name] for name in _TYPED if values.get(name) not in (None, "")}
    if "min_memory" in values and values.get("min_memory") == "" and request.min_memory:
        # Emptied on purpose: any will do.
        typed["min_memory"] = ""
    if "duration" in typed:
        typed["duration_unit"] = values.get("duration_unit") or "hours"
    try:
        found = understand({**values_of(request), **typed}, user=user, now=now)
    except UnableToSubmit as error:
        for name, said in error.errors.items():
            errors.setdefault(name if name in _TYPED else WHOLE, []).extend(said)
        return None
    before, after = _facts_of(request), _facts(found)
    changed = [name for name in FIELDS if before[name] != after[name]]
    if not changed:
        errors.setdefault(WHOLE, []).append(_("Nothing would change."))
        return None
    wanted = Wanted(
        ask=found,
        current={name: before[name] for name in changed},
        wanted={name: after[name] for name in changed},
    )
    try:
        # What takes nothing more is never refused, however little is left: it may be what makes room.
        if wanted.replaces:
            quotas_guard.refuse_early(found, now=now)
        if wanted.more:
            refuse_spent(request.project, now=now)
    except UnableToSubmit as error:
        for name, said in error.errors.items():
            errors.setdefault(name if name in _TYPED else WHOLE, []).extend(said)
        return None
    began = request.allocated_at or now
    if "duration_hours" in changed and not wanted.replaces and began + found.duration <= now:
        errors.setdefault("duration", []).append(
            _("It would be over already; release it if you need it no more.")
        )
        return None
    return wanted


def try_out(change: RequestChange, found: Wanted, *, now: datetime, connect: Connect) -> None:
    """What a new request would be judged by, for a change: quotas, bookings, and the cluster on trial. Raises
    UnableToChangeRequest."""
    request = change.request
    try:
        if found.replaces:
            follower = request_of(found.ask, key=change.key, now=now)
            keep_clear(request=follower, now=now)
            rehearse(follower, connect=connect)
            change.spec = follower.spec
        elif found.more:
            _within_limits(request, found.ask.duration, now=now)
    except UnableToSubmit as error:
        names = (*_TYPED, WHOLE)
        raise UnableToChangeRequest(
            {(name if name in names else WHOLE): said for name, said in error.errors.items()}
        ) from error


def apply(change: RequestChange, *, actor: User | None, now: datetime, ip: str | None = None) -> None:
    """Do what was agreed to, inside the caller's transaction. What is no longer possible makes it failed, and
    says why: nothing is done by half."""
    request = change.request
    _lock(request)
    try:
        with transaction.atomic():
            if request.state not in LIVE:
                raise _whole(_not_live(request))
            if change.replaces:
                _replace(change, now=now, ip=ip)
            else:
                _in_place(change, now=now)
    except (UnableToChangeRequest, UnableToSubmit) as error:
        said = " ".join(text for texts in error.errors.values() for text in texts)
        move(change, (State.WAITING, State.APPROVED), State.FAILED, now=now, message=said, ended_at=now)
        record(request, "request.change-fail", actor=None, now=now, after={"message": said})
    else:
        move(change, (State.WAITING, State.APPROVED), State.APPLIED, now=now, ended_at=now)
        record(
            request,
            "request.change-apply",
            actor=actor,
            now=now,
            before=change.current,
            after=change.wanted,
            ip=ip,
        )
    tell_requester(change, actor=actor, now=now)


def release_replaced(*, cluster: Cluster, now: datetime) -> int:
    """Give back, by the desk itself, what requests hold whose followers have their devices now. Returns how
    many. One query while there are none."""
    rows = RequestChange.objects.filter(
        request__cluster=cluster,
        state=State.APPLIED,
        replaces=True,
        release=Release.WHEN_SERVED,
        released_at=None,
        successor__allocated_at__isnull=False,
    )
    ended = 0
    for change in rows.select_related("request", "successor"):
        with transaction.atomic():
            ended += end_replaced(request=change.request, now=now)
            RequestChange.objects.filter(pk=change.pk).update(released_at=now)
    return ended


def move(change: RequestChange, expected: tuple[str, ...], to: str, *, now: datetime, **columns: Any) -> bool:
    """Compare-and-set of a change's state. Returns whether it was us; `change` is refreshed either way."""
    rows = RequestChange.objects.filter(pk=change.pk, state__in=expected)
    changed = rows.update(state=to, changed_at=now, **columns) == 1
    change.refresh_from_db(fields=["state", "message", "wanted", "ended_at", "changed_at", "successor"])
    return changed


def as_typed(wanted: Mapping[str, Any]) -> dict[str, str]:
    """What a change comes to, in the names of the form."""
    named = {kept: typed for typed, kept in _TYPED.items()}
    typed = {named[name]: str(value) for name, value in wanted.items()}
    return typed | ({"duration_unit": "hours"} if "duration_hours" in wanted else {})


def not_now(change: RequestChange) -> str:
    """Why nothing can be said about it any more."""
    return _("The change is “%(state)s”; nothing more can be done about it.") % {
        "state": State(change.state).label
    }


# --- inside ---------------------------------------------------------------------------------------


def _in_place(change: RequestChange, *, now: datetime) -> None:
    request = change.request
    columns: dict[str, Any] = {}
    if "purpose" in change.wanted:
        columns["purpose"] = change.wanted["purpose"]
    if "duration_hours" in change.wanted:
        duration = change.wanted["duration_hours"] * HOUR
        if duration > request.duration:
            quotas_guard.lock(request.project)
            _within_limits(request, duration, now=now)
        end = (request.allocated_at + duration) if request.allocated_at else now + patience(duration)
        columns |= {"duration": duration, "expires_at": end, "ends_by": None}
    Request.objects.filter(pk=request.pk, state__in=LIVE).update(changed_at=now, **columns)
    request.refresh_from_db()


def _replace(change: RequestChange, *, now: datetime, ip: str | None) -> None:
    """The request that takes the place: asked again as of now, since the catalogue may have changed."""
    request = change.request
    found = parse({**values_of(request), **as_typed(change.wanted)}, user=change.person, now=now)
    follower = request_of(found, key=change.key, now=now)
    # They were asked about the change.
    follower.approval, follower.own_approval = change.approval, change.own_approval
    follower.state, follower.due_at = Request.State.SUBMITTED, now
    follower.hold_wanted = request.hold_wanted and follower.shape == Request.Shape.CLAIM
    quotas_guard.admit(follower, now=now)
    keep_clear(request=follower, now=now)
    add_follower(follower, actor=change.person, now=now, ip=ip)
    RequestChange.objects.filter(pk=change.pk).update(successor=follower)


def _within_limits(request: Request, duration: timedelta, *, now: datetime) -> None:
    """Quotas and bookings about the time that comes on top. Raises UnableToSubmit."""
    longer = copy.copy(request)
    longer.duration = duration
    for verdict in quotas_guard.verdicts([longer], now=now)[0]:
        if verdict.refuses and verdict.field == "duration":
            raise UnableToSubmit({"duration": [verdict.words]})
    if request.flavor is None or request.expires_at is None or request.allocated_at is None:
        return
    placements = Placement.objects.filter(flavor=request.flavor, cluster=request.cluster, pool=request.pool)
    placement = placements.select_related("flavor", "cluster").first()
    end = request.allocated_at + duration
    if placement is None or end <= request.expires_at:
        return
    found = conflicts(
        placement=placement,
        count=request.count,
        min_memory=request.min_memory,
        start=request.expires_at,
        end=end,
        now=now,
    )
    if found is not None and found.kept:
        raise UnableToSubmit({"duration": [words_of(found)]})


def _facts_of(request: Request) -> dict[str, Any]:
    return {
        "count": request.count,
        "min_memory": request.min_memory,
        "duration_hours": request.duration // HOUR,
        "purpose": request.purpose,
    }


def _facts(ask: Ask) -> dict[str, Any]:
    return {
        "count": ask.count,
        "min_memory": ask.min_memory,
        "duration_hours": ask.duration // HOUR,
        "purpose": ask.purpose,
    }


def _release(values: Mapping[str, object]) -> str:
    if not values.get("release"):
        return Release.WHEN_SERVED.value
    return read_choice(values, "release", Release.values)


def _attempt(errors: dict[str, list[str]], name: str, read: Callable[[], str], default: str) -> str:
    try:
        return read()
    except WrongValue as error:
        errors.setdefault(name, []).append(str(error))
        return default


def _lock(request: Request) -> None:
    """The request as it is now, and nobody else changes it before the transaction ends."""
    request.refresh_from_db(from_queryset=Request.objects.select_for_update())


def _not_live(request: Request) -> str:
    return _("It can be changed while it is on the cluster; it is “%(state)s”.") % {
        "state": Request.State(request.state).label
    }


def _whole(message: str) -> UnableToChangeRequest:
    return UnableToChangeRequest({WHOLE: [message]})


def _require_writing() -> None:
    if access.only_looks():
        raise _whole(access.why_only_looks())
