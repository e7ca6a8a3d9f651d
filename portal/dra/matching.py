"""Which devices satisfy CEL selectors, evaluated once per distinct tuple of the values that an expression reads.

A hundred thousand devices are a few dozen kinds; an expression that reads only the model is evaluated a few
dozen times, whatever the size of the fleet.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache

import msgspec

from portal.dra import cel
from portal.dra.features import Features
from portal.dra.model import Device
from portal.dra.quantity import Quantity

_KEEP_EXPRESSIONS = 4096


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


class Matcher:
    """One expression over the devices of a fleet, with its memory of verdicts."""

    def __init__(self, expression: str, features: Features) -> None:
        self.expression = expression
        self.bad: BadExpression | None = None
        self._verdicts: dict[Hashable, Verdict] = {}
        self.key: Callable[[str, Device], Hashable] = _whole
        selector = compiled(expression, features)
        if isinstance(selector, BadExpression):
            self.bad = selector
        else:
            self._selector = selector
            self.key = _key_of(selector.reads)

    def verdict(self, driver: str, device: Device) -> Verdict:
        """Only to be asked when the expression is not `bad`."""
        key = self.key(driver, device)
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = self._evaluate(driver, device)
        return known

    def _evaluate(self, driver: str, device: Device) -> Verdict:
        try:
            return _YES if self._selector.evaluate(view(driver, device)) else _NO
        except cel.CelEvaluationError as error:
            return Verdict(matches=False, error=error.message)


def view(driver: str, device: Device) -> cel.DeviceView:
    """The device as CEL sees it."""
    attributes: dict[str, cel.AttributeValue] = {}
    unusable = None
    for name, attribute in device.attributes.items():
        try:
            attributes[name] = cel.attribute_value(
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
        attributes=attributes,
        capacities={name: Quantity.parse(str(item.value)) for name, item in device.capacity.items()},
        allow_multiple_allocations=bool(device.allow_multiple_allocations),
        unusable=unusable,
    )


def _whole(driver: str, device: Device) -> Hashable:
    return (
        driver,
        frozenset(device.attributes.items()),
        frozenset((name, capacity.value) for name, capacity in device.capacity.items()),
        device.allow_multiple_allocations,
    )


def _key_of(reads: cel.Reads) -> Callable[[str, Device], Hashable]:
    """What tells two devices apart for an expression with these reads; a bare name belongs to the driver's domain."""
    if not isinstance(reads, frozenset):
        return _whole
    attributes: list[tuple[str, str, str]] = []
    capacities: list[tuple[str, str, str]] = []
    for read in reads:
        if read in (("driver",), ("allowMultipleAllocations",)):
            continue
        if len(read) != 3 or read[0] not in ("attribute", "capacity"):
            return _whole
        target = attributes if read[0] == "attribute" else capacities
        target.append((read[1], read[2], f"{read[1]}/{read[2]}"))

    def key(driver: str, device: Device) -> Hashable:
        values: list[Hashable] = [driver, device.allow_multiple_allocations]
        known = device.attributes
        for domain, name, full in attributes:
            value = known.get(full)
            if value is None and domain == driver:
                value = known.get(name)
            values.append(value)
        for domain, name, full in capacities:
            capacity = device.capacity.get(full)
            if capacity is None and domain == driver:
                capacity = device.capacity.get(name)
            values.append(None if capacity is None else capacity.value)
        return tuple(values)

    return key
