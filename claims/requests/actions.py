"""What people do with requests: submit, hold, release, cancel, try again.

What the desk does by itself is in `claims.requests.desk_acts`; how states change in
`claims.requests.transitions`.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from claims.asks.judging import parse, parse_key
from claims.asks.reading import WHOLE
from claims.asks.values import UnableToSubmit
from claims.bookings.conflicts import keep_clear
from claims.models import Draft, Request
from claims.quotas import guard as quotas_guard
from claims.quotas.guard import OverQuota
from claims.requests import news
from claims.requests.making import patience, request_of, summary
from claims.requests.rehearsal import Connect, rehearse
from claims.requests.states import LIVE
from claims.requests.transitions import announce, end, record, transition
from inventory.clusters import client_for
from portal import access
from portal.accounts.models import User

State = Request.State
Reason = Request.Reason

# States in which a person can give a request up, and what becomes of it.
RELEASABLE = LIVE
CANCELLABLE = (
    State.WAITING_FOR_APPROVAL,
    State.SUBMITTED,
    State.APPROVED,
    State.CREATING,
    State.FAILED,
)


class UnableToChange(Exception):
    """The request is not in a state that admits this; `message` says so for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def submit(
    *,
    user: User,
    values: Mapping[str, object],
    now: datetime,
    key: object = None,
    source_ip: str | None = None,
    connect: Connect = client_for,
    within: Callable[[Request], None] | None = None,
) -> Request:
    """Accept an ask: read it, let the cluster judge it on trial, store it as submitted.

    `key` (a UUID) names the submission: the same key again gives the same request, however often it is sent.
    `within` is called in the transaction that stores it, for what has to be stored together with it.
    Raises UnableToSubmit with the messages of all fields. Talks to the cluster: not inside a transaction.
    """
    if access.only_looks():
        raise UnableToSubmit({WHOLE: [access.why_only_looks()]})
    chosen = parse_key(key)
    if chosen is not None and (earlier := _earlier(chosen, user)) is not None:
        return earlier
    ask = parse(values, user=user, now=now)
    request = request_of(ask, key=chosen or uuid.uuid4(), now=now)
    rehearse(request, connect=connect)
    try:
        with transaction.atomic():
            quotas_guard.lock(request.project)
            if (earlier := _earlier(request.key, user)) is not None:
                # Sent twice at the same moment: what the other one took is not asked for again.
                return earlier
            quotas_guard.admit(request, now=now)
            keep_clear(request=request, now=now)
            request.save(force_insert=True)
            record(request, "request.submit", actor=user, now=now, after=summary(request), ip=source_ip)
            Draft.objects.filter(key=request.key, owner=user).delete()
            if request.state == State.WAITING_FOR_APPROVAL:
                news.tell_approvers(request, now=now)
            if request.due_at is not None:
                announce(request)
            if within is not None:
                within(request)
    except IntegrityError:
        # Sent twice at the same moment: the other one won.
        if (earlier := _earlier(request.key, user)) is not None:
            return earlier
        # Keys that begin alike would name the same object on the cluster.
        raise UnableToSubmit({"key": [_("This key is taken; choose a new one.")]}) from None
    return request


def hold(*, request: Request, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Ask the desk to keep the device by a hold Pod. Harmless when it is wanted already.
    Raises UnableToChange for templates (every Pod has its own claim) and for requests that are not live."""
    _require_writing()
    if request.shape == Request.Shape.ENTITLEMENT:
        raise UnableToChange(_("What a Device Plugin gives cannot be held: Pods ask for it themselves."))
    if request.shape != Request.Shape.CLAIM:
        raise UnableToChange(_("A template cannot be held: every Pod gets a claim of its own."))
    with transaction.atomic():
        changed = Request.objects.filter(pk=request.pk, state__in=LIVE, hold_wanted=False).update(
            hold_wanted=True, due_at=now, attempts=0, changed_at=now, reason="", message="",
            asked_at=Coalesce("asked_at", Value(now)),
        )  # fmt: skip
        request.refresh_from_db()
        if changed:
            record(request, "request.hold", actor=user, now=now, after={"hold": True}, ip=source_ip)
            announce(request)
        elif request.state not in LIVE:
            raise _not_now(request)


def release(*, request: Request, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Give the devices back: the hold and the claim are removed; Pods of people end by themselves.
    Harmless when it ends or has ended already; raises UnableToChange when there is nothing to give back."""
    _require_writing()
    if request.state in (State.ENDING, State.ENDED):
        return
    end(request, LIVE, now=now, actor=user, reason=Reason.RELEASED, action="request.release", ip=source_ip)
    request.refresh_from_db()
    if request.state not in (State.ENDING, State.ENDED):
        raise _not_now(request)


def cancel(*, request: Request, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Give up a request that got nothing yet. Harmless when it is cancelled already; later UnableToChange."""
    _require_writing()
    if request.state == State.CANCELLED:
        return
    # While it is being created, something may be on the cluster: it is wound up like any other.
    end(
        request,
        (State.CREATING,),
        now=now,
        actor=user,
        reason=Reason.RELEASED,
        action="request.cancel",
        ip=source_ip,
    )
    request.refresh_from_db()
    if request.state in (State.ENDING, State.ENDED):
        return
    for state in (State.WAITING_FOR_APPROVAL, State.SUBMITTED, State.APPROVED, State.FAILED):
        if transition(
            request,
            to=State.CANCELLED,
            expected=state,
            now=now,
            actor=user,
            action="request.cancel",
            ip=source_ip,
            ended_at=now,
            due_at=None,
            hold_wanted=False,
        ):
            return
    if request.state != State.CANCELLED:
        raise _not_now(request)


def retry(*, request: Request, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Start a failed request again under the same name. Raises UnableToChange when it has not failed, or when
    it would be over a quota that refuses."""
    _require_writing()
    with transaction.atomic():
        try:
            quotas_guard.admit_again(request, now=now)
            keep_clear(request=request, now=now)
        except OverQuota as over:
            raise UnableToChange(over.message) from over
        except UnableToSubmit as error:
            raise UnableToChange(" ".join(text for said in error.errors.values() for text in said)) from error
        changed = transition(
            request,
            to=State.SUBMITTED,
            expected=State.FAILED,
            now=now,
            actor=user,
            action="request.retry",
            ip=source_ip,
            expires_at=now + patience(request.duration),
            ended_at=None,
            end_reason="",
            asked_at=None,
            allocated_at=None,
            object_uid="",
            object_created_at=None,
            object_seen=False,
            hold_pod_uid="",
            due_at=now,
            attempts=0,
        )
    if not changed and request.state not in (State.SUBMITTED, State.CREATING):
        raise _not_now(request)


# --- inside ---------------------------------------------------------------------------------------


def _earlier(key: uuid.UUID, user: User) -> Request | None:
    """The request of an earlier submission with the same key. Raises UnableToSubmit if it is another's."""
    earlier = Request.objects.filter(key=key).first()
    if earlier is not None and earlier.requester_id != user.pk:
        raise UnableToSubmit({"key": [_("This key is taken; choose a new one.")]})
    return earlier


def _not_now(request: Request) -> UnableToChange:
    return UnableToChange(
        _("That is not possible while the request is “%(state)s”.")
        % {"state": Request.State(request.state).label}
    )


def _require_writing() -> None:
    if access.only_looks():
        raise UnableToChange(access.why_only_looks())
