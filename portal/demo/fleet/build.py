"""Builders of the objects that a fleet is made of: nodes, slices, devices, classes.

Everything here is a pure function of its arguments and returns the JSON form that the API speaks. Identities
of hardware (uuids, MAC addresses, serials) derive from names, so that the same fleet comes out each time.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
Scalar = str | int | bool

ORGANISATION = "norrvik.example"
"""The invented institute whose machines these are."""

KUBELET_ANNOTATION = "demo.claimdesk.example/kubelet"
"""On a Node: ``stopped`` makes the embedded kubelet leave this node and its Pods alone."""

RUN_SECONDS_ANNOTATION = "demo.claimdesk.example/run-seconds"
"""On a Pod whose ``restartPolicy`` is not ``Always``: after so many seconds of running it has succeeded."""

PREPARE_FAILS_ANNOTATION = "demo.claimdesk.example/prepare-fails"
"""On a Node: the driver that fails to prepare devices there, so that Pods which need them do not start."""

SAMPLE_BIRTH = datetime(2026, 1, 12, 7, 30, tzinfo=UTC)
"""Time that sample objects carry where the API wants one and nothing renews it."""

_IDENTITIES = uuid.UUID("6f1c7a52-3c1e-4d5b-9b1a-2f0e5d8c4b77")


class Version(str):
    """A semantic version, to be told from a plain string attribute."""

    __slots__ = ()


def timestamp(moment: datetime) -> str:
    """The API's ``metav1.Time`` form (UTC, whole seconds)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def identity(*parts: object) -> uuid.UUID:
    """A uuid that depends on nothing but the names given."""
    return uuid.uuid5(_IDENTITIES, "/".join(str(part) for part in parts))


def mac_address(*parts: object) -> str:
    """A locally administered MAC address derived from the names given."""
    octets = identity("mac", *parts).bytes[:5]
    return ":".join(["0e", *(f"{octet:02x}" for octet in octets)])


def serial_number(*parts: object) -> str:
    """Something that looks like a vendor's serial, derived from the names given."""
    return identity("serial", *parts).hex[:12].upper()


def attributes(values: Mapping[str, Scalar]) -> Object:
    """Device attributes in the API's tagged form: ``{"model": "x"}`` → ``{"model": {"string": "x"}}``."""

    def tagged(value: Scalar) -> Object:
        if isinstance(value, bool):
            return {"bool": value}
        if isinstance(value, int):
            return {"int": value}
        return {"version" if isinstance(value, Version) else "string": str(value)}

    return {name: tagged(value) for name, value in values.items()}


def capacity(values: Mapping[str, str]) -> Object:
    """Capacities or counters as the API has them: ``{"memory": "40Gi"}`` → ``{"memory": {"value": …}}``."""
    return {name: {"value": value} for name, value in values.items()}


def node_name(short: str, organisation: str = ORGANISATION) -> str:
    """``h100-01`` as a machine of the institute (or of another organisation)."""
    return f"{short}.{organisation}"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """What a node's software says about itself."""

    kubelet: str = "v1.36.2"
    runtime: str = "containerd://2.1.4"
    kernel: str = "6.8.0-85-generic"
    image: str = "Ubuntu 24.04.3 LTS"


USUAL_PLATFORM = Platform()


def node(
    short: str,
    *,
    zone: str,
    cpu: int,
    memory: str,
    labels: Mapping[str, str] | None = None,
    extended: Mapping[str, str] | None = None,
    ready: bool = True,
    cordoned: bool = False,
    organisation: str = ORGANISATION,
    platform: Platform = USUAL_PLATFORM,
    now: datetime = SAMPLE_BIRTH,
) -> Object:
    """A Node; ``extended`` are the resources that its device plugins advertise."""
    name = node_name(short, organisation)
    resources = {
        "cpu": str(cpu),
        "memory": memory,
        "ephemeral-storage": "1800Gi",
        "pods": "110",
        **(extended or {}),
    }
    taints = []
    if cordoned:
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if not ready:
        taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    spec: Object = {"podCIDR": f"10.{identity(name).bytes[0]}.{identity(name).bytes[1]}.0/24"}
    if cordoned:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = taints
    metadata: Object = {
        "name": name,
        # So that the slices of the node can name their owner: a garbage collector trusts only uids.
        "uid": str(identity("Node", name)),
        "labels": {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": organisation.partition(".")[0],
            "topology.kubernetes.io/zone": zone,
            **(labels or {}),
        },
    }
    if not ready:
        metadata["annotations"] = {KUBELET_ANNOTATION: "stopped"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "conditions": [ready_condition(ready=ready, now=now)],
            "addresses": [
                {
                    "type": "InternalIP",
                    "address": f"10.20.{identity(name).bytes[2]}.{identity(name).bytes[3] or 1}",
                },
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": str(identity("boot", name)),
                "containerRuntimeVersion": platform.runtime,
                "kernelVersion": platform.kernel,
                "kubeProxyVersion": "",
                "kubeletVersion": platform.kubelet,
                "machineID": identity("machine", name).hex,
                "operatingSystem": "linux",
                "osImage": platform.image,
                "systemUUID": str(identity("system", name)),
            },
        },
    }


def ready_condition(*, ready: bool, now: datetime) -> Object:
    """The kubelet's Ready condition."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "kubelet is posting ready status" if ready else "container runtime is down",
        "lastHeartbeatTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
    }


def resource_slices(
    *,
    driver: str,
    node: str,
    contents: Sequence[Object],
    generation: int = 1,
    announced: int | None = None,
) -> list[Object]:
    """The slices of a node's pool (the pool is named as the node, as node-local drivers do).

    ``contents`` holds one entry a slice: ``{"devices": […]}`` or ``{"sharedCounters": […]}``. ``announced``
    is the ``resourceSliceCount`` when it shall differ from the number of slices given: an incomplete pool.
    """
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "name": f"{node}-{driver}-{identity(driver, node, index).hex[:5]}",
                "generateName": f"{node}-{driver}-",
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "name": node,
                        "uid": str(identity("Node", node)),
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {
                    "name": node,
                    "generation": generation,
                    "resourceSliceCount": announced if announced is not None else len(contents),
                },
                **content,
            },
        }
        for index, content in enumerate(contents)
    ]


def device_class(
    name: str, *expressions: str, extended_resource: str = "", config: Object | None = None
) -> Object:
    """A DeviceClass that selects by CEL."""
    spec: Object = {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    if config:
        spec["config"] = [config]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A Namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **(labels or {})}},
    }


def exact_request(
    name: str,
    device_class_name: str,
    *selectors: str,
    count: int = 1,
    capacity_requests: Mapping[str, str] | None = None,
) -> Object:
    """One entry of ``spec.devices.requests`` that wants an exact number of devices."""
    exactly: Object = {"deviceClassName": device_class_name, "allocationMode": "ExactCount", "count": count}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    if capacity_requests:
        exactly["capacity"] = {"requests": dict(capacity_requests)}
    return {"name": name, "exactly": exactly}


def claim_spec(requests: Iterable[Object], *, match_attribute: str = "") -> Object:
    """A ResourceClaimSpec; ``match_attribute`` is a fully qualified name that all devices have to share."""
    devices: Object = {"requests": list(requests)}
    if match_attribute:
        devices["constraints"] = [{"matchAttribute": match_attribute}]
    return {"devices": devices}


def resource_claim(name: str, namespace: str, spec: Object) -> Object:
    """A ResourceClaim as a person writes one."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def resource_claim_template(name: str, namespace: str, spec: Object) -> Object:
    """A ResourceClaimTemplate around a claim's spec."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec},
    }


def pod_spec(
    *,
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] | None = None,
    restart: str = "Always",
    cpu: str = "2",
    memory: str = "8Gi",
    image: str = "registry.norrvik.example/science/runtime:2026.1",
    **more: Any,
) -> Object:
    """A PodSpec whose one container uses the claims (``{name in the Pod: claim or template}``) and limits."""
    names = [
        *({"name": name, "resourceClaimName": claim} for name, claim in (claims or {}).items()),
        *(
            {"name": name, "resourceClaimTemplateName": template}
            for name, template in (templates or {}).items()
        ),
    ]
    resources: Object = {"requests": {"cpu": cpu, "memory": memory, **(limits or {})}}
    if limits:
        resources["limits"] = dict(limits)
    if names:
        resources["claims"] = [{"name": entry["name"]} for entry in names]
    spec: Object = {
        "containers": [
            {
                "name": "main",
                "image": image,
                "resources": resources,
            },
        ],
        "restartPolicy": restart,
        "automountServiceAccountToken": False,
        **more,
    }
    if names:
        spec["resourceClaims"] = names
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    return spec


def pod(
    name: str,
    namespace: str,
    spec: Object,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A Pod."""
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "labels": {"app.kubernetes.io/name": name, **(labels or {})},
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
