"""What is inside a namespace: its Pods, claims and their devices, as those may see them who belong to it.

Everything here is fetched through `in_sight_of`, so to a stranger a project's objects do not exist.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404
from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.models import Claim, ClaimDevice, Pod, PodEvent
from inventory.queues import in_sight_of
from portal.accounts.models import User

Row = TypeVar("Row", bound=Model)

PODS_TOLD = 500

# What the usual Events about Pods mean; the message says more, in the cluster's own words.
EVENT_WORDS: Mapping[str, StrOrPromise] = {
    "FailedScheduling": _("The scheduler has found no node for it."),
    "FailedPrepareDynamicResources": _("The kubelet could not prepare its devices."),
    "FailedResourceClaimCreation": _("Its claim could not be made from the template."),
    "FailedMount": _("A volume could not be mounted."),
    "FailedAttachVolume": _("A volume could not be attached to the node."),
    "FailedCreatePodSandBox": _("The runtime could not set up its sandbox."),
    "Failed": _("A container could not be started."),
    "BackOff": _("A container (or its image) fails again and again; the kubelet waits before it tries anew."),
    "Unhealthy": _("A container does not answer its health check."),
    "Evicted": _("The kubelet has evicted it."),
    "Preempted": _("It made room for another Pod of higher priority."),
    "UnexpectedAdmissionError": _("The kubelet did not admit it: it had no such device left."),
    "OutOfPods": _("The node has no room for more Pods."),
    "NodeNotReady": _("Its node is not ready."),
    "InspectFailed": _("The image could not be inspected."),
    "FailedKillPod": _("The kubelet could not end it."),
}


def seen_or_404(rows: QuerySet[Row], *, viewer: User, now: datetime, **lookup: Any) -> Row:
    """The one row (of a model with `cluster` and `namespace`), if `viewer` may see it in detail. Raises
    Http404, whether there is none or it is not theirs to see."""
    found = rows.filter(in_sight_of(viewer, now=now), **lookup).first()
    if found is None:
        raise Http404
    return found


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EventSeen:
    """The latest Event of one reason; `words` is "" for a reason that we have no words for."""

    pod: str
    reason: str
    words: StrOrPromise
    message: str
    count: int
    last_at: datetime


def events_of(pods: Collection[Pod]) -> list[EventSeen]:
    """What went wrong with these Pods (of one cluster), the latest first. One query."""
    if not pods:
        return []
    rows = PodEvent.objects.filter(
        cluster__in={pod.cluster_id for pod in pods}, pod_uid__in=[pod.uid for pod in pods]
    )
    return [
        EventSeen(
            pod=row.pod_name,
            reason=row.reason,
            words=EVENT_WORDS.get(row.reason, ""),
            message=row.message,
            count=row.count,
            last_at=row.last_at,
        )
        for row in rows.order_by("-last_at", "reason")
    ]


# --- claims and their devices ---------------------------------------------------------------------


@dataclass(frozen=True)
class HealthSeen:
    """What a kubelet says of one device that a container of a Pod has."""

    namespace: str
    pod: str
    container: str
    # "claim:gpu", or the extended resource of a Device Plugin.
    resource: str
    device: str
    health: str
    message: str
    # The page of the device, where it is one that is published.
    device_id: int | None = None


@dataclass(frozen=True)
class ResultSeen:
    """One device that a claim has, with what its driver and the kubelet say of it."""

    result: ClaimDevice
    health: Sequence[HealthSeen] = ()

    @property
    def name(self) -> str:
        return full_name(self.result)

    @property
    def worst(self) -> str:
        """The worst that a kubelet says of it; "" where none says anything."""
        said = {health.health for health in self.health}
        return next((word for word in ("Unhealthy", "Unknown", "Healthy") if word in said), "")


@dataclass(frozen=True)
class ClaimUse:
    """A claim as a Pod (or a group) names it; `claim` is None where it does not exist (yet)."""

    entry: str
    name: str
    claim: Claim | None
    results: Sequence[ResultSeen] = ()

    @property
    def allocated(self) -> bool:
        return self.claim is not None and self.claim.allocated

    @property
    def uid(self) -> str:
        return self.claim.uid if self.claim is not None else ""


@dataclass(frozen=True)
class PodSeen:
    """A Pod with its claims."""

    pod: Pod
    uses: Sequence[ClaimUse] = field(default=())

    @property
    def held(self) -> int:
        return sum(use.allocated for use in self.uses)


def full_name(result: ClaimDevice) -> str:
    """As kubelets name a device: "driver/pool/name"."""
    return f"{result.driver}/{result.pool_name}/{result.device_name}"


def pods_seen(pods: Sequence[Pod]) -> list[PodSeen]:
    """Pods with their claims and devices, in their order; two queries for any number."""
    wanted: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for pod in pods:
        wanted[pod.cluster_id][pod.namespace].update(filter(None, pod.claim_names.values()))
    claims: dict[tuple[int, str, str], Claim] = {}
    for cluster, namespaces in wanted.items():
        for namespace, names in namespaces.items():
            found = Claim.objects.filter(cluster=cluster, namespace=namespace, name__in=names)
            claims |= {(cluster, namespace, claim.name): claim for claim in found}
    results = results_of(claims.values())
    seen = []
    for pod in pods:
        uses = []
        for entry, name in pod.claim_names.items():
            claim = claims.get((pod.cluster_id, pod.namespace, name))
            held = results.get(claim.pk, ()) if claim is not None else ()
            uses.append(ClaimUse(entry, name, claim, _with_health(held, [pod])))
        seen.append(PodSeen(pod, uses))
    return seen


def results_of(claims: Iterable[Claim]) -> Mapping[int, Sequence[ClaimDevice]]:
    """Devices of claims, by the claim's key, in the order of their requests. One query."""
    found: dict[int, list[ClaimDevice]] = defaultdict(list)
    rows = ClaimDevice.objects.filter(claim__in=[claim.pk for claim in claims])
    for row in rows.select_related("device__pool").order_by("request", "driver", "pool_name", "device_name"):
        found[row.claim_id].append(row)
    return found


def claim_results(claim: Claim, pods: Collection[Pod]) -> list[ResultSeen]:
    """Devices of one claim with what the kubelets of these Pods say of them."""
    return _with_health(results_of([claim]).get(claim.pk, ()), pods)


def health_of(pod: Pod, uses: Iterable[ClaimUse]) -> list[HealthSeen]:
    """All that the kubelet says of the Pod's devices, those of Device Plugins among them."""
    known = {seen.name: seen.result.device_id for use in uses for seen in use.results}
    return [_health(pod, said, known) for said in pod.device_health]


def health_of_device(*, cluster_id: int, name: str, pod_uids: Collection[str]) -> list[HealthSeen]:
    """What kubelets say of one device ("driver/pool/name") to these Pods. One query."""
    if not pod_uids:
        return []
    pods = Pod.objects.filter(cluster=cluster_id, uid__in=list(pod_uids)).exclude(device_health=[])
    return [
        _health(pod, said, {})
        for pod in pods.order_by("namespace", "name")
        for said in pod.device_health
        if said.get("device") == name
    ]


def _with_health(results: Iterable[ClaimDevice], pods: Collection[Pod]) -> list[ResultSeen]:
    said: dict[str, list[HealthSeen]] = defaultdict(list)
    for pod in pods:
        for entry in pod.device_health:
            said[entry.get("device", "")].append(_health(pod, entry, {}))
    return [ResultSeen(result, said.get(full_name(result), ())) for result in results]


def _health(pod: Pod, said: Mapping[str, str], known: Mapping[str, int | None]) -> HealthSeen:
    device = said.get("device", "")
    return HealthSeen(
        namespace=pod.namespace,
        pod=pod.name,
        container=said.get("container", ""),
        resource=said.get("resource", ""),
        device=device,
        health=said.get("health", ""),
        message=said.get("message", ""),
        device_id=known.get(device),
    )


# --- who reserves a claim -------------------------------------------------------------------------


@dataclass(frozen=True)
class ConsumerSeen:
    """What reserves a claim: a Pod, or a group of Pods. `pod` is None where it is none, or is gone."""

    resource: str
    group: str
    name: str
    uid: str
    pod: Pod | None = None

    @property
    def is_group(self) -> bool:
        return self.resource == "podgroups"


def consumers_of(claim: Claim) -> list[ConsumerSeen]:
    """As the cluster has them in `status.reservedFor`. One query."""
    reserved = [entry for entry in claim.status.get("reservedFor") or () if isinstance(entry, dict)]
    uids = [str(entry.get("uid", "")) for entry in reserved if entry.get("resource") == "pods"]
    pods = {pod.uid: pod for pod in Pod.objects.filter(cluster=claim.cluster_id, uid__in=uids)}
    return [
        ConsumerSeen(
            resource=str(entry.get("resource", "")),
            group=str(entry.get("apiGroup", "")),
            name=str(entry.get("name", "")),
            uid=str(entry.get("uid", "")),
            pod=pods.get(str(entry.get("uid", ""))),
        )
        for entry in reserved
    ]


def pods_naming(claim: Claim) -> list[Pod]:
    """Pods of its namespace that name the claim, whether they reserve it or wait for it."""
    here = Pod.objects.filter(cluster=claim.cluster_id, namespace=claim.namespace)
    named = here.values_list("pk", "claim_names")
    naming = [pk for pk, names in named.iterator() if claim.name in names.values()]
    return list(Pod.objects.filter(pk__in=naming[:PODS_TOLD]).order_by("name"))
