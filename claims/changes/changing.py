"""Changes of requests that go on: more time, another number or memory of devices, another purpose. Each is a
request of its own: what is and what shall be, a reason, and the agreement of whoever the flavor names.

More time and another purpose are changed in place. A claim on a cluster cannot be changed, so everything else
becomes a new request that takes the place of the first; the first gives its devices back as soon as the new
one has its own, or when a person says so. Conditions of approvals are in
`claims.changes.decisions`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_choice, read_text
from claims.changes.applying import apply, lock, move, not_live
from claims.changes.limits import try_out
from claims.changes.news import tell_approvers
from claims.changes.wanted import UnableToChangeRequest, read_wanted, whole
from claims.models import Flavor, Request, RequestChange
from claims.quotas import guard as quotas_guard
from claims.requests.approval_rules import approval_for
from claims.requests.rehearsal import Connect
from claims.requests.states import LIVE
from claims.requests.transitions import record
from inventory.clusters import client_for
from portal import access
from portal.accounts.models import User

State = RequestChange.State
Origin = RequestChange.Origin
Release = RequestChange.Release

MAX_REASON = 1_000


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
        raise whole(not_live(request))
    errors: dict[str, list[str]] = {}
    reason = _attempt(errors, "reason", lambda: read_text(values, "reason", limit=MAX_REASON), "")
    if not reason and "reason" not in errors:
        errors["reason"] = [_("Say why: those who decide read it.")]
    release = _attempt(errors, "release", lambda: _release(values), Release.WHEN_SERVED.value)
    found = read_wanted(request, values, user=user, now=now, release=release, errors=errors)
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
        quotas_guard.lock(request.project)
        lock(request)
        if request.state not in LIVE:
            raise whole(not_live(request))
        try:
            with transaction.atomic():
                change.save(force_insert=True)
        except IntegrityError:
            raise whole(_("Another change of it is open; it has to be settled first.")) from None
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
        raise whole(not_now(change))


def not_now(change: RequestChange) -> str:
    """Why nothing can be said about it any more."""
    return _("The change is “%(state)s”; nothing more can be done about it.") % {
        "state": State(change.state).label
    }


# --- inside ---------------------------------------------------------------------------------------


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


def _require_writing() -> None:
    if access.only_looks():
        raise whole(access.why_only_looks())
