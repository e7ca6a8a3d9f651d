"""Pods that use devices; of all others, which are most, only the head is read."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from inventory.mirror import complaints, units
from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change, MirroredKind, save
from inventory.mirror.nodes import is_extended_resource
from inventory.mirror.plain import Owner, owner_columns
from inventory.mirror.turn import Kind, Moment, Source, Turn, parse_time
from inventory.models import Node, Pod, PodEvent
from portal.dra.quantity import InvalidQuantity, Quantity
from portal.sql import chunks

FINISHED = frozenset({"Succeeded", "Failed"})
# Longer than any registry takes.
MAX_IMAGE = 512
# As the API has numbers.
MOST_UNITS = 2**63 - 1
_COLUMNS = [
    *("uid", "resource_version", "labels", "annotations", "created_at", "phase", "node_name", "deleted_at"),
    *("scheduled_at", "started_at", "finished_at", "claim_names", "extended_resources"),
    *("unschedulable_message", "owner_kind", "owner_name", "owner_uid", "pod_group", "device_health"),
    *("complains", "claim_uses", "extended_mapping"),
]


class _ClaimUse(msgspec.Struct):
    name: str = ""
    request: str | None = None


class _Resources(msgspec.Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None
    claims: list[_ClaimUse] | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str = ""
    image: str | None = None
    # "Always" of an init container: a sidecar, which goes on beside the others.
    restart_policy: str | None = None
    resources: _Resources | None = None


class _Claim(msgspec.Struct, rename="camel"):
    name: str
    resource_claim_name: str | None = None


class _Group(msgspec.Struct, rename="camel"):
    pod_group_name: str | None = None


class _WorkloadReference(msgspec.Struct, rename="camel"):
    name: str = ""
    pod_group: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resource_claims: list[_Claim] | None = None
    scheduling_group: _Group | None = None
    # Before 1.36.
    workload_ref: _WorkloadReference | None = None


class _Terminated(msgspec.Struct, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _DeviceHealth(msgspec.Struct, rename="camel"):
    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str | None = None
    message: str | None = None


class _ResourceHealth(msgspec.Struct):
    name: str = ""
    resources: list[_DeviceHealth] | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    state: _State | None = None
    allocated_resources_status: list[_ResourceHealth] | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    message: str | None = None
    last_transition_time: str | None = None


class _Mapping(msgspec.Struct, rename="camel"):
    resource_name: str = ""
    request_name: str = ""


class _ExtendedClaim(msgspec.Struct, rename="camel"):
    resource_claim_name: str | None = None
    request_mappings: list[_Mapping] | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str | None = None
    conditions: list[_Condition] | None = None
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resource_claim_statuses: list[_Claim] | None = None
    extended_resource_claim_status: _ExtendedClaim | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[Owner] | None = None


class PodObject(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _UseStatus(msgspec.Struct, rename="camel"):
    extended_resource_claim_status: msgspec.Raw | None = None


class _Use(msgspec.Struct):
    """As little of a Pod as tells whether it uses devices."""

    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _UseStatus = msgspec.field(default_factory=_UseStatus)


_use = msgspec.json.Decoder(_Use)


def uses_devices(raw: bytes) -> bool:
    """Whether a Pod names claims or asks for extended resources. What cannot be read is kept, to be
    reported."""
    try:
        pod = _use.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return True
    return (
        bool(pod.spec.resource_claims)
        or pod.status.extended_resource_claim_status is not None
        or any(True for _ in _extended(pod.spec))
    )


class Pods(MirroredKind[Pod, PodObject]):
    plural = "pods"
    model = Pod
    namespaced = True

    def decode(self, item: Item) -> PodObject:
        return decode_core(item, PodObject)

    def store(self, turn: Turn, changes: Sequence[Change[Pod, PodObject]]) -> None:
        rows = []
        ill: set[str] = set()
        made = [_row(turn, change) for change in changes]
        nodes = units.nodes_of(turn, made)
        for change, row in zip(changes, made, strict=True):
            _note(turn, change.row, row, nodes)
            turn.dirty_counts |= _counted_on(change.row) | _counted_on(row)
            ill |= _complained_of(change.row) ^ _complained_of(row)
            rows.append(row)
        save(rows, _COLUMNS)
        units.note_claims_of(turn, rows)
        turn.dirty_devices |= complaints.devices_named(turn.cluster_id, ill)

    def lose(self, turn: Turn, rows: Sequence[Pod]) -> None:
        ill: set[str] = set()
        for row in rows:
            if row.finished_at is None:
                _note_end(turn, row, turn.observed(), deleted=True)
            turn.dirty_counts |= _counted_on(row)
            ill |= _complained_of(row)
        turn.dirty_devices |= complaints.devices_named(turn.cluster_id, ill)
        for ids in chunks([row.pk for row in rows]):
            Pod.objects.filter(pk__in=ids).delete()
        for uids in chunks([row.uid for row in rows]):
            PodEvent.objects.filter(cluster_id=turn.cluster_id, pod_uid__in=uids).delete()


def _counted_on(row: Pod | None) -> set[str]:
    """The node whose counted units a Pod takes."""
    return {row.node_name} if row is not None and row.extended_resources and row.node_name else set()


def _complained_of(row: Pod | None) -> set[str]:
    """Devices that a Pod calls unhealthy for as long as it runs."""
    if row is None or row.phase in FINISHED:
        return set()
    return complaints.in_status(row.device_health)


def _extended(spec: _Spec) -> Iterable[tuple[str, str]]:
    """(resource, amount) of every extended resource that a container asks for."""
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        yield from _asked(container)


def _asked(container: _Container) -> Iterable[tuple[str, str]]:
    resources = container.resources
    if resources is not None:
        # Requests equal limits for extended resources; either may be left out.
        for name, amount in {**(resources.limits or {}), **(resources.requests or {})}.items():
            if is_extended_resource(name):
                yield name, str(amount)


def _whole(container: _Container) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, amount in _asked(container):
        with suppress(InvalidQuantity, ArithmeticError):
            found[name] = min(Quantity.parse(amount).whole(), MOST_UNITS)
    return found


def _counts(spec: _Spec) -> dict[str, int]:
    """How many of each extended resource the Pod occupies: containers count together with sidecars; another
    init container counts if it alone asks for more, beside the sidecars before it."""
    running: Counter[str] = Counter()
    for container in spec.containers or ():
        running.update(_whole(container))
    sidecars: Counter[str] = Counter()
    highest: Counter[str] = Counter()
    for container in spec.init_containers or ():
        asked = _whole(container)
        if container.restart_policy == "Always":
            sidecars.update(asked)
        else:
            asked.update(sidecars)
            for name, count in asked.items():
                highest[name] = max(highest[name], count)
    running.update(sidecars)
    return {name: max(running[name], highest[name]) for name in {**running, **highest}}


def _claim_names(obj: PodObject) -> dict[str, str]:
    """Name in the Pod's spec → name of the claim; those of templates are known once the controller made
    them."""
    resolved: Mapping[str, str | None] = {
        status.name: status.resource_claim_name for status in obj.status.resource_claim_statuses or ()
    }
    names = {
        claim.name: claim.resource_claim_name or resolved.get(claim.name) or ""
        for claim in obj.spec.resource_claims or ()
    }
    extended = obj.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        names[units.EXTENDED] = extended.resource_claim_name
    return names


def _extended_mapping(status: _Status) -> dict[str, str]:
    """Request of the claim that the scheduler made → the extended resource that it serves."""
    extended = status.extended_resource_claim_status
    mappings = extended.request_mappings or () if extended is not None else ()
    return {mapping.request_name: mapping.resource_name for mapping in mappings}


def _claim_uses(spec: _Spec) -> list[dict[str, str]]:
    """Which containers use which claims, and of which image they are."""
    return [
        {
            "container": container.name,
            "claim": claim.name,
            "request": claim.request or "",
            "image": (container.image or "")[:MAX_IMAGE],
        }
        for container in (*(spec.init_containers or ()), *(spec.containers or ()))
        for claim in (container.resources.claims if container.resources else None) or ()
    ]


def _row(turn: Turn, change: Change[Pod, PodObject]) -> Pod:
    obj, old = change.obj, change.row
    conditions = {condition.type: condition for condition in obj.status.conditions or ()}
    scheduled = conditions.get("PodScheduled")
    is_scheduled = scheduled is not None and scheduled.status == "True"
    phase = (obj.status.phase or "")[:12]
    health = _device_health(obj.status)
    return Pod(
        pk=old.pk if old else None,
        cluster_id=turn.cluster_id,
        namespace=change.item.namespace,
        name=change.item.name,
        uid=change.item.uid,
        resource_version=change.item.resource_version,
        labels=obj.metadata.labels or {},
        annotations=obj.metadata.annotations or {},
        created_at=parse_time(obj.metadata.creation_timestamp),
        phase=phase,
        node_name=(obj.spec.node_name or "")[:253],
        deleted_at=parse_time(obj.metadata.deletion_timestamp),
        scheduled_at=parse_time(scheduled.last_transition_time) if scheduled and is_scheduled else None,
        started_at=parse_time(obj.status.start_time),
        finished_at=_finished_at(turn, obj, old) if phase in FINISHED else None,
        claim_names=_claim_names(obj),
        claim_uses=_claim_uses(obj.spec),
        extended_resources=_counts(obj.spec),
        extended_mapping=_extended_mapping(obj.status),
        unschedulable_message=(scheduled.message or "") if scheduled and not is_scheduled else "",
        **owner_columns(obj.metadata.owner_references),
        pod_group=_pod_group(obj.spec),
        device_health=health,
        complains=bool(complaints.in_status(health)),
    )


def _pod_group(spec: _Spec) -> str:
    if spec.scheduling_group is not None:
        return (spec.scheduling_group.pod_group_name or "")[:253]
    # v1alpha1 had no objects for groups: a group is named within its Workload.
    older = spec.workload_ref
    return f"{older.name}/{older.pod_group}"[:253] if older is not None else ""


def _device_health(status: _Status) -> list[dict[str, str]]:
    """What the kubelet says of each device of each container."""
    return [
        {
            "container": container.name,
            "resource": resource.name,
            "device": device.resource_id,
            # As the API has it where the kubelet says nothing.
            "health": device.health or "Unknown",
            "message": device.message or "",
        }
        for container in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
        for resource in container.allocated_resources_status or ()
        for device in resource.resources or ()
    ]


def _finished_at(turn: Turn, obj: PodObject, old: Pod | None) -> datetime:
    """When its last container ended; when we first saw it finished where the kubelet does not say."""
    ends = [
        parse_time(status.state.terminated.finished_at)
        for status in obj.status.container_statuses or ()
        if status.state is not None and status.state.terminated is not None
    ]
    known = [end for end in ends if end is not None]
    if known:
        # Sidecars end after the others.
        beside = [
            parse_time(status.state.terminated.finished_at)
            for status in obj.status.init_container_statuses or ()
            if status.state is not None and status.state.terminated is not None
        ]
        return max([*known, *(end for end in beside if end is not None)])
    return old.finished_at if old is not None and old.finished_at is not None else turn.now


def _note(turn: Turn, old: Pod | None, row: Pod, nodes: Mapping[str, Node]) -> None:
    if row.node_name and (old is None or not old.node_name):
        turn.observe(
            Kind.POD_SCHEDULED,
            key=f"pod/{row.uid}/scheduled",
            moment=turn.told(row.scheduled_at, Source.CONDITION),
            namespace=row.namespace,
            name=row.name,
            uid=row.uid,
            facts={
                "node": row.node_name,
                "claims": row.claim_names,
                "extended": row.extended_resources,
                "units": units.described(nodes.get(row.node_name), row.extended_resources),
            },
        )
    if row.finished_at is not None and (old is None or old.finished_at is None):
        moment = turn.observed()
        if row.finished_at != turn.now:
            moment = Moment(row.finished_at, Source.POD)
        _note_end(turn, row, moment, deleted=False)


def _note_end(turn: Turn, row: Pod, moment: Moment, *, deleted: bool) -> None:
    facts: dict[str, Any] = {"node": row.node_name, "phase": row.phase, "deleted": deleted}
    turn.observe(
        Kind.POD_FINISHED,
        key=f"pod/{row.uid}/finished",
        moment=moment,
        namespace=row.namespace,
        name=row.name,
        uid=row.uid,
        facts=facts,
    )
