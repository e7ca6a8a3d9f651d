"""Objects on clusters that say they belong to a request which is over, or which nobody knows.

Left behind when a worker died at the wrong moment, or when somebody copied an object with its labels. What is
provably the desk's own is removed: by the uid that the request recorded, or, where nobody lived to record it,
by everything that the desk writes on an object. The rest is told to administrators and left alone.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from claims.models import FINAL_STATES, Request
from claims.requests import manifests, submission
from claims.requests.rehearsal import Connect, api_version, owner_of
from claims.requests.transitions import record
from inventory.clusters import client_for
from inventory.findings.model import Found
from inventory.models import Claim, ClaimTemplate, Cluster, Pod, Severity
from portal.kube import errors
from portal.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

# What has just ended is still being wound up, and the mirror may be behind.
GRACE = timedelta(minutes=2)


@dataclass(frozen=True, kw_only=True)
class Stray:
    """An object with the desk's label that no live request accounts for."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    key: str
    # None = the desk knows no such request.
    request: Request | None
    # Whether it is provably the desk's own.
    ours: bool


def sweep(*, cluster: Cluster, now: datetime, connect: Connect = client_for) -> int:
    """Remove what is the desk's own and left behind on `cluster`, as far as the mirror shows it. Returns how
    many removals were asked for. Raises ClusterError; talks to the cluster: not inside a transaction."""
    ours = [stray for stray in strays(cluster=cluster, now=now) if stray.ours]
    if not ours:
        return 0
    asked = 0
    with connect(cluster) as client:
        for stray in ours:
            request = stray.request
            # Tried again meanwhile, it may be wanted: then it has its own way of finding it.
            if request is None or not Request.objects.filter(pk=request.pk, state__in=FINAL_STATES).exists():
                continue
            asked += _remove(stray, request, client, now=now)
    return asked


def strays(*, cluster: Cluster, now: datetime) -> list[Stray]:
    """What the mirror shows of such objects. Four queries, whatever the cluster's size."""
    rows = list(_labelled(cluster))
    keys = {key for *_row, key in rows}
    known = {
        str(request.key): request
        for request in Request.objects.filter(key__in=[key for key in keys if _is_key(key)]).select_related(
            "project", "requester", "cluster"
        )
    }
    found = []
    for resource, row, key in rows:
        request = known.get(key)
        if request is not None and _is_accounted_for(request, resource, row, now=now):
            continue
        found.append(
            Stray(
                resource=resource,
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                key=key,
                request=request,
                ours=request is not None
                and request.state in FINAL_STATES
                and _is_ours(request, resource, row),
            )
        )
    return found


def findings(cluster: Cluster, now: datetime) -> Iterable[Found]:
    """Those that are not provably the desk's own, for the findings of the cluster."""
    for stray in strays(cluster=cluster, now=now):
        if not stray.ours:
            yield Found(
                subject=stray.uid,
                object_kind=_KINDS[stray.resource.plural],
                namespace=stray.namespace,
                name=stray.name,
                code="stray-object" if stray.request else "stray-unknown",
                severity=Severity.WARNING,
                params={"object": f"{stray.namespace}/{stray.name}", "request": stray.key[:63]},
                holds_for=GRACE,
            )


_KINDS: Mapping[str, str] = {
    RESOURCE_CLAIMS.plural: "claim",
    RESOURCE_CLAIM_TEMPLATES.plural: "template",
    PODS.plural: "pod",
}


def _labelled(cluster: Cluster) -> Iterator[tuple[Resource, Claim | ClaimTemplate | Pod, str]]:
    """Objects that carry a request's label as its own: not what others made from a template, and of Pods only
    holds, since Pods of people carry it, too."""
    label = manifests.REQUEST_LABEL
    claims = Claim.objects.filter(cluster=cluster, labels__has_key=label, owner_pod_uid="", deleted_at=None)
    templates = ClaimTemplate.objects.filter(cluster=cluster, labels__has_key=label)
    pods = Pod.objects.filter(cluster=cluster, labels__has_key=label, deleted_at=None)
    for claim in claims.defer("spec", "status"):
        yield RESOURCE_CLAIMS, claim, str(claim.labels[label])
    for template in templates.defer("spec"):
        yield RESOURCE_CLAIM_TEMPLATES, template, str(template.labels[label])
    for pod in pods:
        if pod.labels.get(manifests.ROLE_LABEL) == "hold":
            yield PODS, pod, str(pod.labels[label])


def _is_accounted_for(
    request: Request, resource: Resource, row: Claim | ClaimTemplate | Pod, *, now: datetime
) -> bool:
    """Whether the request itself sees to it: it goes on, or has only just ended."""
    if request.state in FINAL_STATES:
        return (request.ended_at or request.changed_at) > now - GRACE
    return _is_in_its_place(request, resource, row)


def _is_in_its_place(request: Request, resource: Resource, row: Claim | ClaimTemplate | Pod) -> bool:
    held = resource is PODS
    name = manifests.hold_name(request.object_name) if held else request.object_name
    return (row.cluster_id, row.namespace, row.name) == (request.cluster_id, request.namespace, name)


def _is_ours(request: Request, resource: Resource, row: Claim | ClaimTemplate | Pod) -> bool:
    recorded = request.hold_pod_uid if resource is PODS else request.object_uid
    if recorded and row.uid == recorded:
        return True
    written = manifests.metadata_of(name=row.name, namespace=row.namespace, owner=owner_of(request))
    labels_fit = all(row.labels.get(key) == value for key, value in written["labels"].items() if value)
    notes_fit = all(row.annotations.get(key) == value for key, value in written["annotations"].items())
    return _is_in_its_place(request, resource, row) and labels_fit and notes_fit


def _remove(stray: Stray, request: Request, client: submission.Writer, *, now: datetime) -> bool:
    resource = stray.resource
    if resource is not PODS:
        resource = Resource(
            api_version(request.cluster), resource.plural, namespaced=True, kind=resource.kind
        )
    try:
        existing = client.get(resource, stray.name, namespace=stray.namespace)
        metadata = existing.get("metadata") or {}
        if metadata.get("uid") != stray.uid or metadata.get("deletionTimestamp"):
            return False
        client.delete(resource, stray.name, namespace=stray.namespace, uid=stray.uid)
    except (errors.NotFound, errors.Conflict):
        return False
    after = {"object": f"{_KINDS[stray.resource.plural]} {stray.name}", "message": stray.name}
    record(request, "request.sweep", actor=None, now=now, after=after)
    return True


def _is_key(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
