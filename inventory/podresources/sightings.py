"""What a source tells: this container has this device. And what names the piece behind an id. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

# With time slicing and MPS NVIDIA's plugin hands out one GPU several times: "GPU-8a10b6f7-…::3".
_REPLICA = re.compile(r"::\d{1,9}$")
_PCI = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


class Key(NamedTuple):
    """What makes two sightings the same, as long as the Pod of that name is the same one."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_id: str
    part: str


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One device that one container of one Pod has."""

    namespace: str
    pod: str
    container: str
    # "nvidia.com/gpu"; "" where the source does not tell.
    resource: str = ""
    # As the source has it.
    device_id: str
    # Which part of the device, where the id is that of the whole.
    part: str = ""
    numa: tuple[int, ...] = ()
    # "" where the source tells names only, as kubelets do.
    pod_uid: str = ""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.pod, self.container, self.resource, self.device_id, self.part)


def hardware_id_of(device_id: str, *, node: str) -> str:
    """What names the piece, in the form of `Device.hardware_id`: NVIDIA's uuids without the number of the
    replica, PCI addresses (AMD's and SR-IOV's plugins) with their node, anything else with its node, since it
    is unique there at most."""
    bare = _REPLICA.sub("", device_id)
    if bare.startswith(("GPU-", "MIG-")):
        return bare[:128]
    if _PCI.fullmatch(bare):
        bare = bare.lower()
    return f"{node}/{bare}"[-128:]


def replica_of(device_id: str) -> str:
    """Which replica of a shared device an id means: "3" of "GPU-8a10b6f7-…::3"; "" for a whole one."""
    found = _REPLICA.search(device_id)
    return found[0][2:] if found else ""


class PodKnown(NamedTuple):
    """A Pod that the mirror has on the node; `created_at` None where that was not told."""

    uid: str
    created_at: datetime | None


# By namespace and name.
Names = Mapping[tuple[str, str], PodKnown]
