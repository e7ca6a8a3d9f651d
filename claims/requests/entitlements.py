"""Entitlements: requests that a Device Plugin serves. There is no object on the cluster; Pods ask for units
themselves and carry the request's key, and the desk remembers them by their uid."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from claims.ledger import storage
from claims.models import Request, RequestPod
from claims.requests import manifests
from claims.requests.belonging import Namespaces
from inventory.models import Cluster, Pod


def pods_of_entitlements(
    *, cluster: Cluster, requests: Sequence[Request], pods: Sequence[Pod]
) -> Mapping[str, list[Pod]]:
    """Pods by the key of the entitlement that they use: those that were recorded for it, and those that carry
    its key, were made in its namespace while that was its project's, and ask for its resource. Three queries
    at most."""
    entitled = {str(r.key): r for r in requests if r.shape == Request.Shape.ENTITLEMENT}
    if not entitled:
        return {}
    candidates = [pod for pod in pods if pod.extended_resources]
    uids = [pod.uid for pod in candidates]
    labels = dict(Pod.objects.filter(cluster=cluster, uid__in=uids).values_list("uid", "labels"))
    recorded = dict(
        RequestPod.objects.filter(cluster=cluster, pod_uid__in=uids).values_list("pod_uid", "request__key")
    )
    namespaces = Namespaces(cluster=cluster, names=(request.namespace for request in entitled.values()))
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in candidates:
        # Recorded for one request, a Pod belongs to no other, whatever its label says later.
        key = str(recorded.get(pod.uid) or labels.get(pod.uid, {}).get(manifests.REQUEST_LABEL, ""))
        request = entitled.get(key)
        if request is None or pod.namespace != request.namespace:
            continue
        asks = int(pod.extended_resources.get(request.extended_resource, 0) or 0) > 0
        if pod.uid in recorded or (asks and namespaces.was_of(request, pod.created_at)):
            found[key].append(pod)
    return found


def remember(
    *, cluster: Cluster, requests: Sequence[Request], pods: Mapping[str, Sequence[Pod]], now: datetime
) -> None:
    """Record Pods that were seen for the first time; one query to look, one to write."""
    by_key = {str(request.key): request for request in requests}
    wanted = {
        pod.uid: RequestPod(
            cluster=cluster, pod_uid=pod.uid, pod_name=pod.name, request=by_key[key], seen_at=now
        )
        for key, found in pods.items()
        for pod in found
    }
    if not wanted:
        return
    known = RequestPod.objects.filter(cluster=cluster, pod_uid__in=wanted).values_list("pod_uid", flat=True)
    new = wanted.keys() - set(known)
    if new:
        RequestPod.objects.bulk_create([wanted[uid] for uid in sorted(new)], ignore_conflicts=True)
        # Until now their namespace paid.
        storage.refold(cluster=cluster, uids=new)
