"""Taking a device apart: its profile (the kind) and its identity (the piece)."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from inventory import identity, products
from inventory.models import DeviceProfile
from portal.dra import model


@dataclass(frozen=True)
class Split:
    """One device taken apart. `attributes`, `capacity` and `identity` have fully qualified names."""

    digest: str
    driver: str
    attributes: dict[str, Any]
    capacity: dict[str, Any]
    allow_multiple_allocations: bool
    identity: dict[str, Any]


def split(device: model.Device, *, driver: str) -> Split:
    """Profile and identity of a device that `driver` publishes."""
    raw: dict[str, Any] = msgspec.to_builtins(device)
    attributes: dict[str, Any] = {}
    pieces: dict[str, Any] = {}
    for name, value in raw.get("attributes", {}).items():
        kept = pieces if identity.is_identity(name, driver=driver) else attributes
        kept[identity.qualified(name, driver=driver)] = value
    capacity = {
        identity.qualified(name, driver=driver): value for name, value in raw.get("capacity", {}).items()
    }
    multiple = bool(device.allow_multiple_allocations)
    canonical = msgspec.json.encode([driver, attributes, capacity, multiple], order="deterministic")
    return Split(
        digest=hashlib.sha256(canonical).hexdigest(),
        driver=driver,
        attributes=attributes,
        capacity=capacity,
        allow_multiple_allocations=multiple,
        identity=pieces,
    )


def ensure(splits: Iterable[Split]) -> Mapping[str, DeviceProfile]:
    """The stored profiles of these splits by digest; those that are new are stored first."""
    wanted = {split.digest: split for split in splits}
    found = _stored(wanted)
    missing = [_new(wanted[digest]) for digest in wanted.keys() - found.keys()]
    if missing:
        # Another cluster's follower may store the same kind at this moment.
        DeviceProfile.objects.bulk_create(missing, ignore_conflicts=True)
        found = _stored(wanted)
    return found


def _stored(digests: Mapping[str, Split]) -> dict[str, DeviceProfile]:
    wanted = list(digests)
    found: dict[str, DeviceProfile] = {}
    for start in range(0, len(wanted), 500):
        chunk = wanted[start : start + 500]
        found |= {profile.digest: profile for profile in DeviceProfile.objects.filter(digest__in=chunk)}
    return found


def _new(split: Split) -> DeviceProfile:
    described = products.describe(driver=split.driver, attributes=split.attributes, capacity=split.capacity)
    return DeviceProfile(
        digest=split.digest,
        driver=split.driver,
        attributes=split.attributes,
        capacity=split.capacity,
        allow_multiple_allocations=split.allow_multiple_allocations,
        vendor=described.vendor,
        product=described.product,
        kind=described.kind,
        memory_bytes=described.memory_bytes,
    )
