"""A namespace of a cluster as its people see it: whose it is and was, what it may use, what it uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from inventory.inside import PodSeen, pods_seen
from inventory.models import (
    Claim,
    Cluster,
    LocalQueue,
    Namespace,
    NamespaceBinding,
    Pod,
    QueuedWorkload,
    ResourceQuota,
)
from inventory.queues import DeviceQuota, WorkloadRow, device_quotas, in_sight_of, workload_rows
from portal.accounts.models import User

FINISHED = ("Succeeded", "Failed")
PODS_SHOWN = 100
WAITING_SHOWN = 50


@dataclass(frozen=True)
class NamespaceSeen:
    cluster: Cluster
    name: str
    # None where the mirror does not have it: it is gone, or the desk may not list namespaces.
    row: Namespace | None
    # All there ever were, the latest first; the first that holds now is `binding`.
    bindings: Sequence[NamespaceBinding]
    binding: NamespaceBinding | None
    quotas: Sequence[DeviceQuota]
    queues: Sequence[LocalQueue]
    waiting: Sequence[WorkloadRow]
    claims: QuerySet[Claim]
    claim_count: int
    allocated_count: int
    # Unfinished Pods that use devices.
    pods: Sequence[PodSeen]
    pod_count: int


def namespace_seen(*, cluster: Cluster, name: str, viewer: User, now: datetime) -> NamespaceSeen | None:
    """The namespace, if `viewer` may look into it; None where they may not, and where neither it nor
    anything in it is known."""
    here = Q(cluster=cluster, namespace=name)
    bindings = list(
        NamespaceBinding.objects.filter(here).select_related("project").order_by("-valid_from", "-pk")
    )
    row = Namespace.objects.filter(cluster=cluster, name=name).first()
    claims = Claim.objects.filter(here)
    pods = Pod.objects.filter(here).exclude(phase__in=FINISHED)
    claim_count, pod_count = claims.count(), pods.count()
    known = bool(row or bindings or claim_count or pod_count)
    if not known or not _in_sight(cluster, name, viewer=viewer, now=now):
        return None
    waiting = QueuedWorkload.objects.filter(here).exclude(state=QueuedWorkload.State.FINISHED)
    return NamespaceSeen(
        cluster=cluster,
        name=name,
        row=row,
        bindings=bindings,
        binding=next((b for b in bindings if _holds(b, now)), None),
        quotas=device_quotas(ResourceQuota.objects.filter(here).select_related("cluster")),
        queues=list(LocalQueue.objects.filter(here).order_by("name")),
        waiting=workload_rows(list(waiting.order_by("-priority", "queued_at", "uid")[:WAITING_SHOWN])),
        claims=claims,
        claim_count=claim_count,
        allocated_count=claims.filter(allocated=True).count(),
        pods=pods_seen(list(pods.order_by("name")[:PODS_SHOWN])),
        pod_count=pod_count,
    )


def _in_sight(cluster: Cluster, name: str, *, viewer: User, now: datetime) -> bool:
    """Whether somebody may see in detail what is in a namespace, whether or not there is anything."""
    seen = in_sight_of(viewer, now=now)
    # Asked of a binding, which has the same columns as what the condition is made for.
    return seen == Q() or NamespaceBinding.objects.filter(seen, cluster=cluster, namespace=name).exists()


def _holds(binding: NamespaceBinding, now: datetime) -> bool:
    return binding.valid_from <= now and (binding.valid_until is None or binding.valid_until > now)
