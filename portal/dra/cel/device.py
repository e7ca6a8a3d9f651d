"""What a selector sees of a device, and what it says that it reads of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeVar

from portal.dra.quantity import Quantity
from portal.dra.semver import InvalidVersion, Semver

Scalar = str | int | bool | Semver
AttributeValue = Scalar | tuple[Scalar, ...]

Read = tuple[str, ...]
"""("driver",), ("allowMultipleAllocations",), ("attribute", domain, name) or ("capacity", domain, name); and
("attribute?", domain) or ("capacity?", domain) for whether there is anything of that domain."""

Value = TypeVar("Value")

EVERYTHING: Final = "everything"
Reads = frozenset[Read] | Literal["everything"]


class UnusableAttribute(ValueError):
    """An attribute whose value the API does not define (no value, or a version that is none)."""


def attribute_value(
    *,
    string: str | None = None,
    int_: int | None = None,
    bool_: bool | None = None,
    version: str | None = None,
    strings: Sequence[str] | None = None,
    ints: Sequence[int] | None = None,
    bools: Sequence[bool] | None = None,
    versions: Sequence[str] | None = None,
) -> AttributeValue:
    """The one value of a DeviceAttribute as CEL sees it; raises UnusableAttribute."""
    try:
        for scalar in (int_, bool_, string):
            if scalar is not None:
                return scalar
        if version is not None:
            return Semver.parse(version)
        for values in (ints, bools, strings):
            if values is not None:
                return tuple(values)
        if versions is not None:
            return tuple(Semver.parse(item) for item in versions)
    except InvalidVersion as error:
        raise UnusableAttribute(f"parse semantic version: {error}") from error
    raise UnusableAttribute("unsupported attribute value")


def qualified(name: str, driver: str) -> tuple[str, str]:
    """Domain and identifier of a name; a bare name belongs to the driver's domain."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


class DeviceView:
    """One device as a selector sees it.

    `attributes` and `capacities` are keyed as in the API ("model" or "dra.example.com/model"). `unusable` is
    the message of an attribute that has no usable value: such a device fails every selector with that error.
    """

    __slots__ = (
        "allow_multiple_allocations",
        "attributes",
        "capacities",
        "driver",
        "lists",
        "oversized",
        "unusable",
    )

    def __init__(
        self,
        *,
        driver: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        capacities: Mapping[str, Quantity] | None = None,
        allow_multiple_allocations: bool = False,
        unusable: str | None = None,
    ) -> None:
        self.driver = driver
        self.attributes: dict[str, dict[str, AttributeValue]] = _by_domain(attributes, driver)
        self.capacities: dict[str, dict[str, Quantity]] = _by_domain(capacities, driver)
        self.allow_multiple_allocations = allow_multiple_allocations
        self.unusable = unusable
        self.lists = next(
            (name for name, value in (attributes or {}).items() if isinstance(value, tuple)), None
        )
        """An attribute that is a list: without the gate for those, the device is unusable."""
        self.oversized = _oversized(attributes)
        """Whether a value is larger than the API admits, so that no assumption on costs holds."""


MAX_VALUE_LENGTH: Final = 64
"""Longest string and longest list that the API admits as an attribute."""


def _oversized(attributes: Mapping[str, AttributeValue] | None) -> bool:
    for value in (attributes or {}).values():
        if isinstance(value, str | tuple) and len(value) > MAX_VALUE_LENGTH:
            return True
        if isinstance(value, tuple) and any(
            isinstance(item, str) and len(item) > MAX_VALUE_LENGTH for item in value
        ):
            return True
    return False


def _by_domain(values: Mapping[str, Value] | None, driver: str) -> dict[str, dict[str, Value]]:
    domains: dict[str, dict[str, Value]] = {}
    for name, value in (values or {}).items():
        domain, identifier = qualified(name, driver)
        domains.setdefault(domain, {})[identifier] = value
    return domains
