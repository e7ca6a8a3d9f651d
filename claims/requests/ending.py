"""Pods of people at the end of a request whose flavor says that they end with it."""

from collections.abc import Sequence
from datetime import datetime

from claims.models import Request, RequestClaim, RequestPod
from claims.requests import submission
from claims.requests.manifests import REQUEST_LABEL, hold_name
from claims.requests.states import FINISHED
from claims.requests.transitions import record
from inventory.models import Pod
from portal.kube import errors
from portal.kube.resources import PODS


def users_of(request: Request) -> Sequence[Pod]:
    """Pods of people that use the request by what the mirror shows: that name its claim, own a claim of its
    template, or were recorded for its entitlement. Two queries at most."""
    pods = Pod.objects.filter(cluster=request.cluster, namespace=request.namespace)
    pods = pods.exclude(phase__in=FINISHED).exclude(uid=request.hold_pod_uid or "-").order_by("name")
    if request.shape == Request.Shape.CLAIM:
        # Of what has the hold's name, `remove_hold` removes only what has the request's label.
        hold, key = hold_name(request.object_name), str(request.key)
        using = (pod for pod in pods if request.object_name in pod.claim_names.values())
        return [pod for pod in using if pod.name != hold or pod.labels.get(REQUEST_LABEL) != key]
    known = (
        RequestPod.objects.filter(request=request).values("pod_uid")
        if request.shape == Request.Shape.ENTITLEMENT
        else RequestClaim.objects.filter(request=request).exclude(pod_uid="").values("pod_uid")
    )
    return list(pods.filter(uid__in=known))


def end_pods(request: Request, client: submission.Writer, *, now: datetime) -> bool:
    """Ask for the deletion of each of them, by its uid: what took its name meanwhile is not touched. Returns
    whether none is left. Raises ClusterError."""
    assert request.ends_pods, "the flavor has to say so"
    left = False
    for pod in users_of(request):
        try:
            found = client.get(PODS, pod.name, namespace=pod.namespace)
        except errors.NotFound:
            continue
        metadata = found.get("metadata") or {}
        if metadata.get("uid") != pod.uid:
            continue
        left = True
        if metadata.get("deletionTimestamp"):
            continue
        try:
            client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
        except (errors.NotFound, errors.Conflict):
            continue
        record(
            request, "request.pod-ended", actor=None, now=now, after={"pod": pod.name, "message": pod.name}
        )
    return not left
