"""Quotas and queues as people ask about them: what is left, who is before me, and why do I wait?

What belongs to a namespace is seen by the people of its project, administrators and auditors; queues of a
cluster and how full they are by everybody.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from inventory.models import ClusterQueue, LocalQueue, NamespaceBinding, QueuedWorkload, ResourceQuota
from portal.access import may_read_everything
from portal.accounts.models import Project, User

State = QueuedWorkload.State
# Of a namespace's quota, what is about devices: Kubernetes' own keys, and extended resources.
DEVICE_KEYS = ("deviceclass.resource.k8s.io", "deviceclass.resource.kubernetes.io")


def in_sight_of(viewer: User, *, now: datetime) -> Q:
    """The rows (of models with `cluster` and `namespace`) that a person may see in detail."""
    if may_read_everything(viewer):
        return Q()
    held = NamespaceBinding.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=now),
        valid_from__lte=now,
        project__in=Project.objects.all().detailed_to(viewer),
    )
    seen = Q(pk__in=())
    for cluster, namespace in held.values_list("cluster_id", "namespace"):
        seen |= Q(cluster=cluster, namespace=namespace)
    return seen


@dataclass(frozen=True)
class Share:
    """What a ClusterQueue has of one resource in one flavor; amounts as Kubernetes writes them."""

    flavor: str
    resource: str
    nominal: str
    used: str
    reserved: str
    borrowed: str
    borrowing_limit: str | None
    lending_limit: str | None


def shares(queue: ClusterQueue) -> list[Share]:
    """Quota and usage of a queue, in the order in which it tries its flavors."""
    return [
        Share(
            flavor=quota["flavor"],
            resource=quota["resource"],
            nominal=quota["nominal"],
            used=_amount(queue.usage, quota),
            reserved=_amount(queue.reserved, quota),
            borrowed=_amount(queue.borrowed, quota),
            borrowing_limit=quota["borrowing"],
            lending_limit=quota["lending"],
        )
        for quota in queue.quotas
    ]


def _amount(amounts: Mapping[str, Mapping[str, str]], quota: Mapping[str, str]) -> str:
    return amounts.get(quota["flavor"], {}).get(quota["resource"], "0")


def positions(cluster_ids: Collection[int]) -> Mapping[int, int]:
    """Place (from 1) of each workload (by primary key) that waits, within its ClusterQueue: higher priority
    first, then who has waited longer. Three queries for any number of clusters.

    It is the order in which Kueue looks at them, not a promise: what does not fit may be overtaken.
    """
    leads = {
        (cluster, namespace, name): queue
        for cluster, namespace, name, queue in LocalQueue.objects.filter(cluster__in=cluster_ids).values_list(
            "cluster_id", "namespace", "name", "cluster_queue"
        )
    }
    waiting = QueuedWorkload.objects.filter(
        cluster__in=cluster_ids, state__in=[State.PENDING, State.EVICTED]
    ).order_by("-priority", "queued_at", "uid")
    places: dict[int, int] = {}
    lengths: dict[tuple[int, str], int] = {}
    for pk, cluster, namespace, name in waiting.values_list("pk", "cluster_id", "namespace", "queue_name"):
        queue = leads.get((cluster, namespace, name))
        if queue is None:
            # Its LocalQueue does not exist: it stands in no line.
            continue
        lengths[cluster, queue] = places[pk] = lengths.get((cluster, queue), 0) + 1
    return places


@dataclass(frozen=True)
class WorkloadRow:
    workload: QueuedWorkload
    # Place in the line of its ClusterQueue; None where it is in none.
    position: int | None


def workload_rows(workloads: Sequence[QueuedWorkload]) -> list[WorkloadRow]:
    """Workloads with their places."""
    waiting = {w.cluster_id for w in workloads if w.state in {State.PENDING, State.EVICTED}}
    places = positions(waiting) if waiting else {}
    return [WorkloadRow(workload, places.get(workload.pk)) for workload in workloads]


@dataclass(frozen=True)
class DeviceQuota:
    """One key of one quota that is about devices; `used` is "" where nothing is said of it."""

    quota: ResourceQuota
    key: str
    hard: str
    used: str


def device_quotas(quotas: QuerySet[ResourceQuota]) -> list[DeviceQuota]:
    """What these quotas (with their cluster) say about devices, by cluster, namespace, name and key."""
    return [
        DeviceQuota(quota, key, hard, quota.used.get(key, ""))
        for quota in quotas.order_by("cluster__name", "namespace", "name")
        for key, hard in sorted(quota.hard.items())
        if _is_about_devices(key)
    ]


def _is_about_devices(key: str) -> bool:
    if any(part in key for part in DEVICE_KEYS):
        return True
    domain, slash, _name = key.removeprefix("requests.").partition("/")
    # As against "count/jobs.batch" and "<class>.storageclass.storage.k8s.io/requests.storage".
    return bool(slash) and key.startswith("requests.") and "." in domain
