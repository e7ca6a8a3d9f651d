"""Which devices satisfy CEL selectors, evaluated once per distinct tuple of the values that an expression
reads.

A hundred thousand devices are a few dozen kinds; an expression that reads only the model is evaluated a few
dozen times, whatever the size of the fleet.
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from portal.dra import cel
from portal.dra.features import Features
from portal.dra.model import Device, DeviceAttribute, DeviceCapacity
from portal.dra.semver import InvalidVersion, Semver
from portal.dra.units import quantity

_KEEP_EXPRESSIONS = 4096

Value = TypeVar("Value")


class Verdict(msgspec.Struct, frozen=True):
    """What a selector says about a device: `error` is CEL's message where it has no answer."""

    matches: bool
    error: str = ""


_YES = Verdict(matches=True)
_NO = Verdict(matches=False)


class BadExpression(msgspec.Struct, frozen=True):
    """An expression that does not compile."""

    message: str
    line: int
    column: int


@lru_cache(maxsize=_KEEP_EXPRESSIONS)
def compiled(expression: str, features: Features) -> cel.Selector | BadExpression:
    """The compiled selector, shared by all fleets of the process."""
    try:
        return cel.compile_selector(expression, features=features.gates)
    except cel.CelCompileError as error:
        return BadExpression(message=error.message, line=error.line, column=error.column)


@lru_cache(maxsize=65536)
def is_semver(text: str) -> bool:
    """Whether the text is a semantic version 2.0.0."""
    try:
        Semver.parse(text)
    except InvalidVersion:
        return False
    return True


class Matcher:
    """One expression over the devices of a fleet, with its memory of verdicts.

    `odd` says that the fleet has devices with attributes that CEL cannot take (see `is_odd`): those fail
    every expression, whatever it reads, so that has to be part of what tells devices apart.
    """

    def __init__(self, expression: str, features: Features, *, odd: bool = False) -> None:
        self.expression = expression
        self.bad: BadExpression | None = None
        self._verdicts: dict[Hashable, Verdict] = {}
        self._reads = _Reads.unknown()
        self._odd = odd
        selector = compiled(expression, features)
        if isinstance(selector, BadExpression):
            self.bad = selector
        else:
            self._selector = selector
            self._reads = _Reads.of(selector.reads)

    def key(self, driver: str, device: Device) -> Hashable:
        """Devices with the same key get the same verdict."""
        key = self._reads.key(driver, device)
        return (key, is_odd(device)) if self._odd else key

    def verdict(self, driver: str, device: Device) -> Verdict:
        """Only to be asked when the expression is not `bad`."""
        key = self._reads.key(driver, device) if not self._odd else self.key(driver, device)
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = self._evaluate(driver, device)
        return known

    def _evaluate(self, driver: str, device: Device) -> Verdict:
        attributes: Mapping[str, DeviceAttribute] = device.attributes
        capacities: Mapping[str, DeviceCapacity] = device.capacity
        if not self._odd:
            attributes, capacities = self._reads.read_of(driver, device)
        try:
            return _YES if self._selector.evaluate(view(driver, device, attributes, capacities)) else _NO
        except cel.CelEvaluationError as error:
            return Verdict(matches=False, error=error.message)


def view(
    driver: str,
    device: Device,
    attributes: Mapping[str, DeviceAttribute],
    capacities: Mapping[str, DeviceCapacity],
) -> cel.DeviceView:
    """The device as CEL sees it, with these of its attributes and capacities."""
    values: dict[str, cel.AttributeValue] = {}
    unusable = None
    for name, attribute in attributes.items():
        try:
            values[name] = cel.attribute_value(
                string=attribute.string_value,
                int_=attribute.int_value,
                bool_=attribute.bool_value,
                version=attribute.version_value,
                strings=attribute.string_values,
                ints=attribute.int_values,
                bools=attribute.bool_values,
                versions=attribute.version_values,
            )
        except cel.UnusableAttribute as error:
            unusable = f"attribute {name}: {error}"
    return cel.DeviceView(
        driver=driver,
        attributes=values,
        capacities={name: quantity(item.value) for name, item in capacities.items()},
        allow_multiple_allocations=bool(device.allow_multiple_allocations),
        unusable=unusable,
    )


def is_odd(device: Device) -> bool:
    """Whether CEL cannot take an attribute of the device: no value, or no version."""
    for attribute in device.attributes.values():
        if attribute.string_value is not None or attribute.int_value is not None:
            continue
        if attribute.version_value is not None:
            if not is_semver(attribute.version_value):
                return True
        elif attribute.bool_value is None and not _good_list(attribute):
            return True
    return False


def _good_list(attribute: DeviceAttribute) -> bool:
    value = attribute.value
    return isinstance(value, tuple) and all(is_semver(item) for item in attribute.version_values or ())


class _Reads:
    """The attributes and capacities that an expression reads, or all of them."""

    def __init__(
        self,
        attributes: tuple[tuple[str, str, str], ...],
        capacities: tuple[tuple[str, str, str], ...],
        *,
        known: bool,
    ) -> None:
        self._attributes = attributes
        self._capacities = capacities
        self._known = known

    @classmethod
    def unknown(cls) -> "_Reads":
        return cls((), (), known=False)

    @classmethod
    def of(cls, reads: cel.Reads) -> "_Reads":
        if not isinstance(reads, frozenset):
            return cls.unknown()
        found: dict[str, list[tuple[str, str, str]]] = {"attribute": [], "capacity": []}
        for read in sorted(reads):
            if read in (("driver",), ("allowMultipleAllocations",)):
                continue
            if len(read) != 3 or read[0] not in found:
                return cls.unknown()
            found[read[0]].append((read[1], read[2], f"{read[1]}/{read[2]}"))
        return cls(tuple(found["attribute"]), tuple(found["capacity"]), known=True)

    def key(self, driver: str, device: Device) -> Hashable:
        """What tells two devices apart; a bare name belongs to the driver's domain."""
        if not self._known:
            return (
                driver,
                frozenset(device.attributes.items()),
                frozenset((name, capacity.value) for name, capacity in device.capacity.items()),
                device.allow_multiple_allocations,
            )
        values: list[Hashable] = [driver, device.allow_multiple_allocations]
        attributes = device.attributes
        for domain, name, full in self._attributes:
            value = attributes.get(full)
            if value is None and domain == driver:
                value = attributes.get(name)
            values.append(value)
        for domain, name, full in self._capacities:
            capacity = device.capacity.get(full)
            if capacity is None and domain == driver:
                capacity = device.capacity.get(name)
            values.append(None if capacity is None else capacity.value)
        return tuple(values)

    def read_of(
        self, driver: str, device: Device
    ) -> tuple[Mapping[str, DeviceAttribute], Mapping[str, DeviceCapacity]]:
        """Those attributes and capacities of the device that the expression can see."""
        if not self._known:
            return device.attributes, device.capacity
        return (
            _only(driver, device.attributes, self._attributes),
            _only(driver, device.capacity, self._capacities),
        )


def _only(
    driver: str, values: Mapping[str, Value], wanted: tuple[tuple[str, str, str], ...]
) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for domain, name, full in wanted:
        if full in values:
            found[full] = values[full]
        elif domain == driver and name in values:
            found[name] = values[name]
    return found
