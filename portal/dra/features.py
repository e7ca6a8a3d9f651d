"""Feature gates of Kubernetes that change what DRA objects mean.

Gates are the parameter; a Kubernetes version only presets them, since any cluster may switch them.
"""

import difflib
from collections.abc import Iterable

import msgspec

DYNAMIC_RESOURCE_ALLOCATION = "DynamicResourceAllocation"
ADMIN_ACCESS = "DRAAdminAccess"
PRIORITIZED_LIST = "DRAPrioritizedList"
PARTITIONABLE_DEVICES = "DRAPartitionableDevices"
DEVICE_TAINTS = "DRADeviceTaints"
DEVICE_TAINT_RULES = "DRADeviceTaintRules"
CONSUMABLE_CAPACITY = "DRAConsumableCapacity"
DEVICE_BINDING_CONDITIONS = "DRADeviceBindingConditions"
DEVICE_STATUS = "DRAResourceClaimDeviceStatus"
EXTENDED_RESOURCE = "DRAExtendedResource"
LIST_TYPE_ATTRIBUTES = "DRAListTypeAttributes"
DERIVED_ATTRIBUTES = "DRADerivedAttributes"
FRACTIONAL_CAPACITY_RANGE = "DRAFractionalCapacityRange"
COMPATIBILITY_GROUPS = "DRADeviceCompatibilityGroups"
NODE_ALLOCATABLE = "DRANodeAllocatableResources"
OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
# Gates that may be named with the others but change nothing about the choice of devices.
_WITHOUT_EFFECT = frozenset(
    {
        "DRAControlPlaneController",
        "DRAResourceClaimGranularStatusAuthorization",
        "DRAResourcePoolStatus",
        "DRAResourceSliceMixins",
        "DRASchedulerFilterTimeout",
        "DRAWorkloadResourceClaims",
        "KubeletPodResourcesDynamicResources",
        "NodeDeclaredFeatures",
        "ResourceHealthStatus",
        NODE_ALLOCATABLE,
        OPTIONAL_NODE_OPERATIONS,
    }
)
_ALIASES = {
    "BindingConditions": DEVICE_BINDING_CONDITIONS,
    "DeviceBinding": DEVICE_BINDING_CONDITIONS,
    "DeviceBindingAndStatus": DEVICE_BINDING_CONDITIONS,
    "CompatibilityGroups": COMPATIBILITY_GROUPS,
}

_ON_SINCE: dict[str, tuple[int, int]] = {
    DYNAMIC_RESOURCE_ALLOCATION: (1, 34),
    DEVICE_STATUS: (1, 33),
    ADMIN_ACCESS: (1, 34),
    PRIORITIZED_LIST: (1, 34),
    PARTITIONABLE_DEVICES: (1, 36),
    DEVICE_TAINTS: (1, 36),
    DEVICE_TAINT_RULES: (1, 37),
    CONSUMABLE_CAPACITY: (1, 36),
    DEVICE_BINDING_CONDITIONS: (1, 36),
    EXTENDED_RESOURCE: (1, 36),
    FRACTIONAL_CAPACITY_RANGE: (1, 38),
}
KNOWN = frozenset(
    {
        *_ON_SINCE,
        *_WITHOUT_EFFECT,
        LIST_TYPE_ATTRIBUTES,
        DERIVED_ATTRIBUTES,
        COMPATIBILITY_GROUPS,
    }
)
LATEST = "1.37"


class UnknownFeature(ValueError):
    """A gate or version that this package does not know."""


class Features(msgspec.Struct, frozen=True):
    """The set of gates that are on, and the version whose ungated habits apply; hashable, for memo keys."""

    gates: frozenset[str] = frozenset()
    version: tuple[int, int] = (1, 37)

    @classmethod
    def for_version(cls, version: str) -> "Features":
        """The defaults of a Kubernetes version such as "1.36" or "v1.36.2"; raises UnknownFeature."""
        parts = version.removeprefix("v").split(".")
        try:
            minor = (int(parts[0]), int(parts[1].rstrip("+")))
        except (ValueError, IndexError):
            raise UnknownFeature(f"{version!r} is not a Kubernetes version like 1.36") from None
        return cls(frozenset(gate for gate, since in _ON_SINCE.items() if minor >= since), minor)

    @classmethod
    def of(cls, gates: Iterable[str]) -> "Features":
        """Exactly these gates; the prefix DRA may be left out. Raises UnknownFeature."""
        return cls(frozenset(_known(gate) for gate in gates))

    @classmethod
    def parse(cls, text: str) -> "Features":
        """Gates from "A,B" or "A=true,B=false"; raises UnknownFeature."""
        on = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            gate, _, value = part.partition("=")
            _known(gate)
            if value.lower() in ("", "true"):
                on.append(gate)
            elif value.lower() != "false":
                raise UnknownFeature(f"{part!r}: a gate is true or false")
        return cls.of(on)

    def enabled(self, gate: str) -> bool:
        return gate in self.gates

    def with_gates(self, *on: str, off: Iterable[str] = ()) -> "Features":
        """A copy with some gates switched."""
        gates = (self.gates | {_known(gate) for gate in on}) - {_known(gate) for gate in off}
        return Features(gates, self.version)

    def at_least(self, major: int, minor: int) -> bool:
        """For the few habits of the scheduler that changed without a gate."""
        return self.version >= (major, minor)


def _known(gate: str) -> str:
    for name in (_ALIASES.get(gate, gate), f"DRA{gate}"):
        if name in KNOWN:
            return name
    near = difflib.get_close_matches(gate, KNOWN, n=1)
    raise UnknownFeature(f"unknown feature gate {gate!r}{f'; did you mean {near[0]}?' if near else ''}")
