"""Which attributes identify a single piece of hardware, and what names it across renames.

Everything here is a table that follows what real drivers publish; a driver that we do not know is read by the
names that attributes usually have.
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

from inventory.linking import Offer

# Bare attribute names, lower-case, whose value belongs to one piece (or to its place in one machine).
IDENTITY_NAMES = frozenset(
    {
        *("uuid", "parentuuid", "uid", "guid", "serial", "serialnumber", "boardserial"),
        *("pcibusid", "pciaddress", "pciaddr", "pcieroot", "pciroot", "parentpciaddress", "parentpcibusid"),
        *("index", "minor", "parentindex", "parentminor", "cardindex", "renderindex", "placementstart"),
        *("mac", "macaddress", "ifname", "alias", "ipv4", "ipv6", "rdmadevice", "nodeguid", "portguid"),
        *("cgroup", "devicepath", "devnode"),
    }
)

# The same for one driver, where a usual name means something else (or an unusual one means a place).
# AMD's and VFIO's `deviceID` is the PCI model and stays in the profile; Neuron's `deviceId` counts within
# a node.
IDENTITY_NAMES_OF_DRIVER: Mapping[str, frozenset[str]] = {
    "compute-domain.nvidia.com": frozenset({"id", "domain"}),
    "neuron.aws.com": frozenset({"deviceid", "topology_x", "topology_y"}),
    "dra.cpu": frozenset({"cpuid", "coreid"}),
}

# Drivers whose uuid is shared by all devices of a node.
SHARED_UUID_DRIVERS = frozenset({"tpu.google.com"})

# Sources of the hardware id, best first.
_UUID = ("uuid", "guid")
_PCI = ("pcibusid", "pciaddress", "pciaddr")
_SERIAL = ("serial", "serialnumber", "boardserial")
_PARENT = ("parentuuid",)

TypedValues = Mapping[str, Mapping[str, Any]]


def qualified(name: str, *, driver: str) -> str:
    """The full name of an attribute or capacity: bare names belong to the driver's domain."""
    return name if "/" in name else f"{driver}/{name}"


def qualified_amounts(amounts: Mapping[str, Any], *, driver: str) -> dict[str, Any]:
    """Amounts of capacities by full names. What an allocation consumes is told by the names of the slice,
    which are bare mostly, and is compared with what the profile has."""
    return {qualified(name, driver=driver): amount for name, amount in amounts.items()}


def amount_named(amounts: Mapping[str, Any], name: str) -> Any:
    """The amount of a capacity. Named without its domain, as people and earlier records do, it is the one of
    that name if there is just one; None = there is none."""
    if "/" in name or name in amounts:
        return amounts.get(name)
    found = [amount for full, amount in amounts.items() if full.rpartition("/")[2] == name]
    return found[0] if len(found) == 1 else None


# A fleet has few names and very many devices.
@lru_cache(maxsize=4096)
def is_identity(name: str, *, driver: str) -> bool:
    """Whether an attribute (bare or qualified) identifies the single piece and stays out of the profile."""
    bare = name.rpartition("/")[2].lower()
    return bare in IDENTITY_NAMES or bare in IDENTITY_NAMES_OF_DRIVER.get(driver, frozenset())


def hardware_id(identity: TypedValues, *, driver: str, device: str, place: str) -> str:
    """What names the physical piece across renames: its uuid where the driver's uuids are unique, else a
    partition's parent and name, else its PCI address at `place` (the node, or the pool where there is
    none), else its serial; "" where nothing does. At most 128 characters."""
    values = _bare_values(identity)
    if driver not in SHARED_UUID_DRIVERS and (found := _first(values, _UUID)):
        return found[:128]
    if parent := _first(values, _PARENT):
        return f"{parent}#{device}"[:128]
    if address := _first(values, _PCI):
        return f"{place}/{address}"[-128:]
    return _first(values, _SERIAL)[:128]


def offer_of(identity: TypedValues, *, driver: str, key: int, pool: Hashable) -> Offer:
    """What names a whole device on its node, whoever publishes it, for `inventory.linking`."""
    values = _bare_values(identity)
    return Offer(
        key=key,
        pool=pool,
        uuid="" if driver in SHARED_UUID_DRIVERS else _first(values, _UUID),
        address=_first(values, _PCI),
        serial=_first(values, _SERIAL),
    )


def _bare_values(identity: TypedValues) -> dict[str, str]:
    """Bare lower-case name → value; where two domains use one name, the driver-independent domain wins."""
    values: dict[str, str] = {}
    for name, bare in _bare_names(tuple(identity)):
        value = identity[name].get("string")
        if isinstance(value, str):
            values[bare] = value.strip()
    return values


@lru_cache(maxsize=4096)
def _bare_names(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    ordered = sorted(names, key=lambda name: name.startswith("resource.kubernetes.io/"))
    return tuple((name, name.rpartition("/")[2].lower()) for name in ordered)


def _first(values: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((values[name] for name in names if values.get(name)), "")
