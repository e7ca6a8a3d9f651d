"""Who calls a device ill: its driver in an attribute, or the kubelet in the status of a Pod that has it."""

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q

from inventory.models import Device, Pod, Pool
from portal.sql import chunks

# As in a Pod's status (`ResourceHealth.health`).
UNHEALTHY = "Unhealthy"
FINISHED = ("Succeeded", "Failed")
# Bare attribute names, lower-case, by which drivers say how a device is (Intel's do).
_WORDS, _FLAGS = ("health", "healthstatus"), ("healthy",)
_WELL = frozenset({"", "healthy", "ok", "good", "unknown"})


def of(cluster_id: int) -> frozenset[str]:
    """Devices ("driver/pool/name") that a kubelet of the cluster calls unhealthy. One query."""
    pods = Pod.objects.filter(cluster=cluster_id, complains=True).exclude(phase__in=FINISHED)
    told = pods.values_list("device_health", flat=True)
    return frozenset(name for devices in told for name in in_status(devices))


def in_status(devices: Iterable[Mapping[str, str]]) -> set[str]:
    """Those of a Pod's devices (`Pod.device_health`) that are called unhealthy."""
    return {d.get("device", "") for d in devices if d.get("health") == UNHEALTHY} - {""}


def in_attributes(attributes: Mapping[str, Any]) -> bool:
    """Whether a device's own attributes say that it is not well."""
    for qualified, value in attributes.items():
        name = qualified.rpartition("/")[2].lower()
        if not isinstance(value, dict):
            continue
        if name in _FLAGS and value.get("bool") is False:
            return True
        said = value.get("string")
        if name in _WORDS and isinstance(said, str) and said.strip().lower() not in _WELL:
            return True
    return False


def name_of(pool: Pool, device: str) -> str:
    """A device as kubelets name it."""
    return f"{pool.driver}/{pool.name}/{device}"


def devices_named(cluster_id: int, names: Collection[str]) -> set[int]:
    """Keys of the devices with these names ("driver/pool/name"; a pool's name may have slashes)."""
    found: set[int] = set()
    for some in chunks(names, 100):
        wanted = []
        for name in some:
            driver, _slash, rest = name.partition("/")
            pool, _slash, device = rest.rpartition("/")
            wanted.append(Q(pool__driver=driver, pool__name=pool, name=device))
        rows = Device.objects.filter(reduce(or_, wanted), cluster=cluster_id)
        found |= set(rows.values_list("pk", flat=True))
    return found
