"""What still depends on an extended resource: workloads, quotas, queues, and classes that serve its name."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inventory.counted import FINISHED
from inventory.models import ClusterQueue, DeviceClass, Pod, QueuedWorkload, ResourceQuota, Stream
from inventory.owners import descent_of
from inventory.poolmoves.pool import Members, NodePool

# Nobody reads more; `Dependents.more` says how many there are beyond.
SHOWN = 200
HEARD = (Stream.State.WATCHING, Stream.State.LISTING)
# A Deployment calls its ReplicaSets after itself and the hash that their Pods carry.
HASH_LABEL = "pod-template-hash"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What somebody submitted and whose Pods ask for the resource; `waiting` of its Pods have no node."""

    kind: str
    namespace: str
    name: str
    pods: int
    units: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class QuotaKey:
    namespace: str
    name: str
    key: str
    hard: str
    used: str
    # Whether the namespace has a quota for the devices of the class, too.
    carried_over: bool


@dataclass(frozen=True, kw_only=True)
class QueueMapping:
    """A ClusterQueue of Kueue that covers the resource; by DRA it would cover a mapped name instead."""

    queue: str
    flavor: str
    nominal: str
    waiting: int


@dataclass(frozen=True, kw_only=True)
class Dependents:
    """None = not seen: the desk does not follow that, or the cluster does not serve it."""

    workloads: Sequence[Workload] | None
    more: int
    # Pods of the pool's nodes that use the resource by way of a claim which the scheduler made.
    served_by_claims: int
    quotas: Sequence[QuotaKey] | None
    queues: Sequence[QueueMapping] | None
    # DeviceClasses that serve the same name: then Pods that ask by it need not change.
    classes: Sequence[str]

    @property
    def pods(self) -> int | None:
        return None if self.workloads is None else sum(row.pods for row in self.workloads)


def dependents_of(pool: NodePool, members: Members) -> Dependents:
    """All of it for the pool's nodes and for what waits for a node. Queries do not grow with the pool."""
    seen = set(
        Stream.objects.filter(cluster=pool.cluster, state__in=HEARD, listed_at__isnull=False).values_list(
            "resource", flat=True
        )
    )
    workloads, claimed = _workloads(pool, members) if "pods" in seen else (None, 0)
    shown = None if workloads is None else workloads[:SHOWN]
    return Dependents(
        workloads=shown,
        more=max(0, len(workloads or ()) - SHOWN),
        served_by_claims=claimed,
        quotas=_quotas(pool) if "resourcequotas" in seen else None,
        queues=_queues(pool) if "clusterqueues" in seen else None,
        classes=list(
            DeviceClass.objects.filter(cluster=pool.cluster, extended_resource_name=pool.extended_resource)
            .order_by("name")
            .values_list("name", flat=True)
        ),
    )


def _workloads(pool: NodePool, members: Members) -> tuple[list[Workload], int]:
    name = pool.extended_resource
    rows = Pod.objects.filter(cluster=pool.cluster, extended_resources__has_key=name).exclude(
        phase__in=FINISHED
    )
    pods = [pod for pod in rows if not pod.node_name or pod.node_name in members.parts]
    served = [pod for pod in pods if name in (pod.extended_mapping or {}).values()]
    counted = [pod for pod in pods if name not in (pod.extended_mapping or {}).values()]
    descents = descent_of(counted)
    sums: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for pod in counted:
        owners = descents[pod.pk].owners
        kind, called = (owners[-1].kind, owners[-1].name) if owners else ("Pod", pod.name)
        if kind == "ReplicaSet" and (deployment := _deployment(called, pod.labels)):
            kind, called = "Deployment", deployment
        sums[kind, pod.namespace, called].update(
            pods=1, units=_whole(pod.extended_resources.get(name)), waiting=not pod.node_name
        )
    found = [
        Workload(
            kind=kind, namespace=namespace, name=called, pods=told["pods"], units=told["units"],
            waiting=told["waiting"],
        )
        for (kind, namespace, called), told in sums.items()
    ]  # fmt: skip
    return sorted(found, key=lambda row: (row.namespace, row.kind, row.name)), len(served)


def _deployment(replica_set: str, labels: Mapping[str, str]) -> str:
    """The Deployment behind a ReplicaSet; "" where the name does not tell."""
    suffix = str((labels or {}).get(HASH_LABEL) or "")
    told = bool(suffix) and replica_set.endswith(f"-{suffix}")
    return replica_set[: -len(suffix) - 1] if told else ""


def _quotas(pool: NodePool) -> list[QuotaKey]:
    keys = (f"requests.{pool.extended_resource}", f"limits.{pool.extended_resource}")
    by_class = (
        f"{pool.device_class}.deviceclass.resource.k8s.io/devices",
        f"requests.deviceclass.resource.kubernetes.io/{pool.device_class}",
    )
    rows = list(ResourceQuota.objects.filter(cluster=pool.cluster).order_by("namespace", "name"))
    carried = {row.namespace for row in rows if any(key in row.hard for key in by_class)}
    return [
        QuotaKey(
            namespace=row.namespace, name=row.name, key=key, hard=str(row.hard[key]),
            used=str(row.used.get(key, "")), carried_over=row.namespace in carried,
        )
        for row in rows
        for key in keys
        if key in row.hard
    ]  # fmt: skip


def _queues(pool: NodePool) -> list[QueueMapping]:
    waiting: Counter[str] = Counter()
    states = (QueuedWorkload.State.PENDING, QueuedWorkload.State.EVICTED)
    for queue, pod_sets in QueuedWorkload.objects.filter(cluster=pool.cluster, state__in=states).values_list(
        "queue_name", "pod_sets"
    ):
        if any(pool.extended_resource in (pod_set.get("requests") or {}) for pod_set in pod_sets):
            waiting[queue] += 1
    total = sum(waiting.values())
    return [
        QueueMapping(
            queue=row.name,
            flavor=str(quota.get("flavor", "")),
            nominal=str(quota.get("nominal", "")),
            waiting=total,
        )
        for row in ClusterQueue.objects.filter(cluster=pool.cluster).order_by("name")
        for quota in row.quotas
        if quota.get("resource") == pool.extended_resource
    ]


def _whole(count: object) -> int:
    said = str(count)
    return int(re.sub(r"\D", "", said[:9]) or 0) if said.isascii() else 0
