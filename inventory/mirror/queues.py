"""Kueue's objects, v1beta2 and v1beta1: queues with quota and usage, flavors, and the workloads in them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change
from inventory.mirror.plain import Metadata, Owner, PlainKind, owner_columns
from inventory.mirror.turn import Turn, parse_time
from inventory.models import ClusterQueue, LocalQueue, QueuedWorkload, ResourceFlavor
from portal.kube import resources

State = QueuedWorkload.State
Amount = str | int | float
_COUNTS = ("active", "message", "stop_policy", "usage", "reserved", "pending", "reserving", "admitted")


class Condition(msgspec.Struct, rename="camel"):
    """An entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Used(msgspec.Struct):
    name: str = ""
    total: Amount = 0
    borrowed: Amount | None = None


class _FlavorUsed(msgspec.Struct):
    name: str = ""
    resources: list[_Used] | None = None


class _QueueStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] | None = None
    flavors_usage: list[_FlavorUsed] | None = None
    # A LocalQueue's, in v1beta1.
    flavor_usage: list[_FlavorUsed] | None = None
    flavors_reservation: list[_FlavorUsed] | None = None
    pending_workloads: int | None = None
    reserving_workloads: int | None = None
    admitted_workloads: int | None = None


class _Quota(msgspec.Struct, rename="camel"):
    name: str
    nominal_quota: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class _Flavor(msgspec.Struct):
    name: str
    resources: list[_Quota] | None = None


class _Group(msgspec.Struct):
    flavors: list[_Flavor] | None = None


class _ClusterQueueSpec(msgspec.Struct, rename="camel"):
    cohort_name: str | None = None
    # v1beta1.
    cohort: str | None = None
    queueing_strategy: str | None = None
    stop_policy: str | None = None
    resource_groups: list[_Group] | None = None


class ClusterQueueObject(msgspec.Struct):
    metadata: Metadata
    spec: _ClusterQueueSpec = msgspec.field(default_factory=_ClusterQueueSpec)
    status: _QueueStatus = msgspec.field(default_factory=_QueueStatus)


class ClusterQueues(PlainKind[ClusterQueue, ClusterQueueObject]):
    plural = resources.CLUSTER_QUEUES.stream
    model = ClusterQueue
    columns = (*_COUNTS, "cohort", "strategy", "created_at", "quotas", "borrowed")

    def decode(self, item: Item) -> ClusterQueueObject:
        return decode_core(item, ClusterQueueObject)

    def row(self, turn: Turn, change: Change[ClusterQueue, ClusterQueueObject]) -> ClusterQueue:
        spec, status = change.obj.spec, change.obj.status
        return ClusterQueue(
            **self.common(turn, change),
            **_counts(status, stop_policy=spec.stop_policy),
            cohort=(spec.cohort_name or spec.cohort or "")[:253],
            strategy=(spec.queueing_strategy or "")[:32],
            created_at=parse_time(change.obj.metadata.creation_timestamp),
            quotas=[
                {
                    "flavor": flavor.name,
                    "resource": quota.name,
                    "nominal": str(quota.nominal_quota),
                    "borrowing": None if quota.borrowing_limit is None else str(quota.borrowing_limit),
                    "lending": None if quota.lending_limit is None else str(quota.lending_limit),
                }
                for group in spec.resource_groups or ()
                for flavor in group.flavors or ()
                for quota in flavor.resources or ()
            ],
            borrowed=_amounts(status.flavors_usage, borrowed=True),
        )


class _LocalQueueSpec(msgspec.Struct, rename="camel"):
    cluster_queue: str | None = None
    stop_policy: str | None = None


class LocalQueueObject(msgspec.Struct):
    metadata: Metadata
    spec: _LocalQueueSpec = msgspec.field(default_factory=_LocalQueueSpec)
    status: _QueueStatus = msgspec.field(default_factory=_QueueStatus)


class LocalQueues(PlainKind[LocalQueue, LocalQueueObject]):
    plural = resources.LOCAL_QUEUES.stream
    model = LocalQueue
    namespaced = True
    columns = (*_COUNTS, "labels", "annotations", "created_at", "cluster_queue")

    def decode(self, item: Item) -> LocalQueueObject:
        return decode_core(item, LocalQueueObject)

    def row(self, turn: Turn, change: Change[LocalQueue, LocalQueueObject]) -> LocalQueue:
        metadata = change.obj.metadata
        return LocalQueue(
            **self.common(turn, change),
            **_counts(change.obj.status, stop_policy=change.obj.spec.stop_policy),
            labels=metadata.labels or {},
            annotations=metadata.annotations or {},
            created_at=parse_time(metadata.creation_timestamp),
            cluster_queue=(change.obj.spec.cluster_queue or "")[:253],
        )


class _FlavorSpec(msgspec.Struct, rename="camel"):
    node_labels: dict[str, str] | None = None
    node_taints: list[dict[str, Any]] | None = None
    topology_name: str | None = None


class FlavorObject(msgspec.Struct):
    metadata: Metadata
    spec: _FlavorSpec = msgspec.field(default_factory=_FlavorSpec)


class ResourceFlavors(PlainKind[ResourceFlavor, FlavorObject]):
    plural = resources.RESOURCE_FLAVORS.stream
    model = ResourceFlavor
    columns = ("created_at", "node_labels", "node_taints", "topology")

    def decode(self, item: Item) -> FlavorObject:
        return decode_core(item, FlavorObject)

    def row(self, turn: Turn, change: Change[ResourceFlavor, FlavorObject]) -> ResourceFlavor:
        spec = change.obj.spec
        return ResourceFlavor(
            **self.common(turn, change),
            created_at=parse_time(change.obj.metadata.creation_timestamp),
            node_labels=spec.node_labels or {},
            node_taints=spec.node_taints or [],
            topology=(spec.topology_name or "")[:253],
        )


# --- workloads ----------------------------------------------------------------------------------------


class _OwnedMetadata(Metadata, rename="camel"):
    owner_references: list[Owner] | None = None


class _PodSet(msgspec.Struct):
    name: str = ""
    count: int = 0


class _Assignment(msgspec.Struct, rename="camel"):
    name: str = ""
    flavors: dict[str, str] | None = None
    resource_usage: dict[str, Amount] | None = None
    count: int | None = None


class _Admission(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""
    pod_set_assignments: list[_Assignment] | None = None


class _Requests(msgspec.Struct):
    name: str = ""
    resources: dict[str, Amount] | None = None


class _WorkloadSpec(msgspec.Struct, rename="camel"):
    queue_name: str | None = None
    priority: int | None = None
    active: bool | None = None
    pod_sets: list[_PodSet] | None = None


class _WorkloadStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] | None = None
    admission: _Admission | None = None
    # Of what waits; an admitted one has its usage.
    resource_requests: list[_Requests] | None = None


class WorkloadObject(msgspec.Struct):
    metadata: _OwnedMetadata
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = msgspec.field(default_factory=_WorkloadStatus)


class _Stand(NamedTuple):
    """Where a workload stands, and the condition that says so."""

    state: State
    condition: Condition


class QueuedWorkloads(PlainKind[QueuedWorkload, WorkloadObject]):
    plural = resources.QUEUED_WORKLOADS.stream
    model = QueuedWorkload
    namespaced = True
    columns = (
        *("labels", "annotations", "created_at", "owner_kind", "owner_name", "owner_uid", "queue_name"),
        *("cluster_queue", "priority", "state", "reason", "message", "state_since", "queued_at", "pod_sets"),
    )

    def decode(self, item: Item) -> WorkloadObject:
        return decode_core(item, WorkloadObject)

    def row(self, turn: Turn, change: Change[QueuedWorkload, WorkloadObject]) -> QueuedWorkload:
        obj = change.obj
        metadata, admission = obj.metadata, obj.status.admission
        conditions = {condition.type: condition for condition in obj.status.conditions or ()}
        stand = _stand(conditions, active=obj.spec.active is not False)
        return QueuedWorkload(
            **self.common(turn, change),
            **owner_columns(metadata.owner_references),
            labels=metadata.labels or {},
            annotations=metadata.annotations or {},
            created_at=parse_time(metadata.creation_timestamp),
            queue_name=(obj.spec.queue_name or "")[:253],
            cluster_queue=(admission.cluster_queue if admission else "")[:253],
            priority=obj.spec.priority or 0,
            state=stand.state,
            reason=(stand.condition.reason or "")[:1024],
            message=stand.condition.message or "",
            state_since=parse_time(stand.condition.last_transition_time),
            queued_at=_queued_at(metadata, conditions),
            pod_sets=_pod_sets(obj),
        )


def _stand(conditions: Mapping[str, Condition], *, active: bool) -> _Stand:
    """The latest stage that a condition affirms; a later stage supersedes the earlier ones."""
    nothing = Condition()
    reserved = conditions.get("QuotaReserved", nothing)
    for kind, state in (
        ("Finished", State.FINISHED),
        ("Admitted", State.ADMITTED),
        ("QuotaReserved", State.RESERVED),
    ):
        condition = conditions.get(kind, nothing)
        if condition.status == "True":
            evicted = conditions.get("Evicted", nothing)
            if state != State.FINISHED and evicted.status == "True":
                return _Stand(State.EVICTED, evicted)
            return _Stand(state, condition)
    if not active:
        return _Stand(State.INACTIVE, conditions.get("Evicted", reserved))
    return _Stand(State.PENDING, reserved)


def _queued_at(metadata: Metadata, conditions: Mapping[str, Condition]) -> datetime | None:
    """An evicted workload goes to the end of those of its priority where its Pods were not ready in time;
    any other keeps its place, which its creation gives."""
    requeued = conditions.get("Requeued", conditions.get("Evicted", Condition()))
    late = conditions.get("Evicted", Condition()).reason == "PodsReadyTimeout"
    back = parse_time(requeued.last_transition_time) if late else None
    return back or parse_time(metadata.creation_timestamp)


def _pod_sets(obj: WorkloadObject) -> list[dict[str, Any]]:
    assignments = obj.status.admission.pod_set_assignments if obj.status.admission else None
    assigned = {assignment.name: assignment for assignment in assignments or ()}
    asked = {requests.name: requests.resources for requests in obj.status.resource_requests or ()}
    return [
        {
            "name": pod_set.name,
            "count": pod_set.count,
            "requests": _texts(asked.get(pod_set.name)),
            "flavors": assigned[pod_set.name].flavors or {} if pod_set.name in assigned else {},
            "usage": _texts(assigned[pod_set.name].resource_usage) if pod_set.name in assigned else {},
        }
        for pod_set in obj.spec.pod_sets or ()
    ]


# --- status of queues ---------------------------------------------------------------------------------


def _counts(status: _QueueStatus, *, stop_policy: str | None) -> dict[str, Any]:
    active = next((c for c in status.conditions or () if c.type == "Active"), None)
    # A queue that the controller has not looked at yet admits nothing, but nothing is wrong with it.
    is_active = active is None or active.status == "True"
    return {
        "active": is_active,
        "message": "" if is_active or active is None else (active.message or active.reason or ""),
        "stop_policy": "" if stop_policy in {None, "None"} else (stop_policy or "")[:32],
        "usage": _amounts(status.flavors_usage or status.flavor_usage),
        "reserved": _amounts(status.flavors_reservation),
        "pending": status.pending_workloads or 0,
        "reserving": status.reserving_workloads or 0,
        "admitted": status.admitted_workloads or 0,
    }


def _amounts(flavors: Iterable[_FlavorUsed] | None, *, borrowed: bool = False) -> dict[str, dict[str, str]]:
    """Flavor → resource → amount."""
    return {
        flavor.name: {
            used.name: str((used.borrowed or 0) if borrowed else used.total)
            for used in flavor.resources or ()
            if not borrowed or used.borrowed not in (None, 0, "0")
        }
        for flavor in flavors or ()
    }


def _texts(amounts: Mapping[str, Amount] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}
