"""Objects that the contract tests create: small, valid from Kubernetes 1.34 on, and without anybody's
defaults."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Object = dict[str, Any]
DRA = "resource.k8s.io/v1"


def node(
    name: str, labels: Mapping[str, str], *, unschedulable: bool = False, taints: Sequence[Object] = ()
) -> Object:
    """A node as somebody registers it; what it can hold is written to its status afterwards."""
    spec: Object = {}
    if unschedulable:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = list(taints)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name[:63], **labels}},
        "spec": spec,
    }


def device(
    name: str, *, memory: str = "40Gi", attributes: Mapping[str, Object] | None = None, **more: Any
) -> Object:
    """A device with a memory capacity; ``attributes`` are in the API's tagged form."""
    return {
        "name": name,
        "attributes": {"model": {"string": "contract"}, **(attributes or {})},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def resource_slice(
    name: str,
    *,
    driver: str,
    node: str,
    pool: str,
    devices: Sequence[Object],
    generation: int = 1,
    slices: int = 1,
    **more: Any,
) -> Object:
    """One slice of a pool that announces ``slices`` of them."""
    return {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
            **({"devices": list(devices)} if devices else {}),
            **more,
        },
    }


def device_class(name: str, *expressions: str, **more: Any) -> Object:
    """A class that selects by CEL."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {
        "apiVersion": DRA,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **more},
    }


def request(
    device_class_name: str, *selectors: str, name: str = "device", count: int = 1, **more: Any
) -> Object:
    """A request for an exact number of devices."""
    exactly: Object = {
        "deviceClassName": device_class_name,
        "allocationMode": "ExactCount",
        "count": count,
        **more,
    }
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    return {"name": name, "exactly": exactly}


def claim(name: str, requests: Iterable[Object], **devices: Any) -> Object:
    """A ResourceClaim; ``devices`` are further fields beside the requests, such as ``constraints``."""
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def template(name: str, requests: Iterable[Object]) -> Object:
    """A ResourceClaimTemplate whose claims carry a label."""
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {
            "metadata": {"labels": {"contract": "from-template"}},
            "spec": {"devices": {"requests": list(requests)}},
        },
    }


def pod(
    name: str,
    *,
    node_selector: Mapping[str, str],
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A Pod that uses claims by ``{its own name for it: name of the claim or template}``."""
    entries: list[Object] = [
        {"name": key, "resourceClaimName": value} for key, value in (claims or {}).items()
    ]
    entries += [{"name": key, "resourceClaimTemplateName": value} for key, value in (templates or {}).items()]
    resources: Object = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    if entries:
        resources["claims"] = [{"name": entry["name"]} for entry in entries]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}],
            "nodeSelector": dict(node_selector),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "automountServiceAccountToken": False,
            **({"resourceClaims": entries} if entries else {}),
            **spec,
        },
    }
