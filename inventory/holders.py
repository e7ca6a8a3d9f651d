"""Who holds which device now, as far as the reader may know.

Any signed-in person sees that a device is held, by which project and since when. The claim and its Pods are
seen by the project's members, administrators and auditors only; what a reader may not see is never put into
the result, so no template or serializer can give it away.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from inventory.models import Claim, ClaimDevice, Device, NamespaceBinding, Pod
from portal.access import may_read_everything
from portal.accounts.models import Project, User


@dataclass(frozen=True)
class ClaimSeen:
    """The claim behind a hold, for those who may see it."""

    namespace: str
    name: str
    uid: str
    epoch: int
    # Names of what reserves it: Pods, mostly.
    consumers: Sequence[str]
    # The same with the resource that it is: [("pods", "train-0")].
    reserved: Sequence[tuple[str, str]] = ()
    # UIDs of the Pods among them.
    pod_uids: Sequence[str] = ()


@dataclass(frozen=True)
class Holder:
    """One hold of a device. `project` None: the namespace belongs to no project."""

    project: Project | None
    since: datetime | None
    request: str
    # {"gpu.nvidia.com/memory": "10Gi"} of a shared device.
    consumed: Mapping[str, str]
    # A claim with admin access looks at the device without holding it.
    admin_access: bool
    claim: ClaimSeen | None
    # What the device's driver says of it for this claim: conditions as in the API. As visible as the claim.
    conditions: Sequence[Mapping[str, Any]] = ()


def holders_of(devices: Collection[Device], *, viewer: User, now: datetime) -> Mapping[int, Sequence[Holder]]:
    """Holders of each device by its primary key, oldest first; three queries for any number of devices.

    A device that nobody holds is absent.
    """
    results = list(
        ClaimDevice.objects.filter(device__in=[device.pk for device in devices])
        .select_related("claim")
        .defer("claim__spec", "claim__labels", "claim__annotations")
    )
    if not results:
        return {}
    claims = {result.claim_id: result.claim for result in results}.values()
    projects = projects_of({(claim.cluster_id, claim.namespace) for claim in claims}, at=now)
    reads_all = may_read_everything(viewer)
    detailed = (
        set() if reads_all else set(Project.objects.all().detailed_to(viewer).values_list("pk", flat=True))
    )
    holders: dict[int, list[Holder]] = defaultdict(list)
    for result in results:
        claim = result.claim
        project = projects.get((claim.cluster_id, claim.namespace))
        visible = reads_all or (project is not None and project.pk in detailed)
        holders[result.device_id or 0].append(
            Holder(
                project=project,
                since=claim.allocated_at,
                request=result.request if visible else "",
                consumed=result.consumed_capacity,
                admin_access=result.admin_access,
                claim=_seen(claim) if visible else None,
                conditions=result.conditions if visible else (),
            )
        )
    return {
        device: sorted(found, key=lambda h: (h.admin_access, h.since is None, h.since or now))
        for device, found in holders.items()
    }


def projects_of(
    namespaces: Collection[tuple[int, str]], *, at: datetime
) -> Mapping[tuple[int, str], Project]:
    """Whose each (cluster, namespace) is at that time; namespaces of nobody are absent. One query."""
    bindings = NamespaceBinding.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=at),
        valid_from__lte=at,
        cluster__in={cluster for cluster, _namespace in namespaces},
        namespace__in={namespace for _cluster, namespace in namespaces},
    ).select_related("project")
    return {(binding.cluster_id, binding.namespace): binding.project for binding in bindings}


def _seen(claim: Claim) -> ClaimSeen:
    reserved = claim.status.get("reservedFor") or []
    return ClaimSeen(
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        epoch=claim.epoch,
        consumers=[str(consumer.get("name", "")) for consumer in reserved],
        reserved=[(str(c.get("resource", "")), str(c.get("name", ""))) for c in reserved],
        pod_uids=[str(c.get("uid", "")) for c in reserved if c.get("resource") == "pods"],
    )


@dataclass(frozen=True)
class PodUsing:
    """What reserves a hold's claim – a Pod, mostly – with the containers that get the device, for those who
    may see it."""

    name: str
    # "" for what is no Pod that the desk sees.
    uid: str
    phase: str
    containers: Sequence[str]


def pods_using(holders: Iterable[Holder], *, cluster_id: int) -> Mapping[tuple[str, str], Sequence[PodUsing]]:
    """What reserves the holds that the reader may see, by uid of the claim and request. One query."""
    seen = [(h.claim, h.request) for h in holders if h.claim is not None]
    wanted = {uid for claim, _request in seen for uid in claim.pod_uids} - {""}
    rows = Pod.objects.filter(cluster=cluster_id, uid__in=wanted) if wanted else ()
    pods = {pod.uid: pod for pod in rows}
    told: dict[tuple[str, str], Sequence[PodUsing]] = {}
    for claim, request in seen:
        found = [pods[uid] for uid in claim.pod_uids if uid in pods]
        names = {pod.name for pod in found}
        told[claim.uid, request] = [
            *(_using(pod, claim, request) for pod in found),
            *(
                PodUsing(name, uid="", phase="", containers=())
                for name in claim.consumers
                if name not in names
            ),
        ]
    return told


def _using(pod: Pod, claim: ClaimSeen, request: str) -> PodUsing:
    # A claim may stand in a Pod under several names.
    names = {name for name, found in pod.claim_names.items() if found == claim.name}
    # "ask/first" is the request "ask" with the alternative that was taken.
    requests = ("", request.partition("/")[0], request)
    uses = (use for use in pod.claim_uses if use["claim"] in names and use["request"] in requests)
    return PodUsing(
        name=pod.name,
        uid=pod.uid,
        phase=pod.phase,
        containers=list(dict.fromkeys(use["container"] for use in uses)),
    )
