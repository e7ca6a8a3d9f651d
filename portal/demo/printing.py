"""Lists as tables (``as=Table``), which is how ``kubectl get`` asks for what it prints."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from portal.demo.records import Record
from portal.demo.resources import Resource

Object = dict[str, Any]
_Cell = tuple[str, Callable[[Object], Any]]


def wanted(accept: str) -> bool:
    """Whether an Accept header asks for a table before anything else."""
    return "as=Table" in accept.split(",", maxsplit=1)[0]


def as_table(resource: Resource, records: Iterable[Record], metadata: Object, *, now: datetime) -> bytes:
    """A ``meta.k8s.io/v1`` Table with a row for each record."""
    cells = _COLUMNS.get(resource.key, ())
    titles = [("Name", "name"), *((title, "") for title, _ in cells), ("Age", "")]
    rows = []
    for record in records:
        obj = msgspec.json.decode(record.raw)
        values = [record.name, *(cell(obj) for _, cell in cells), _age(obj["metadata"], now)]
        partial = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
        rows.append({"cells": values, "object": partial})
    table = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {"name": title, "type": "string", "format": style, "description": "", "priority": 0}
            for title, style in titles
        ],
        "rows": rows,
    }
    return msgspec.json.encode(table)


def _age(metadata: Object, now: datetime) -> str:
    """How long ago something was made, in the largest unit that fits."""
    seconds = max(0, int((now - datetime.fromisoformat(metadata["creationTimestamp"])).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _at(*path: str) -> Callable[[Object], Any]:
    """A cell that shows one field."""

    def cell(obj: Object) -> Any:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return "<none>" if value is None else str(value)

    return cell


def _condition(kind: str) -> Callable[[Object], Any]:
    """A cell that shows the status of a condition."""

    def cell(obj: Object) -> Any:
        conditions = obj.get("status", {}).get("conditions", ())
        return next((item.get("status", "") for item in conditions if item.get("type") == kind), "")

    return cell


def _pod_ready(pod: Object) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    ready = sum(bool(status.get("ready")) for status in statuses)
    return f"{ready}/{len(pod.get('spec', {}).get('containers', ()))}"


def _pod_status(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return str(pod.get("status", {}).get("phase", "Unknown"))


def _node_status(node: Object) -> str:
    conditions = {item["type"]: item["status"] for item in node.get("status", {}).get("conditions", ())}
    ready = "Ready" if conditions.get("Ready") == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ready


def _claim_state(claim: Object) -> str:
    """As the real server sums a claim up."""
    status = claim.get("status", {})
    states = [
        name
        for name, holds in (
            ("deleted", "deletionTimestamp" in claim["metadata"]),
            ("allocated", "allocation" in status),
            ("reserved", bool(status.get("reservedFor"))),
        )
        if holds
    ]
    return ",".join(states) or "pending"


_COLUMNS: dict[str, tuple[_Cell, ...]] = {
    "clusterqueues.kueue.x-k8s.io": (
        ("Cohort", _at("spec", "cohortName")),
        ("Pending Workloads", _at("status", "pendingWorkloads")),
    ),
    "events": (
        ("Type", _at("type")),
        ("Reason", _at("reason")),
        ("Object", _at("involvedObject", "name")),
        ("Message", _at("message")),
    ),
    "jobs": (("Active", _at("status", "active")), ("Succeeded", _at("status", "succeeded"))),
    "localqueues.kueue.x-k8s.io": (
        ("ClusterQueue", _at("spec", "clusterQueue")),
        ("Pending Workloads", _at("status", "pendingWorkloads")),
        ("Admitted Workloads", _at("status", "admittedWorkloads")),
    ),
    "namespaces": (("Status", _at("status", "phase")),),
    "nodes": (("Status", _node_status), ("Version", _at("status", "nodeInfo", "kubeletVersion"))),
    "pods": (("Ready", _pod_ready), ("Status", _pod_status), ("Node", _at("spec", "nodeName"))),
    "resourceclaims": (("State", _claim_state),),
    "resourceslices": (
        ("Node", _at("spec", "nodeName")),
        ("Driver", _at("spec", "driver")),
        ("Pool", _at("spec", "pool", "name")),
    ),
    "runtimeclasses": (("Handler", _at("handler")),),
    "workloads.kueue.x-k8s.io": (
        ("Queue", _at("spec", "queueName")),
        ("Reserved in", _at("status", "admission", "clusterQueue")),
        ("Admitted", _condition("Admitted")),
        ("Finished", _condition("Finished")),
    ),
}
