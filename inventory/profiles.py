"""Taking a device apart: its profile (the kind) and its identity (the piece)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
    names, own = _told_apart(driver, tuple(device.attributes))
    attributes = {full: msgspec.to_builtins(device.attributes[name]) for name, full in names}
    capacity = {
        identity.qualified(name, driver=driver): msgspec.to_builtins(value)
        for name, value in device.capacity.items()
    }
    multiple = bool(device.allow_multiple_allocations)
    canonical = msgspec.json.encode([driver, attributes, capacity, multiple], order="deterministic")
    return Split(
        digest=hashlib.sha256(canonical).hexdigest(),
        driver=driver,
        attributes=attributes,
        capacity=capacity,
        allow_multiple_allocations=multiple,
        identity={full: msgspec.to_builtins(device.attributes[name]) for name, full in own},
    )


# Of an attribute, its name as published and its full name.
Names = tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def _told_apart(driver: str, names: tuple[str, ...]) -> tuple[Names, Names]:
    """Of these attributes, those that make the kind and those that identify the piece."""
    qualified = [(name, identity.qualified(name, driver=driver)) for name in names]
    return (
        tuple(pair for pair in qualified if not identity.is_identity(pair[0], driver=driver)),
        tuple(pair for pair in qualified if identity.is_identity(pair[0], driver=driver)),
    )


class Known:
    """The profiles of a fleet, of which it has few: a device of a kind that was seen before is not taken
    apart again."""

    # A driver that publishes what changes from device to device under a name of its own must not fill memory.
    _MOST = 5_000

    def __init__(self) -> None:
        self._by_content: dict[Any, DeviceProfile] = {}

    def clear(self) -> None:
        self._by_content.clear()

    def of(self, devices: Sequence[tuple[model.Device, str]]) -> list[DeviceProfile]:
        """The stored profile of each device, given with its driver; those that are new are stored first."""
        keys = [_content(device, driver) for device, driver in devices]
        if len(self._by_content) > self._MOST:
            self._by_content.clear()
        unknown = {
            key: split(device, driver=driver)
            for key, (device, driver) in zip(keys, devices, strict=True)
            if key not in self._by_content
        }
        if unknown:
            stored = ensure(unknown.values())
            self._by_content |= {key: stored[found.digest] for key, found in unknown.items()}
        return [self._by_content[key] for key in keys]


def _content(device: model.Device, driver: str) -> Any:
    """All that makes the profile of a device. Equal contents mean equal profiles; not the other way round,
    since names may come in another order."""
    names, _own = _told_apart(driver, tuple(device.attributes))
    attributes = device.attributes
    return (
        driver,
        names,
        tuple([attributes[name] for name, _ in names]),
        tuple(device.capacity.items()),
        device.allow_multiple_allocations,
    )


def identity_of(device: model.Device, *, driver: str) -> dict[str, Any]:
    """The attributes that identify the piece, with full names."""
    _kind, own = _told_apart(driver, tuple(device.attributes))
    attributes = device.attributes
    found: dict[str, Any] = msgspec.to_builtins({full: attributes[name] for name, full in own})
    return found


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
