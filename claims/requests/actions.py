"""What people do with requests: submit, hold, release, cancel, try again.

Every transition is a compare-and-set on the state with an audit entry in the same transaction; whatever has
to happen on the cluster afterwards is marked as due and done by `claims.requests.pursuit`.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from claims.asks.judging import parse, parse_key
from claims.asks.reading import WHOLE
from claims.asks.values import Ask, UnableToSubmit
from claims.bookings.conflicts import keep_clear
from claims.models import Draft, Flavor, Request, RequestChange
from claims.quotas import guard as quotas_guard
from claims.quotas.guard import OverQuota
from claims.requests import manifests, news
from claims.requests.approval_rules import approval_for
from claims.requests.rehearsal import Connect, rehearse
from claims.requests.states import LIVE
from claims.signals import work_due
from inventory.clusters import client_for
from portal import access
from portal.accounts import audit
from portal.accounts.models import User

State = Request.State
Reason = Request.Reason

# Who asks for two hours is willing to queue for longer than that.
SHORTEST_WAIT = timedelta(days=7)

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
            record(request, "request.submit", actor=user, now=now, after=_summary(request), ip=source_ip)
            Draft.objects.filter(key=request.key, owner=user).delete()
            if request.state == State.WAITING_FOR_APPROVAL:
                news.tell_approvers(request, now=now)
            if request.due_at is not None:
                _announce(request)
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
            _announce(request)
        elif request.state not in LIVE:
            raise _not_now(request)


def release(*, request: Request, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Give the devices back: the hold and the claim are removed; Pods of people end by themselves.
    Harmless when it ends or has ended already; raises UnableToChange when there is nothing to give back."""
    _require_writing()
    if request.state in (State.ENDING, State.ENDED):
        return
    _end(request, LIVE, now=now, actor=user, reason=Reason.RELEASED, action="request.release", ip=source_ip)
    request.refresh_from_db()
    if request.state not in (State.ENDING, State.ENDED):
        raise _not_now(request)


def cancel(*, request: Request, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Give up a request that got nothing yet. Harmless when it is cancelled already; later UnableToChange."""
    _require_writing()
    if request.state == State.CANCELLED:
        return
    # While it is being created, something may be on the cluster: it is wound up like any other.
    _end(
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


def expire(*, request: Request, now: datetime) -> bool:
    """End a request whose time is over, by the desk itself: the hold and the unused claim go, Pods stay."""
    return _end(request, LIVE, now=now, actor=None, reason=Reason.EXPIRED, action="request.expire", ip=None)


def give_back_idle(*, request: Request, now: datetime) -> bool:
    """End a request whose devices nobody has used for as long as its flavor bears, by the desk itself.
    Returns whether it did: not when somebody has begun to use it meanwhile."""
    return _end(
        request,
        (State.ALLOCATED,),
        now=now,
        actor=None,
        reason=Reason.IDLE,
        action="request.idle-release",
        ip=None,
    )


def lapse(*, request: Request, now: datetime) -> bool:
    """Give up, by the desk itself, on a request about which nobody decided in time. Returns whether it
    did."""
    if request.expires_at is None or request.expires_at > now:
        return False
    return transition(
        request,
        to=State.EXPIRED,
        expected=State.WAITING_FOR_APPROVAL,
        now=now,
        action="request.lapse",
        reason=Reason.NOT_DECIDED,
        ended_at=now,
    )


def add_follower(request: Request, *, actor: User, now: datetime, ip: str | None = None) -> None:
    """Store a request that takes the place of another; it was judged and agreed to as a change. Inside the
    caller's transaction."""
    request.save(force_insert=True)
    record(request, "request.submit", actor=actor, now=now, after=_summary(request), ip=ip)
    _announce(request)


def end_replaced(*, request: Request, now: datetime) -> bool:
    """End a request whose place another has taken, by the desk itself. Returns whether it did."""
    return _end(
        request, LIVE, now=now, actor=None, reason=Reason.REPLACED, action="request.replaced", ip=None
    )


def step_aside(*, request: Request, now: datetime) -> bool:
    """Give up the hold, by the desk itself, since Pods of people have the device: as its flavor says. The
    device is free when they end."""
    with transaction.atomic():
        changed = Request.objects.filter(pk=request.pk, state__in=LIVE, hold_wanted=True).update(
            hold_wanted=False, due_at=now, attempts=0, changed_at=now
        )
        if changed:
            request.refresh_from_db()
            record(request, "request.hold-aside", actor=None, now=now, after={"hold": False})
            _announce(request)
    return bool(changed)


def transition(
    request: Request,
    *,
    to: str,
    expected: str,
    now: datetime,
    action: str,
    actor: User | None = None,
    reason: str = "",
    message: str = "",
    ip: str | None = None,
    **columns: Any,
) -> bool:
    """Compare-and-set of the state, with its audit entry; other columns go along. Returns whether it was
    us who changed it; `request` is refreshed either way."""
    with transaction.atomic():
        changed = (
            Request.objects.filter(pk=request.pk, state=expected).update(
                state=to, reason=reason, message=message, changed_at=now, **columns
            )
            == 1
        )
        request.refresh_from_db()
        if changed:
            record(
                request,
                action,
                actor=actor,
                now=now,
                before={"state": str(expected)},
                after={"state": str(to), **({"reason": str(reason)} if reason else {})},
                ip=ip,
            )
            news.tell_of_transition(request, before=expected, actor=actor, now=now)
            if to not in LIVE and to != State.WAITING_FOR_APPROVAL:
                # What was still to be said about it has become pointless.
                RequestChange.objects.filter(request=request).open().update(
                    state=RequestChange.State.WITHDRAWN, changed_at=now, ended_at=now
                )
            if request.due_at is not None:
                _announce(request)
    return changed


def patience(duration: timedelta) -> timedelta:
    """How long a request may wait for its first device: a wait holds nothing and costs nothing."""
    return max(duration, SHORTEST_WAIT)


def request_of(ask: Ask, *, key: uuid.UUID, now: datetime) -> Request:
    """The request that an ask comes to, not stored yet."""
    by_plugin = ask.backend == Request.Backend.PLUGIN
    approval, own = approval_for(ask)
    waits = approval != Flavor.Approval.NONE
    placed = ask.placement
    return Request(
        key=key,
        project=ask.project,
        requester=ask.user,
        cluster=ask.cluster,
        namespace=ask.namespace,
        flavor=ask.flavor,
        backend=ask.backend,
        pool=placed.pool if placed else "",
        device_class=ask.device_class,
        extended_resource=placed.extended_resource if placed and by_plugin else "",
        node_selector=placed.node_selector if placed else {},
        tolerations=placed.tolerations if placed else [],
        count=ask.count,
        min_memory=ask.min_memory,
        shape=ask.shape,
        spec={} if by_plugin else ask.spec,
        options=ask.options.as_dict(),
        duration=ask.duration,
        purpose=ask.purpose,
        approval=approval,
        own_approval=own,
        ends_pods=ask.flavor is not None and ask.flavor.ends_pods,
        hold_steps_aside=ask.flavor is not None and ask.flavor.hold_steps_aside,
        state=State.WAITING_FOR_APPROVAL if waits else State.SUBMITTED,
        created_at=now,
        changed_at=now,
        expires_at=now + patience(ask.duration),
        due_at=None if waits else now,
        object_name=manifests.object_name(project=ask.project.slug, key=str(key)),
    )


# --- inside ---------------------------------------------------------------------------------------


def _earlier(key: uuid.UUID, user: User) -> Request | None:
    """The request of an earlier submission with the same key. Raises UnableToSubmit if it is another's."""
    earlier = Request.objects.filter(key=key).first()
    if earlier is not None and earlier.requester_id != user.pk:
        raise UnableToSubmit({"key": [_("This key is taken; choose a new one.")]})
    return earlier


def _end(
    request: Request,
    expected: tuple[str, ...],
    *,
    now: datetime,
    actor: User | None,
    reason: str,
    action: str,
    ip: str | None,
) -> bool:
    return any(
        transition(
            request,
            to=State.ENDING,
            expected=state,
            now=now,
            actor=actor,
            reason=reason,
            end_reason=reason,
            action=action,
            ip=ip,
            hold_wanted=False,
            due_at=now,
            attempts=0,
        )
        for state in expected
    )


def _not_now(request: Request) -> UnableToChange:
    return UnableToChange(
        _("That is not possible while the request is “%(state)s”.")
        % {"state": Request.State(request.state).label}
    )


def _require_writing() -> None:
    if access.only_looks():
        raise UnableToChange(access.why_only_looks())


def _announce(request: Request) -> None:
    transaction.on_commit(lambda: work_due.send(Request, request_id=request.pk))


def _summary(request: Request) -> dict[str, Any]:
    return {
        "state": request.state,
        "cluster": request.cluster.name,
        "namespace": request.namespace,
        **({"flavor": request.flavor.slug} if request.flavor else {}),
        **({"pool": request.pool} if request.pool else {}),
        **(
            {"extended_resource": request.extended_resource}
            if request.extended_resource
            else {"device_class": request.device_class}
        ),
        "count": request.count,
        "min_memory": request.min_memory,
        "shape": request.shape,
        "duration_hours": request.duration / timedelta(hours=1),
        "purpose": request.purpose,
        **({"options": request.options} if request.options else {}),
    }


def record(
    request: Request,
    action: str,
    *,
    actor: User | None,
    now: datetime,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    ip: str | None = None,
) -> None:
    """One audit entry about the request; its page shows them as the timeline."""
    audit.record(
        action=action,
        actor=actor,
        target=request,
        target_id=str(request.key),
        project=request.project,
        before=before,
        after=after,
        source_ip=ip,
        now=now,
    )
