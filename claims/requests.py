"""What people do with requests: submit, hold, release, cancel, try again.

Every transition is a compare-and-set on the state with an audit entry in the same transaction; whatever has
to happen on the cluster afterwards is marked as due and done by `claims.pursuit`.
"""

import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims import manifests, submission
from claims.asks import Ask, UnableToSubmit, parse, parse_key
from claims.models import Request
from claims.reading import WHOLE
from claims.signals import work_due
from claims.states import LIVE
from inventory.clusters import client_for
from inventory.models import Cluster
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube import errors

State = Request.State
Reason = Request.Reason

# Who asks for two hours is willing to queue for longer than that.
SHORTEST_WAIT = timedelta(days=7)

# States in which a person can give a request up, and what becomes of it.
RELEASABLE = LIVE
CANCELLABLE = (State.SUBMITTED, State.CREATING, State.FAILED)

# Opens a connection that is closed after use.
Connect = Callable[[Cluster], AbstractContextManager[submission.Writer]]


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
) -> Request:
    """Accept an ask: read it, let the cluster judge it on trial, store it as submitted.

    `key` (a UUID) names the submission: the same key again gives the same request, however often it is sent.
    Raises UnableToSubmit with the messages of all fields. Talks to the cluster: not inside a transaction.
    """
    if access.only_looks():
        raise UnableToSubmit({WHOLE: [access.why_only_looks()]})
    chosen = parse_key(key)
    if chosen is not None and (earlier := _earlier(chosen, user)) is not None:
        return earlier
    ask = parse(values, user=user, now=now)
    request = _draft(ask, key=chosen or uuid.uuid4(), now=now)
    _rehearse(request, connect=connect)
    try:
        with transaction.atomic():
            request.save(force_insert=True)
            record(request, "request.submit", actor=user, now=now, after=_summary(request), ip=source_ip)
            _announce(request)
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
    if request.shape != Request.Shape.CLAIM:
        raise UnableToChange(_("A template cannot be held: every Pod gets a claim of its own."))
    with transaction.atomic():
        changed = Request.objects.filter(pk=request.pk, state__in=LIVE, hold_wanted=False).update(
            hold_wanted=True, due_at=now, attempts=0, changed_at=now, reason="", message=""
        )
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
    for state in (State.SUBMITTED, State.FAILED):
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
    """Start a failed request again under the same name. Raises UnableToChange when it has not failed."""
    _require_writing()
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
            if request.due_at is not None:
                _announce(request)
    return changed


def patience(duration: timedelta) -> timedelta:
    """How long a request may wait for its first device: a wait holds nothing and costs nothing."""
    return max(duration, SHORTEST_WAIT)


def owner_of(request: Request) -> manifests.Owner:
    """What the request's objects say about where they come from."""
    return manifests.Owner(
        key=str(request.key),
        project=request.project.slug,
        requester=request.requester.get_username(),
        cost_centre=request.project.cost_centre,
        purpose=request.purpose,
    )


def manifest_of(request: Request) -> manifests.Manifest:
    """The claim or template as it is sent."""
    build = manifests.claim if request.shape == Request.Shape.CLAIM else manifests.claim_template
    manifest = build(
        name=request.object_name,
        namespace=request.namespace,
        owner=owner_of(request),
        spec=request.spec,
    )
    return manifests.for_version(manifest, api_version(request.cluster))


def api_version(cluster: Cluster) -> str:
    """The version of claims that the cluster serves, as its follower found out."""
    return str(cluster.served.get("resourceclaims") or manifests.API_VERSION)


# --- inside ---------------------------------------------------------------------------------------


def _draft(ask: Ask, *, key: uuid.UUID, now: datetime) -> Request:
    wish = manifests.Wish(
        device_class=ask.device_class,
        count=ask.count,
        min_memory=ask.min_memory,
        memory_domains=ask.memory_domains,
    )
    return Request(
        key=key,
        project=ask.project,
        requester=ask.user,
        cluster=ask.cluster,
        namespace=ask.namespace,
        device_class=ask.device_class,
        count=ask.count,
        min_memory=ask.min_memory,
        shape=ask.shape,
        spec=manifests.claim_spec(wish),
        duration=ask.duration,
        purpose=ask.purpose,
        created_at=now,
        changed_at=now,
        expires_at=now + patience(ask.duration),
        due_at=now,
        object_name=manifests.object_name(project=ask.project.slug, key=str(key)),
    )


def _rehearse(request: Request, *, connect: Connect) -> None:
    try:
        with connect(request.cluster) as client:
            submission.rehearse(client, manifest_of(request), device_class=request.device_class)
    except errors.ClusterError as error:
        raise UnableToSubmit(_by_field(error)) from error


def _by_field(error: errors.ClusterError) -> dict[str, list[str]]:
    """Which field of the form the cluster's refusal is about."""
    said = error.message
    match error:
        case errors.Invalid():
            return _by_cause(error)
        case submission.ClassMissing():
            name = "device_class"
        case submission.FieldsDropped() | submission.NameTaken():
            name = WHOLE
        case errors.Forbidden() if "exceeded quota" in said:
            name = "count"
        case errors.Forbidden() | errors.NotFound():
            name = "namespace"
        case _:
            name = "cluster"
            said = f"{said} {_('Nothing was submitted; try again.')}"
    return {name: [said]}


def _by_cause(error: errors.Invalid) -> dict[str, list[str]]:
    fields = (
        ("deviceClassName", "device_class"),
        ("count", "count"),
        ("selectors", "min_memory"),
        ("namespace", "namespace"),
    )
    found: dict[str, list[str]] = {}
    for cause in error.causes:
        name = next((name for part, name in fields if part in cause.field), WHOLE)
        found.setdefault(name, []).append(f"{cause.field}: {cause.message}")
    return found or {WHOLE: [error.message]}


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
        "device_class": request.device_class,
        "count": request.count,
        "min_memory": request.min_memory,
        "shape": request.shape,
        "duration_hours": request.duration / timedelta(hours=1),
        "purpose": request.purpose,
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
