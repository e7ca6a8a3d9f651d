"""What an object counts for in a ResourceQuota, by the quota's own keys."""

from collections.abc import Iterable, Mapping
from typing import Any

from portal.demo.resources import Resource
from portal.dra.quantity import Quantity

Object = dict[str, Any]
Usage = dict[str, Quantity]
_ALL_DEVICES = 32  # "All" counts as the most devices that a claim can get
_FOR_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"
_NOTHING = Quantity.from_int(0)
_COUNTED = ("pods", "resourcequotas")  # besides count/<resource>, these have a short key


def of_object(resource: Resource, obj: Object, extended: Mapping[str, str]) -> Usage:
    """The amounts by key; empty for a Pod that is done.

    ``extended`` maps DeviceClasses to the extended resource that they serve: claims of such a class count for
    the extended resource too, as Pods that ask for it do.
    """
    usage: Usage = {}
    if resource.plural == "pods":
        if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return usage
        usage = _of_pod(obj.get("spec", {}))
    elif resource.plural == "resourceclaims":
        usage = _of_claim(obj, extended)
    name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    usage[f"count/{name}"] = Quantity.from_int(1)
    if resource.plural in _COUNTED:
        usage[resource.plural] = Quantity.from_int(1)
    return usage


def add(left: Usage, right: Usage) -> Usage:
    """Both together."""
    result = dict(left)
    for key, amount in right.items():
        result[key] = result.get(key, _NOTHING) + amount
    return result


def total(usages: Iterable[Usage]) -> Usage:
    """All together."""
    result: Usage = {}
    for usage in usages:
        result = add(result, usage)
    return result


def _of_claim(claim: Object, extended: Mapping[str, str]) -> Usage:
    """Devices by class. Of alternatives, the one that asks most of a class counts."""
    counts: dict[str, int] = {}
    for request in claim.get("spec", {}).get("devices", {}).get("requests", ()):
        largest: dict[str, int] = {}
        for wanted in filter(None, (request.get("exactly"), *request.get("firstAvailable", ()))):
            name = wanted["deviceClassName"]
            count = _ALL_DEVICES if wanted.get("allocationMode") == "All" else wanted.get("count", 1)
            largest[name] = max(largest.get(name, 0), count)
        for name, count in largest.items():
            counts[name] = counts.get(name, 0) + count
    usage: Usage = {}
    of_pod = _FOR_EXTENDED_RESOURCES in claim["metadata"].get("annotations", {})
    for name, count in counts.items():
        keys = [f"{name}.deviceclass.resource.k8s.io/devices"]
        if not of_pod:  # else the Pod itself has been counted for its extended resources
            keys.append(f"requests.deviceclass.resource.kubernetes.io/{name}")
            keys += [f"requests.{extended[name]}"] if name in extended else []
        usage = add(usage, {key: Quantity.from_int(count) for key in keys})
    return usage


def _of_pod(spec: Object) -> Usage:
    """Requests and limits; initialisation counts only where it needs more than the rest together."""
    amounts: Usage = {}
    for kind in ("requests", "limits"):
        running = total(_amounts(container, kind) for container in spec.get("containers", ()))
        for container in spec.get("initContainers", ()):
            for name, amount in _amounts(container, kind).items():
                running[name] = max(running.get(name, _NOTHING), amount)
        amounts.update({f"{kind}.{name}": amount for name, amount in running.items()})
        if kind == "requests":
            amounts.update({name: running[name] for name in ("cpu", "memory") if name in running})
    return amounts


def _amounts(container: Object, kind: str) -> Usage:
    given = container.get("resources", {}).get(kind, {})
    return {name: Quantity.parse(text) for name, text in given.items()}
