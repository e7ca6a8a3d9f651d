"""The desk's work on the cluster for one request, whatever is due in its state: create, hold, wind up.

`pursue` looks at the request as it is now and does the next step. It may be called at any time, any number of
times and by two workers at once: names are deterministic, transitions are compare-and-set, and what could not
be done is marked as due again with back-off. So no crash between two steps leaves anything stuck.
"""

from contextlib import suppress
from datetime import datetime, timedelta

from claims import manifests, submission
from claims.asks import namespaces_of
from claims.models import Request, RequestClaim
from claims.rehearsal import Connect, manifest_of, owner_of
from claims.requests import record, transition
from claims.states import FINISHED, LIVE
from inventory.clusters import client_for
from portal.kube import errors
from portal.kube.resources import PODS

State = Request.State
Reason = Request.Reason

FIRST_RETRY = timedelta(seconds=5)
LAST_RETRY = timedelta(minutes=5)
# How soon to look again after asking for a deletion that has to finish first.
AGAIN = timedelta(seconds=2)


def pursue(*, request_id: int, now: datetime, hold_image: str, connect: Connect = client_for) -> None:
    """Do what is due for the request; `hold_image` is what a hold Pod runs. Talks to the cluster: not
    inside a transaction."""
    request = Request.objects.select_related("cluster", "project", "requester").filter(pk=request_id).first()
    if request is None or request.due_at is None:
        return
    if request.state in (State.SUBMITTED, State.APPROVED, State.CREATING):
        _create(request, now=now, connect=connect)
    elif request.state == State.ENDING:
        _wind_up(request, now=now, connect=connect)
    elif request.state in LIVE and request.hold_wanted:
        _hold(request, image=hold_image, now=now, connect=connect)
    else:
        Request.objects.filter(pk=request.pk, state=request.state, hold_wanted=False).update(due_at=None)


def backoff(attempts: int) -> timedelta:
    """How long to wait after the given number of failures: 5 s, 10 s, 20 s, … at most five minutes."""
    factor: int = 2 ** min(attempts, 10)
    return min(FIRST_RETRY * factor, LAST_RETRY)


# --- create ---------------------------------------------------------------------------------------


def _create(request: Request, *, now: datetime, connect: Connect) -> None:
    if request.state in (State.SUBMITTED, State.APPROVED) and not transition(
        request,
        to=State.CREATING,
        expected=request.state,
        now=now,
        action="request.create",
        due_at=now,
    ):
        return
    if request.state != State.CREATING:
        return
    if request.namespace not in namespaces_of(request.project, request.cluster, now=now):
        # It was when it was submitted; what is created there now would be another's.
        _fail(request, Reason.NAMESPACE_LOST, "", now=now)
        return
    if request.shape == Request.Shape.ENTITLEMENT:
        # Nothing to create: Pods ask for the units themselves.
        transition(
            request,
            to=State.WAITING_FOR_POD,
            expected=State.CREATING,
            now=now,
            action="request.entitled",
            due_at=None,
            attempts=0,
        )
    else:
        _create_object(request, now=now, connect=connect)


def _create_object(request: Request, *, now: datetime, connect: Connect) -> None:
    manifest = manifest_of(request)
    try:
        with connect(request.cluster) as client:
            created = submission.create(client, manifest)
    except errors.ClusterError as error:
        if submission.is_retryable(error):
            _try_later(request, error, now=now)
            return
        reason = Reason.NAME_TAKEN if isinstance(error, submission.NameTaken) else Reason.REFUSED
        _fail(request, reason, error.message, now=now)
        return
    uid = str(created["metadata"]["uid"])
    if request.shape == Request.Shape.CLAIM:
        RequestClaim.objects.get_or_create(
            cluster=request.cluster,
            claim_uid=uid,
            defaults={"claim_name": request.object_name, "request": request, "seen_at": now},
        )
    came = transition(
        request,
        to=State.WAITING_FOR_POD,
        expected=State.CREATING,
        now=now,
        action="request.created",
        object_uid=uid,
        object_created_at=now,
        due_at=None,
        attempts=0,
    )
    if not came:
        request.refresh_from_db()
        if request.object_uid == uid and request.state in LIVE:
            # Another worker pursued it at the same time and came first: the object is the same one.
            return
        # Given up while the object was being created: what we just made has to go again.
        with suppress(errors.ClusterError), connect(request.cluster) as client:
            _remove_object(request, client)
        Request.objects.filter(pk=request.pk, state=State.ENDING).update(due_at=now)


def _fail(request: Request, reason: str, message: str, *, now: datetime) -> None:
    transition(
        request,
        to=State.FAILED,
        expected=State.CREATING,
        now=now,
        action="request.fail",
        reason=reason,
        message=message,
        ended_at=now,
        due_at=None,
    )


# --- hold -----------------------------------------------------------------------------------------


def _hold(request: Request, *, image: str, now: datetime, connect: Connect) -> None:
    pod = manifests.hold_pod(
        claim_name=request.object_name,
        namespace=request.namespace,
        owner=owner_of(request),
        image=image,
        node_selector=request.node_selector,
        tolerations=request.tolerations,
    )
    try:
        with connect(request.cluster) as client:
            created = submission.create(client, pod)
            if (created.get("status") or {}).get("phase") in FINISHED:
                # Evicted, say: a finished Pod holds nothing, and its name is in the way of the next one.
                _remove_hold(request, client)
                Request.objects.filter(pk=request.pk, hold_wanted=True).update(due_at=now + AGAIN)
                return
    except submission.StillGoing:
        Request.objects.filter(pk=request.pk, hold_wanted=True).update(due_at=now + AGAIN)
    except errors.ClusterError as error:
        if submission.is_retryable(error):
            _try_later(request, error, now=now)
            return
        changed = Request.objects.filter(pk=request.pk, hold_wanted=True, state__in=LIVE).update(
            hold_wanted=False, due_at=None, reason=Reason.REFUSED, message=error.message, changed_at=now
        )
        if changed:
            record(request, "request.hold-refused", actor=None, now=now, after={"message": error.message})
    else:
        _note_hold(request, str(created["metadata"]["uid"]), now=now, connect=connect)


def _note_hold(request: Request, uid: str, *, now: datetime, connect: Connect) -> None:
    came = Request.objects.filter(pk=request.pk, hold_wanted=True, state__in=LIVE).update(
        hold_pod_uid=uid, due_at=None, attempts=0
    )
    Request.objects.filter(pk=request.pk, state__in=LIVE, reason=Reason.RETRYING).update(
        reason="", message=""
    )
    if not came:
        # Released (or refused to another worker) while the Pod was being created: nobody wants it any more.
        with suppress(errors.ClusterError), connect(request.cluster) as client:
            _remove_hold(request, client)
        Request.objects.filter(pk=request.pk, state=State.ENDING).update(due_at=now)
    elif request.hold_pod_uid != uid:
        action = "request.hold-again" if request.hold_pod_uid else "request.held"
        record(request, action, actor=None, now=now, after={"pod": manifests.hold_name(request.object_name)})


# --- wind up --------------------------------------------------------------------------------------


def _wind_up(request: Request, *, now: datetime, connect: Connect) -> None:
    """Remove what the desk made. Pods of people are never touched: a claim in use stays until they end."""
    if request.shape == Request.Shape.ENTITLEMENT:
        # The mirror tells when the last of its Pods has ended.
        Request.objects.filter(pk=request.pk).update(due_at=None, attempts=0)
        return
    try:
        with connect(request.cluster) as client:
            gone = _remove_hold(request, client) & _remove_object(request, client)
    except errors.ClusterError as error:
        _try_later(request, error, now=now)
        return
    if not gone:
        # Accepted; finalizers and nodes take their time. The mirror will tell, we look again all the same.
        _due_again(request, at=now + min(AGAIN + backoff(request.attempts) - FIRST_RETRY, LAST_RETRY))
        return
    # Its absence on the cluster is known now: the mirror's word for claims of a template is still awaited.
    Request.objects.filter(pk=request.pk).update(due_at=None, attempts=0, object_seen=True)
    if request.shape == Request.Shape.CLAIM or not request.object_uid:
        # Deleted by others before it got anything: that can be tried again.
        failed = request.end_reason == Reason.DELETED_ELSEWHERE and request.allocated_at is None
        transition(
            request,
            to=State.FAILED if failed else State.ENDED,
            expected=State.ENDING,
            now=now,
            action="request.fail" if failed else "request.end",
            reason=request.end_reason,
            ended_at=now,
        )


def _remove_hold(request: Request, client: submission.Writer) -> bool:
    if request.shape != Request.Shape.CLAIM:
        return True
    return submission.remove(
        client,
        PODS,
        name=manifests.hold_name(request.object_name),
        namespace=request.namespace,
        request_key=str(request.key),
    )


def _remove_object(request: Request, client: submission.Writer) -> bool:
    return submission.remove(
        client,
        submission.resource_of(manifest_of(request)),
        name=request.object_name,
        namespace=request.namespace,
        request_key=str(request.key),
    )


# --- later ----------------------------------------------------------------------------------------


def _try_later(request: Request, error: errors.ClusterError, *, now: datetime) -> None:
    wait = backoff(request.attempts)
    if error.retry_after:
        wait = max(wait, timedelta(seconds=error.retry_after))
    Request.objects.filter(pk=request.pk, state=request.state).update(
        reason=Reason.RETRYING, message=error.message
    )
    _due_again(request, at=now + wait)


def _due_again(request: Request, *, at: datetime) -> None:
    Request.objects.filter(pk=request.pk, state=request.state).update(
        due_at=at, attempts=request.attempts + 1
    )
