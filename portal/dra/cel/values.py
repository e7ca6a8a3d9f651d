"""CEL's values in Python, their equality and their order.

int, double, string, bytes, bool and null are Python's own (a bool is never an int here: every test is on the
exact type); lists are Python lists or tuples, never changed once made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from portal.dra.cel.device import DeviceView
from portal.dra.cel.errors import CelEvaluationError
from portal.dra.quantity import Quantity
from portal.dra.semver import Semver

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1
NANOS: Final = 10**9
MAX_TIMESTAMP: Final = 253402300799 * NANOS + 999_999_999
MIN_TIMESTAMP: Final = -62135596800 * NANOS

NO_SUCH_OVERLOAD: Final = "no such overload"


class Uint(int):
    """A CEL uint."""

    __slots__ = ()


class Duration:
    """A span of time in nanoseconds, within 64 bits."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not MIN_INT <= nanos <= MAX_INT:
            raise CelEvaluationError("integer overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))


class Timestamp:
    """A moment in nanoseconds since 1970, between the years 1 and 9999."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not MIN_TIMESTAMP <= nanos <= MAX_TIMESTAMP:
            raise CelEvaluationError("timestamp overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))


class TypeValue:
    """A type as a value: what type(x) gives, and what `int` means as an expression."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("type", self.name))


class OptionalValue:
    """A value or none."""

    __slots__ = ("present", "value")

    def __init__(self, value: object = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE: Final = OptionalValue(present=False)


def map_key(key: Any) -> object:
    """What a key is filed under: 1, 1u and 1.0 are one key, true is another."""
    if type(key) is bool:
        return (bool, key)
    if isinstance(key, float) and not key.is_integer():
        return (float, key)
    if isinstance(key, list | tuple | MapValue):
        raise CelEvaluationError("unsupported key type")
    return key


class MapValue:
    """A map; never changed once it is handed out."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[object, tuple[Any, Any]] = {}

    def put(self, key: object, value: object) -> None:
        self.entries[map_key(key)] = (key, value)

    def find(self, key: object, default: Any = None) -> Any:
        """The (key, value) pair, or the default."""
        try:
            return self.entries.get(map_key(key), default)
        except (CelEvaluationError, TypeError):
            return default

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.entries.values())

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.entries.values())


class DomainMap:
    """device.attributes or device.capacity: a lookup finds an empty map for any domain, `in` does not."""

    __slots__ = ("domains",)

    def __init__(self, domains: dict[str, dict[str, Any]]) -> None:
        self.domains = domains

    def __len__(self) -> int:
        return len(self.domains)


# One kind per Python type. A plain dict is the inner map of a device: string keys only.
KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    tuple: "list",
    MapValue: "map",
    dict: "map",
    DomainMap: "map",
    DeviceView: "map",
    Duration: "duration",
    Timestamp: "timestamp",
    TypeValue: "type",
    OptionalValue: "abstract:optional_type",
    Quantity: "object:kubernetes.Quantity",
    Semver: "object:kubernetes.Semver",
}
NUMBERS: Final = frozenset({int, Uint, float})
_TYPE_NAMES: Final = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}
# Kubernetes' own types call a comparison with anything else an error rather than false.
STRICT: Final[set[type]] = {Quantity, Semver}


def register(python_type: type, kind: str) -> None:
    """Make a library's own value type known; such types are equal only to their own kind."""
    KINDS[python_type] = kind
    STRICT.add(python_type)


def kind_of(value: object) -> str:
    return KINDS.get(type(value), "unknown")


def type_name(value: object) -> str:
    """The name that type(value) shows."""
    kind = kind_of(value)
    return _TYPE_NAMES.get(kind, kind.rpartition(":")[2])


def is_zero(value: Any) -> bool:
    """Whether optional.ofNonZeroValue drops it."""
    kind = kind_of(value)
    if kind in ("list", "map"):
        return map_size(value) == 0 if kind == "map" else len(value) == 0
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.nanos == MIN_TIMESTAMP
    if isinstance(value, OptionalValue):
        return not value.present or is_zero(value.value)
    return kind in ("bool", "int", "uint", "double", "string", "bytes", "null") and not value


# --- maps of all sorts --------------------------------------------------------------------------------------

_DEVICE_FIELDS: Final = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_MISSING: Final = object()


def device_field(view: DeviceView, name: str) -> Any:
    match name:
        case "driver":
            return view.driver
        case "attributes":
            return DomainMap(view.attributes)
        case "capacity":
            return DomainMap(view.capacities)
        case "allowMultipleAllocations":
            return view.allow_multiple_allocations
        case _:
            return _MISSING


def map_find(value: Any, key: Any) -> tuple[bool, Any]:
    """Whether a lookup finds the key, and what it finds."""
    if type(value) is MapValue:
        pair = value.find(key)
        return (False, None) if pair is None else (True, pair[1])
    if type(key) is not str:
        return False, None
    if type(value) is dict:
        return (True, value[key]) if key in value else (False, None)
    if type(value) is DomainMap:
        return True, value.domains.get(key) or {}
    found = device_field(value, key)
    return (False, None) if found is _MISSING else (True, found)


def map_contains(value: Any, key: Any) -> bool:
    """`key in map`: unlike a lookup, it knows only the domains that there are."""
    if type(value) is DomainMap:
        return type(key) is str and key in value.domains
    return map_find(value, key)[0]


def map_pairs(value: Any) -> list[tuple[Any, Any]]:
    if type(value) is MapValue:
        return list(value.pairs())
    if type(value) is DomainMap:
        return list(value.domains.items())
    if type(value) is dict:
        return list(value.items())
    return [(name, device_field(value, name)) for name in _DEVICE_FIELDS]


def map_size(value: Any) -> int:
    return len(_DEVICE_FIELDS) if type(value) is DeviceView else len(value)


def checked_int(value: int) -> int:
    if MIN_INT <= value <= MAX_INT:
        return value
    raise CelEvaluationError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise CelEvaluationError("unsigned integer overflow")


def size_of(value: Any) -> int:
    """The size that costs are counted by: length of what has one, else 1."""
    value_type = type(value)
    if value_type in (str, bytes, list, tuple):
        return len(value)
    if KINDS.get(value_type) == "map":
        return map_size(value)
    size: Callable[[], int] | None = getattr(value, "cost_size", None)
    return size() if size is not None else 1


def double_text(value: float) -> str:
    """A double as Go writes it: shortest digits, exponent form outside of 1e-4 … 1e6."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    mantissa, _, exponent_text = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0") if fraction != "0" or whole == "0" else whole
    if not digits.strip("0"):
        return sign + "0"
    shift = int(exponent_text or 0)
    leading = whole + fraction
    exponent = len(whole) - 1 + shift - (len(leading) - len(leading.lstrip("0")))
    if -4 <= exponent < 6:
        return _plain_decimal(sign, exponent, leading.strip("0"))
    core = leading.strip("0")
    return f"{sign}{core[0]}{'.' + core[1:] if len(core) > 1 else ''}e{exponent:+03d}"


def _plain_decimal(sign: str, exponent: int, core: str) -> str:
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{core}"
    if len(core) <= exponent + 1:
        return sign + core + "0" * (exponent + 1 - len(core))
    return f"{sign}{core[: exponent + 1]}.{core[exponent + 1 :]}"
