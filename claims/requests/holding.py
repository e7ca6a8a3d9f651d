"""The hold: the desk's own Pod that keeps a claim allocated. Made when it is wanted, made again when it is
lost, removed when nobody wants it any more."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from claims.ledger import storage
from claims.models import Consumer, HoldPod, Request
from claims.requests import manifests, submission
from claims.requests.rehearsal import Connect, owner_of
from claims.requests.retrying import AGAIN, look_again, try_later
from claims.requests.states import FINISHED, LIVE
from claims.requests.transitions import record
from portal.kube import errors
from portal.kube.resources import PODS

State = Request.State
Reason = Request.Reason


@dataclass(frozen=True, kw_only=True)
class HoldTerms:
    """What hold Pods have besides their image; "" = nothing. Tolerations as in the API."""

    pull_secret: str = ""
    priority_class: str = ""
    tolerations: tuple[Mapping[str, str], ...] = ()


def hold_pod_of(request: Request, *, image: str, terms: HoldTerms) -> manifests.Manifest:
    """The hold Pod as it is sent: what the flavor says of holds goes before what the desk says."""
    flavor = request.flavor
    own = [dict(entry) for entry in (flavor.hold_tolerations if flavor else ())]
    tolerations = [*request.tolerations, *own, *(dict(entry) for entry in terms.tolerations)]
    return manifests.hold_pod(
        claim_name=request.object_name,
        namespace=request.namespace,
        owner=owner_of(request),
        image=(flavor.hold_image if flavor else "") or image,
        node_selector=request.node_selector,
        tolerations=[entry for at, entry in enumerate(tolerations) if entry not in tolerations[:at]],
        pull_secret=(flavor.hold_pull_secret if flavor else "") or terms.pull_secret,
        priority_class=(flavor.hold_priority_class if flavor else "") or terms.priority_class,
    )


def hold(request: Request, *, image: str, terms: HoldTerms, now: datetime, connect: Connect) -> None:
    """Make the hold Pod, or find that it is there."""
    pod = hold_pod_of(request, image=image, terms=terms)
    _remember_earlier(request)
    try:
        with connect(request.cluster) as client:
            created, new = submission.create_or_find(client, pod, uid=request.hold_pod_uid)
            # Found, it may be what an attempt made that nobody heard of, or anybody's who copied the label.
            # What runs nothing but the hold's container is no use of the device, whoever made it.
            _remember(request, created, made=new or submission.runs_the_same(created, pod))
            if (created.get("status") or {}).get("phase") in FINISHED:
                # Evicted, say: a finished Pod holds nothing, and its name is in the way of the next one.
                remove_hold(request, client)
                _note_end(request, created, now=now)
                Request.objects.filter(pk=request.pk, hold_wanted=True).update(due_at=now + AGAIN)
                return
    except submission.StillGoing:
        Request.objects.filter(pk=request.pk, hold_wanted=True).update(due_at=now + AGAIN)
    except errors.ClusterError as error:
        if submission.is_retryable(error):
            try_later(request, error, now=now)
            return
        changed = Request.objects.filter(pk=request.pk, hold_wanted=True, state__in=LIVE).update(
            hold_wanted=False, due_at=None, reason=Reason.REFUSED, message=error.message, changed_at=now
        )
        if changed:
            record(request, "request.hold-refused", actor=None, now=now, after={"message": error.message})
    else:
        _note(request, created, now=now, connect=connect)


def leave(request: Request, *, now: datetime, connect: Connect) -> None:
    """Remove a hold that nobody wants any more, of a request that goes on: Pods of people have the device."""
    _remember_earlier(request)
    try:
        with connect(request.cluster) as client:
            gone = remove_hold(request, client)
    except errors.ClusterError as error:
        try_later(request, error, now=now)
        return
    if not gone:
        look_again(request, now=now)
        return
    Request.objects.filter(pk=request.pk, hold_wanted=False, state__in=LIVE).update(
        hold_pod_uid="", due_at=None, attempts=0
    )


def remove_hold(request: Request, client: submission.Writer) -> bool:
    """Ask for the deletion of the hold Pod. Returns whether it is gone already."""
    if request.shape != Request.Shape.CLAIM:
        return True
    return submission.remove(
        client,
        PODS,
        name=manifests.hold_name(request.object_name),
        namespace=request.namespace,
        request_key=str(request.key),
        uid=request.hold_pod_uid,
    )


def _remember(request: Request, pod: Mapping[str, Any], *, made: bool) -> None:
    """Keep the uid for good, before the request has it. Once known to be the desk's it stays so."""
    cluster, uid = request.cluster, str(pod["metadata"]["uid"])
    row, new = HoldPod.objects.get_or_create(
        cluster=cluster, pod_uid=uid, defaults={"request": request, "made": made}
    )
    if not made or (row.made and not new):
        return
    if not row.made and not HoldPod.objects.filter(pk=row.pk, made=False).update(made=True):
        return
    # The ledger may have heard of the Pod before us: then its stay was taken for somebody's use.
    joined = Consumer.objects.filter(cluster=cluster, uid=uid).values_list("claim_uid", flat=True)
    if claims := set(joined):
        storage.touch(cluster=cluster, uids=claims)


def _remember_earlier(request: Request) -> None:
    """A hold that a process of the release before made: it kept no more than the request's own column, which
    is about to change."""
    if uid := request.hold_pod_uid:
        HoldPod.objects.get_or_create(
            cluster=request.cluster, pod_uid=uid, defaults={"request": request, "made": True}
        )


def _note(request: Request, pod: Mapping[str, Any], *, now: datetime, connect: Connect) -> None:
    uid = str(pod["metadata"]["uid"])
    columns = {"hold_pod_uid": uid}
    if request.hold_pod_uid != uid:
        columns["hold_pod_image"] = _image_of(pod)
    came = Request.objects.filter(pk=request.pk, hold_wanted=True, state__in=LIVE).update(
        due_at=None, attempts=0, **columns
    )
    Request.objects.filter(pk=request.pk, state__in=LIVE, reason=Reason.RETRYING).update(
        reason="", message=""
    )
    if not came:
        # Released (or refused to another worker) while the Pod was being created: nobody wants it any more.
        unwanted = Request.objects.filter(pk=request.pk, hold_wanted=False)
        unwanted.filter(state__in=(*LIVE, State.ENDING)).update(hold_pod_uid=uid, due_at=now)
        with suppress(errors.ClusterError), connect(request.cluster) as client:
            remove_hold(request, client)
    elif request.hold_pod_uid != uid:
        action = "request.hold-again" if request.hold_pod_uid else "request.held"
        record(request, action, actor=None, now=now, after={"pod": manifests.hold_name(request.object_name)})


def _image_of(pod: Mapping[str, Any]) -> str:
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("image", ""))[:512]


def _note_end(request: Request, pod: Mapping[str, Any], *, now: datetime) -> None:
    """What the node or the control plane says of a hold Pod that ended: "Evicted: The node was low on …"."""
    status = pod.get("status") or {}
    said = [str(status[name]) for name in ("reason", "message") if status.get(name)]
    record(
        request,
        "request.hold-lost",
        actor=None,
        now=now,
        after={"pod": str(pod["metadata"]["name"]), "message": ": ".join(said) or str(status.get("phase"))},
    )
