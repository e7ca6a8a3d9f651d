"""Kubernetes objects for tests of the mirror, as an API server would give them."""

import itertools
import uuid
from typing import Any

_versions = itertools.count(1000)

Json = dict[str, Any]


def meta(name: str, *, namespace: str = "", **more: Any) -> Json:
    metadata: Json = {
        "name": name,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace}/{name}")),
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": "2026-03-01T08:00:00Z",
    }
    if namespace:
        metadata["namespace"] = namespace
    return metadata | more


def gpu(index: int, *, node: str = "n1", **more: Any) -> Json:
    """A whole GPU as the NVIDIA driver publishes it."""
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node}-{index}"},
            "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "driverVersion": {"version": "580.126.9"},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:1{index}:00.0"},
        },
        "capacity": {"memory": {"value": "40Gi"}},
    } | more


def resource_slice(
    name: str,
    devices: list[Json],
    *,
    node: str = "n1",
    driver: str = "gpu.nvidia.com",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": meta(name),
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": devices,
        }
        | spec,
    }


def node(name: str = "n1", *, ready: bool = True, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels={"kubernetes.io/hostname": name}),
        "spec": spec,
        "status": {
            "capacity": {"cpu": "64", "nvidia.com/gpu": "4", "hugepages-1Gi": "0"},
            "allocatable": {"cpu": "63", "nvidia.com/gpu": "3"},
            "nodeInfo": {"kubeletVersion": "v1.36.2"},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastTransitionTime": "2026-03-01T08:30:00Z",
                }
            ],
        },
    }


def device_class(name: str, *expressions: str) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": meta(name),
        "spec": {"selectors": [{"cel": {"expression": expression}} for expression in expressions]},
    }


def result(device: str, *, node: str = "n1", request: str = "gpu", **more: Any) -> Json:
    return {"request": request, "driver": "gpu.nvidia.com", "pool": node, "device": device} | more


def allocation(*results: Json, node: str = "n1", timestamp: str = "") -> Json:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    made: Json = {
        "devices": {"results": list(results)},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    return made | ({"allocationTimestamp": timestamp} if timestamp else {})


def claim(
    name: str = "train",
    *,
    namespace: str = "ns",
    allocated: Json | None = None,
    reserved_for: tuple[str, ...] = (),
    **metadata: Any,
) -> Json:
    status: Json = {}
    if allocated is not None:
        status["allocation"] = allocated
    if reserved_for:
        status["reservedFor"] = [
            {"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in reserved_for
        ]
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta(name, namespace=namespace) | metadata,
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": status,
    }


def template(name: str = "each", *, namespace: str = "ns") -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": meta(name, namespace=namespace),
        "spec": {"spec": claim()["spec"]},
    }


def pod(
    name: str = "work",
    *,
    namespace: str = "ns",
    claims: dict[str, str] | None = None,
    extended: dict[str, str] | None = None,
    on: str = "",
    phase: str = "Pending",
    **status: Any,
) -> Json:
    resources = {"limits": {"cpu": "1", **extended}} if extended else {"limits": {"cpu": "1"}}
    spec: Json = {"containers": [{"name": "main", "resources": resources}]}
    if claims:
        spec["resourceClaims"] = [{"name": k, "resourceClaimName": v} for k, v in claims.items()]
    conditions = []
    if on:
        spec["nodeName"] = on
        at = "2026-03-01T09:00:00Z"
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": at})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, namespace=namespace),
        "spec": spec,
        "status": {"phase": phase, "conditions": conditions} | status,
    }


def event(about: Json, reason: str = "FailedScheduling", message: str = "no", **more: Any) -> Json:
    involved = {
        "kind": "Pod",
        "namespace": about["metadata"]["namespace"],
        "name": about["metadata"]["name"],
        "uid": about["metadata"]["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": meta(f"{about['metadata']['name']}.{reason}", namespace=about["metadata"]["namespace"]),
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": "2026-03-01T09:00:00Z",
        "count": 1,
    } | more


def changed(obj: Json, **parts: Any) -> Json:
    """The object with some top-level parts replaced and a new resourceVersion."""
    metadata = obj["metadata"] | {"resourceVersion": str(next(_versions))} | parts.pop("metadata", {})
    return obj | parts | {"metadata": metadata}


def namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name, labels=labels)}


def runtime_class(name: str, *, handler: str) -> Json:
    overhead = {"podFixed": {"cpu": "250m"}}
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": meta(name),
        "handler": handler,
        "overhead": overhead,
    }


def taint_rule(name: str, *, effect: str = "NoSchedule", **selector: str) -> Json:
    """A rule that taints what `selector` (driver, pool, device) selects."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": meta(name),
        "spec": {
            "deviceSelector": selector,
            "taint": {"key": f"example.com/{name}", "value": "broken", "effect": effect},
        },
    }
