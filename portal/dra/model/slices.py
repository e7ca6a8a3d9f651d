"""What drivers publish: ResourceSlices with devices, counters and taints, and rules that taint devices."""

from typing import Any, Literal

from msgspec import field

from portal.dra.model.base import Base, NodeSelector, ObjectMeta, settle_quantity

Scalar = str | int | bool


class DeviceAttribute(Base, frozen=True, kw_only=True):
    """Exactly one field is set; the plural ones hang on the gate DRAListTypeAttributes."""

    string_value: str | None = field(name="string", default=None)
    int_value: int | None = field(name="int", default=None)
    bool_value: bool | None = field(name="bool", default=None)
    version_value: str | None = field(name="version", default=None)
    string_values: tuple[str, ...] | None = field(name="strings", default=None)
    int_values: tuple[int, ...] | None = field(name="ints", default=None)
    bool_values: tuple[bool, ...] | None = field(name="bools", default=None)
    version_values: tuple[str, ...] | None = field(name="versions", default=None)

    @property
    def kind(self) -> Literal["string", "int", "bool", "version", ""]:
        """The type of the value or of the list's members; empty for an attribute without a value."""
        if self.string_value is not None or self.string_values is not None:
            return "string"
        if self.int_value is not None or self.int_values is not None:
            return "int"
        if self.bool_value is not None or self.bool_values is not None:
            return "bool"
        if self.version_value is not None or self.version_values is not None:
            return "version"
        return ""

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, tuple)

    @property
    def value(self) -> Scalar | tuple[Scalar, ...] | None:
        """The value itself; together with `kind` it identifies what CEL and constraints see."""
        for value in (
            self.string_value,
            self.int_value,
            self.bool_value,
            self.version_value,
            self.string_values,
            self.int_values,
            self.bool_values,
            self.version_values,
        ):
            if value is not None:
                return value
        return None


class CapacityRequestPolicyRange(Base, frozen=True, kw_only=True):
    min: str | int | float = "0"
    max: str | int | float | None = None
    step: str | int | float | None = None

    def __post_init__(self) -> None:
        settle_quantity(self, "min", "max", "step")


class CapacityRequestPolicy(Base, frozen=True, kw_only=True):
    default: str | int | float | None = None
    valid_values: tuple[str | int | float, ...] | None = None
    valid_range: CapacityRequestPolicyRange | None = None

    def __post_init__(self) -> None:
        settle_quantity(self, "default")


class DeviceCapacity(Base, frozen=True, kw_only=True):
    value: str | int | float
    request_policy: CapacityRequestPolicy | None = None

    def __post_init__(self) -> None:
        settle_quantity(self, "value")


class Counter(Base, frozen=True, kw_only=True):
    value: str | int | float

    def __post_init__(self) -> None:
        settle_quantity(self, "value")


class CounterSet(Base, frozen=True, kw_only=True):
    name: str
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(Base, frozen=True, kw_only=True):
    counter_set: str
    counters: dict[str, Counter] = field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(Base, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Device(Base, frozen=True, kw_only=True):
    name: str
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, Any] = field(default_factory=dict)


class ResourcePool(Base, frozen=True, kw_only=True):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Base, frozen=True, kw_only=True):
    driver: str
    pool: ResourcePool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    partition_type_attribute: str | None = None


class ResourceSlice(Base, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec


class DeviceTaintSelector(Base, frozen=True, kw_only=True):
    """Every field that is set must match; an empty selector matches all devices, a missing one none."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.device_class_name is not None or self.selectors:
            # Left out, they would taint devices that the rule does not mean.
            raise ValueError("deviceClassName and selectors went with v1alpha3 and are not supported")


class DeviceTaintRuleSpec(Base, frozen=True, kw_only=True):
    taint: DeviceTaint
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRule(Base, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec
