"""The desk's work on the cluster for one request, whatever is due in its state: create, hold, wind up.

`pursue` looks at the request as it is now and does the next step. It may be called at any time, any number of
times and by two workers at once: names are deterministic, transitions are compare-and-set, and what could not
be done is marked as due again with back-off. So no crash between two steps leaves anything stuck.
"""

from contextlib import suppress
from datetime import datetime

from claims.asks.judging import namespaces_of
from claims.models import Request, RequestClaim
from claims.quotas.writing import entitle
from claims.requests import submission
from claims.requests.ending import end_pods
from claims.requests.holding import HoldTerms, hold, leave, remove_hold
from claims.requests.rehearsal import Connect, manifest_of
from claims.requests.retrying import look_again, try_later
from claims.requests.states import LIVE
from claims.requests.transitions import transition
from inventory.clusters import client_for
from portal.kube import errors

State = Request.State
Reason = Request.Reason


def pursue(
    *,
    request_id: int,
    now: datetime,
    hold_image: str,
    hold_terms: HoldTerms | None = None,
    connect: Connect = client_for,
) -> None:
    """Do what is due for the request; a hold Pod runs `hold_image` on `hold_terms`, where its flavor says
    nothing else. Talks to the cluster: not inside a transaction."""
    related = ("cluster", "project", "requester", "flavor")
    request = Request.objects.select_related(*related).filter(pk=request_id).first()
    if request is None or request.due_at is None:
        return
    if request.state in (State.SUBMITTED, State.APPROVED, State.CREATING):
        _create(request, now=now, connect=connect)
    elif request.state == State.ENDING:
        _wind_up(request, now=now, connect=connect)
    elif request.state in LIVE and request.hold_wanted:
        hold(request, image=hold_image, terms=hold_terms or HoldTerms(), now=now, connect=connect)
    elif request.state in LIVE and request.hold_pod_uid:
        leave(request, now=now, connect=connect)
    else:
        Request.objects.filter(pk=request.pk, state=request.state, hold_wanted=False).update(due_at=None)


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
        _give_up(request, now=now, connect=connect)
        return
    if request.shape == Request.Shape.ENTITLEMENT:
        # No object of its own: Pods ask for the units themselves, as the namespace's quota admits.
        entitle(request=request, now=now, connect=connect)
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


def _give_up(request: Request, *, now: datetime, connect: Connect) -> None:
    """The namespace is another's: what an attempt that nobody heard of has made there goes again."""
    try:
        with connect(request.cluster) as client:
            gone = _remove_object(request, client)
    except errors.ClusterError as error:
        try_later(request, error, now=now)
        return
    if gone:
        _fail(request, Reason.NAMESPACE_LOST, "", now=now)
    else:
        look_again(request, now=now)


def _create_object(request: Request, *, now: datetime, connect: Connect) -> None:
    manifest = manifest_of(request)
    try:
        with connect(request.cluster) as client:
            created = submission.create(client, manifest, uid=request.object_uid)
    except errors.ClusterError as error:
        if submission.is_retryable(error):
            try_later(request, error, now=now)
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


# --- wind up --------------------------------------------------------------------------------------


def _wind_up(request: Request, *, now: datetime, connect: Connect) -> None:
    """Remove what the desk made. Pods of people are only touched where the flavor said so: else a claim in
    use stays until they end."""
    if request.shape == Request.Shape.ENTITLEMENT and not request.ends_pods:
        # The mirror tells when the last of its Pods has ended.
        Request.objects.filter(pk=request.pk).update(due_at=None, attempts=0)
        return
    try:
        with connect(request.cluster) as client:
            gone = _remove_object(request, client) & remove_hold(request, client)
            if request.ends_pods:
                gone &= end_pods(request, client, now=now)
    except errors.ClusterError as error:
        try_later(request, error, now=now)
        return
    if not gone:
        # Accepted; finalizers and nodes take their time. The mirror will tell, we look again all the same.
        look_again(request, now=now)
        return
    if request.shape == Request.Shape.ENTITLEMENT:
        # None is left that the mirror shows; it tells when the last one has ended.
        Request.objects.filter(pk=request.pk).update(due_at=None, attempts=0)
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


def _remove_object(request: Request, client: submission.Writer) -> bool:
    if request.shape == Request.Shape.ENTITLEMENT:
        return True
    return submission.remove(
        client,
        submission.resource_of(manifest_of(request)),
        name=request.object_name,
        namespace=request.namespace,
        request_key=str(request.key),
        uid=request.object_uid,
    )
