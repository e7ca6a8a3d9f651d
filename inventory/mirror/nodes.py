"""Nodes: whether they would take a Pod, and what their Device Plugins advertise."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inventory.mirror import units
from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change, MirroredKind, save
from inventory.mirror.turn import Kind, Moment, Source, Turn, parse_time
from inventory.models import Node
from portal.sql import chunks

# Fields of a node that decide the state of its devices.
_DECISIVE = ("ready", "unschedulable", "taints", "labels")


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Taint(msgspec.Struct, rename="camel"):
    key: str
    effect: str = ""
    value: str | None = None
    time_added: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Info(msgspec.Struct, rename="camel"):
    kubelet_version: str | None = None
    container_runtime_version: str | None = None
    kernel_version: str | None = None
    os_image: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None
    node_info: _Info | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None


class NodeObject(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def is_extended_resource(name: str) -> bool:
    """Whether a resource name is an extended one (`nvidia.com/gpu`), as opposed to cpu, memory,
    hugepages-…"""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and not domain.startswith("requests.")


class Nodes(MirroredKind[Node, NodeObject]):
    plural = "nodes"
    model = Node
    # Nodes tell every few minutes that they are well, which changes nothing here.
    notes_changes = True

    def decode(self, item: Item) -> NodeObject:
        return decode_core(item, NodeObject)

    def store(self, turn: Turn, changes: Sequence[Change[Node, NodeObject]]) -> None:
        rows: list[Node] = []
        for change in changes:
            node = _node(turn, change)
            self._note(turn, change, node)
            rows.append(node)
            if change.row is None or any(getattr(node, f) != getattr(change.row, f) for f in _DECISIVE):
                turn.dirty_nodes.add(node.name)
            if change.row is None or any(getattr(node, f) != getattr(change.row, f) for f in _TOLD):
                turn.changed = True
                turn.dirty_counts.add(node.name)
        save(rows, _COLUMNS)
        new = [node for node, change in zip(rows, changes, strict=True) if change.row is None]
        units.note_nodes(turn, [node for node in new if node.capacity])

    def lose(self, turn: Turn, rows: Sequence[Node]) -> None:
        for row in rows:
            turn.dirty_nodes.add(row.name)
            turn.observe(
                Kind.NODE_DOWN,
                key=f"node/{row.uid}/deleted",
                moment=turn.observed(),
                name=row.name,
                uid=row.uid,
                facts={"deleted": True},
            )
        for ids in chunks([row.pk for row in rows]):
            Node.objects.filter(pk__in=ids).delete()

    def _note(self, turn: Turn, change: Change[Node, NodeObject], node: Node) -> None:
        if change.row is not None and change.row.ready == node.ready:
            return
        condition = _ready_condition(change.obj)
        at = parse_time(condition.last_transition_time) if condition else None
        turn.observe(
            Kind.NODE_UP if node.ready else Kind.NODE_DOWN,
            key=f"node/{node.uid}/{'up' if node.ready else 'down'}/{node.resource_version}",
            moment=Moment(at, Source.CONDITION) if at else turn.observed(),
            name=node.name,
            uid=node.uid,
        )


# What is computed from: all but the version of the object.
_TOLD = (*_DECISIVE, "uid", "capacity", "allocatable")
_COLUMNS = [
    *("uid", "resource_version", "ready", "unschedulable", "labels", "taints", "capacity", "allocatable"),
    *("kubelet_version", "container_runtime", "kernel_version", "os_image", "created_at"),
]


def _ready_condition(obj: NodeObject) -> _Condition | None:
    return next((c for c in obj.status.conditions or () if c.type == "Ready"), None)


def _node(turn: Turn, change: Change[Node, NodeObject]) -> Node:
    obj = change.obj
    ready = _ready_condition(obj)
    info = obj.status.node_info or _Info()
    return Node(
        pk=change.row.pk if change.row else None,
        cluster_id=turn.cluster_id,
        name=change.item.name,
        uid=change.item.uid,
        resource_version=change.item.resource_version,
        ready=ready is not None and ready.status == "True",
        unschedulable=bool(obj.spec.unschedulable),
        labels=obj.metadata.labels or {},
        taints=[_taint(taint) for taint in obj.spec.taints or ()],
        capacity=_extended(obj.status.capacity),
        allocatable=_extended(obj.status.allocatable),
        kubelet_version=(info.kubelet_version or "")[:63],
        container_runtime=(info.container_runtime_version or "")[:128],
        kernel_version=(info.kernel_version or "")[:128],
        os_image=(info.os_image or "")[:128],
        created_at=parse_time(obj.metadata.creation_timestamp),
    )


def _taint(taint: _Taint) -> dict[str, str]:
    dated = {"timeAdded": taint.time_added} if taint.time_added else {}
    return {"key": taint.key, "value": taint.value or "", "effect": taint.effect, **dated}


def _extended(resources: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (resources or {}).items() if is_extended_resource(name)}
