"""Feature gates are listed by no API for everybody: a field that a dry-run drops has its gate off."""

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from portal.kube.client import Client
from portal.kube.errors import Invalid
from portal.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from tests.contract import objects
from tests.contract.objects import Object


class Probe(NamedTuple):
    """An object to try, and where the field in question would be in the answer."""

    resource: Resource
    body: Object
    look: Callable[[Object], object]


def is_on(client: Client, gate: str) -> bool:
    """Whether the API server has the gate on. Creates nothing; raises KeyError for a gate without probe."""
    probe = _PROBES[gate]
    body = {**probe.body, "metadata": {"name": f"contract-probe-{secrets.token_hex(4)}"}}
    namespace = "default" if probe.resource.namespaced else ""
    try:
        return bool(probe.look(client.create(probe.resource, body, namespace=namespace, dry_run=True)))
    except Invalid:
        return False  # what is left without the dropped field is not valid


def minor_version(client: Client) -> int:
    """36 for Kubernetes 1.36."""
    return int(str(client.version()["minor"]).rstrip("+"))


def _slice(**device: Any) -> Object:
    devices = [objects.device("gpu-0", **device)]
    return objects.resource_slice("", driver="probe.example.com", node="probe", pool="probe", devices=devices)


def _device(field: str) -> Callable[[Object], object]:
    return lambda body: body["spec"]["devices"][0].get(field)


_FIRST_AVAILABLE = {
    "name": "gpu",
    "firstAvailable": [{"name": "a", "deviceClassName": "probe", "allocationMode": "ExactCount", "count": 1}],
}
_PROBES: dict[str, Probe] = {
    "DRADeviceTaints": Probe(
        RESOURCE_SLICES,
        _slice(taints=[{"key": "contract.example.com/probe", "effect": "NoSchedule"}]),
        _device("taints"),
    ),
    "DRAPartitionableDevices": Probe(
        RESOURCE_SLICES,
        _slice(consumesCounters=[{"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}}]),
        _device("consumesCounters"),
    ),
    "DRAConsumableCapacity": Probe(
        RESOURCE_SLICES, _slice(allowMultipleAllocations=True), _device("allowMultipleAllocations")
    ),
    "DRAExtendedResource": Probe(
        DEVICE_CLASSES,
        objects.device_class("", "true", extendedResourceName="contract.example.com/probe"),
        lambda body: body["spec"].get("extendedResourceName"),
    ),
    "DRAPrioritizedList": Probe(
        RESOURCE_CLAIMS,
        objects.claim("", [_FIRST_AVAILABLE]),
        lambda body: body["spec"]["devices"]["requests"][0].get("firstAvailable"),
    ),
}
