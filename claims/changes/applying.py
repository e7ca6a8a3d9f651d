"""Changes that were agreed to, as they are done: in place, or by a request that takes the place of the first
one."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from claims.asks.again import values_of
from claims.asks.judging import understand
from claims.asks.values import UnableToSubmit
from claims.bookings.conflicts import keep_clear
from claims.changes.limits import replaced_by, within_limits
from claims.changes.news import tell_requester
from claims.changes.wanted import HOUR, UnableToChangeRequest, as_typed, whole
from claims.models import Request, RequestChange
from claims.money.budget_guard import refuse_spent
from claims.quotas import guard as quotas_guard
from claims.requests.desk_acts import end_replaced
from claims.requests.making import add_follower, patience, request_of
from claims.requests.states import LIVE
from claims.requests.transitions import record
from inventory.models import Cluster
from portal.accounts.models import User

State = RequestChange.State
Release = RequestChange.Release


def apply(change: RequestChange, *, actor: User | None, now: datetime, ip: str | None = None) -> None:
    """Do what was agreed to, inside the caller's transaction, with the project locked. What is no longer
    possible makes it failed, and says why: nothing is done by half."""
    request = change.request
    lock(request)
    try:
        with transaction.atomic():
            if request.state not in LIVE:
                raise whole(not_live(request))
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


def lock(request: Request) -> None:
    """The request as it is now, and nobody else changes it before the transaction ends."""
    request.refresh_from_db(from_queryset=Request.objects.select_for_update())


def not_live(request: Request) -> str:
    return _("It can be changed while it is on the cluster; it is “%(state)s”.") % {
        "state": Request.State(request.state).label
    }


def _in_place(change: RequestChange, *, now: datetime) -> None:
    request = change.request
    columns: dict[str, Any] = {}
    if "purpose" in change.wanted:
        columns["purpose"] = change.wanted["purpose"]
    if "duration_hours" in change.wanted:
        duration = change.wanted["duration_hours"] * HOUR
        if duration > request.duration:
            within_limits(request, duration, now=now)
        end = (request.allocated_at + duration) if request.allocated_at else now + patience(duration)
        columns |= {"duration": duration, "expires_at": end, "ends_by": None}
    Request.objects.filter(pk=request.pk, state__in=LIVE).update(changed_at=now, **columns)
    request.refresh_from_db()


def _replace(change: RequestChange, *, now: datetime, ip: str | None) -> None:
    """The request that takes the place: asked again as of now, since the catalogue may have changed."""
    request = change.request
    found = understand({**values_of(request), **as_typed(change.wanted)}, user=change.person, now=now)
    refuse_spent(request.project, now=now)
    follower = request_of(found, key=change.key, now=now)
    # They were asked about the change.
    follower.approval, follower.own_approval = change.approval, change.own_approval
    follower.state, follower.due_at = Request.State.SUBMITTED, now
    follower.hold_wanted = request.hold_wanted and follower.shape == Request.Shape.CLAIM
    first = replaced_by(change)
    quotas_guard.admit(follower, now=now, replaced=first)
    keep_clear(request=follower, now=now, replaced=first)
    add_follower(follower, actor=change.person, now=now, ip=ip)
    RequestChange.objects.filter(pk=change.pk).update(successor=follower)
