"""The operators and conversions of CEL itself."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import re2

from portal.dra.cel.equality import compare, contains, equal
from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.library.registry import (
    both_traversals,
    declare,
    product_of_traversals,
    regex_cost,
    shorter_traversal,
    traversal,
)
from portal.dra.cel.library.times import parse_duration, parse_timestamp, seconds_text, timestamp_text
from portal.dra.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NANOS,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    checked_int,
    checked_uint,
    double_text,
    map_contains,
    map_find,
    map_size,
    size_of,
    type_name,
)

# --- arithmetic ---------------------------------------------------------------------------------------------


def _divide(left: int, right: int) -> int:
    """Division that rounds towards zero."""
    if right == 0:
        raise CelEvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelEvaluationError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise CelEvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _divide_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise CelEvaluationError("division by zero")
    return Uint(left // right)


def _remainder_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise CelEvaluationError("modulus by zero")
    return Uint(left % right)


def _divide_double(left: float, right: float) -> float:
    if right == 0.0:
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def _between(left: Timestamp, right: Timestamp) -> Duration:
    return Duration(left.nanos - right.nanos)


_MAX_LIST: Final = 1_000_000


def _concatenate(left: Any, right: Any) -> list[Any]:
    """Adding lists costs one upstream, which does not copy them; we do, and charge from 100 elements on."""
    if len(left) + len(right) > _MAX_LIST:
        raise CostExceeded
    return [*left, *right]


declare("_+_(int, int) -> int", lambda a, b: checked_int(a + b))
declare("_+_(uint, uint) -> uint", lambda a, b: checked_uint(int(a) + int(b)))
declare("_+_(double, double) -> double", lambda a, b: a + b)
declare("_+_(string, string) -> string", lambda a, b: a + b, both_traversals)
declare("_+_(bytes, bytes) -> bytes", lambda a, b: a + b, both_traversals)
declare(
    "_+_(list<A>, list<A>) -> list<A>",
    _concatenate,
    lambda _, result: 1 + len(result) // 100,
)
declare("_+_(duration, duration) -> duration", lambda a, b: Duration(a.nanos + b.nanos))
declare("_+_(timestamp, duration) -> timestamp", lambda a, b: Timestamp(a.nanos + b.nanos))
declare("_+_(duration, timestamp) -> timestamp", lambda a, b: Timestamp(a.nanos + b.nanos))
declare("_-_(int, int) -> int", lambda a, b: checked_int(a - b))
declare("_-_(uint, uint) -> uint", lambda a, b: checked_uint(int(a) - int(b)))
declare("_-_(double, double) -> double", lambda a, b: a - b)
declare("_-_(duration, duration) -> duration", lambda a, b: Duration(a.nanos - b.nanos))
declare("_-_(timestamp, duration) -> timestamp", lambda a, b: Timestamp(a.nanos - b.nanos))
declare("_-_(timestamp, timestamp) -> duration", _between)
declare("_*_(int, int) -> int", lambda a, b: checked_int(a * b))
declare("_*_(uint, uint) -> uint", lambda a, b: checked_uint(int(a) * int(b)))
declare("_*_(double, double) -> double", lambda a, b: a * b)
declare("_/_(int, int) -> int", _divide)
declare("_/_(uint, uint) -> uint", _divide_uint)
declare("_/_(double, double) -> double", _divide_double)
declare("_%_(int, int) -> int", _remainder)
declare("_%_(uint, uint) -> uint", _remainder_uint)
declare("-_(int) -> int", lambda a: checked_int(-a))
declare("-_(double) -> double", lambda a: -a)
declare("!_(bool) -> bool", lambda a: not a)

# --- comparison ---------------------------------------------------------------------------------------------

declare("_==_(A, A) -> bool", equal, shorter_traversal)
declare("_!=_(A, A) -> bool", lambda a, b: not equal(a, b), shorter_traversal)

_PAIRS: Final = [
    *((kind, kind) for kind in ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")),
    *((a, b) for a in ("int", "uint", "double") for b in ("int", "uint", "double") if a != b),
]
_COMPARISONS: Final = {
    "_<_": lambda a, b: compare(a, b) == -1,
    "_<=_": lambda a, b: compare(a, b) in (-1, 0),
    "_>_": lambda a, b: compare(a, b) == 1,
    "_>=_": lambda a, b: compare(a, b) in (1, 0),
}
for _name, _run in _COMPARISONS.items():
    for _left, _right in _PAIRS:
        _cost = shorter_traversal if _left in ("string", "bytes") else None
        declare(f"{_name}({_left}, {_right}) -> bool", _run, _cost)

declare("@in(A, list<A>) -> bool", lambda a, b: contains(b, a), lambda args, _: size_of(args[1]))
declare("@in(A, map<A, B>) -> bool", lambda a, b: map_contains(b, a))

# --- logic: short-circuit, so that the evaluator has its own code for them ----------------------------------


def _never(*_args: Any) -> Any:
    raise AssertionError("evaluated by the evaluator itself")


declare("_&&_(bool, bool) -> bool", _never)
declare("_||_(bool, bool) -> bool", _never)
declare("_?_:_(bool, A, A) -> A", _never)

# --- access -------------------------------------------------------------------------------------------------


def list_index(items: Any, index: Any) -> Any:
    """The element at an index, which may be any whole number."""
    kind = type(index)
    if kind is float:
        if not index.is_integer():
            raise CelEvaluationError(f"unsupported index value: {double_text(index)}")
        index = int(index)
    elif kind is not int and kind is not Uint:
        raise CelEvaluationError("no such overload")
    if 0 <= index < len(items):
        return items[index]
    raise CelEvaluationError(f"index out of bounds: {int(index)}")


def key_text(key: Any) -> str:
    """A key as error messages show it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return double_text(key)
    return str(key) if isinstance(key, str | int) else type_name(key)


def map_index(value: Any, key: Any) -> Any:
    found, item = map_find(value, key)
    if not found:
        raise CelEvaluationError(f"no such key: {key_text(key)}")
    return item


declare("_[_](list<A>, int) -> A", list_index)
declare("_[_](map<A, B>, A) -> B", map_index)

# --- size and strings ---------------------------------------------------------------------------------------

for _kind in ("string", "bytes", "list<A>"):
    declare(f"size({_kind}) -> int", len)
    declare(f"{_kind}::size() -> int", len)
declare("size(map<A, B>) -> int", map_size)
declare("map<A, B>::size() -> int", map_size)


class _Patterns:
    """Compiled regular expressions, RE2 as upstream: linear time, whatever the pattern."""

    def __init__(self) -> None:
        self._options = re2.Options()
        self._options.log_errors = False
        self._options.max_mem = 8 << 20
        self._compiled: dict[str, Any] = {}

    def get(self, pattern: str) -> Any:
        known = self._compiled.get(pattern)
        if known is None:
            try:
                known = re2.compile(pattern, options=self._options)
            except (re2.error, UnicodeError) as error:
                raise CelEvaluationError(f"error parsing regexp: {_reason(error)}") from error
            if len(self._compiled) > 64:
                self._compiled.clear()
            self._compiled[pattern] = known
        return known


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else str(error)
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


PATTERNS: Final = _Patterns()


def matches(text: str, pattern: str) -> bool:
    return PATTERNS.get(pattern).search(text) is not None


declare("string::contains(string) -> bool", lambda a, b: b in a, product_of_traversals)
declare("string::startsWith(string) -> bool", lambda a, b: a.startswith(b), traversal())
declare("string::endsWith(string) -> bool", lambda a, b: a.endswith(b), traversal())
declare("string::matches(string) -> bool", matches, regex_cost)
declare("matches(string, string) -> bool", matches, regex_cost)

# --- conversions --------------------------------------------------------------------------------------------

_INT_TEXT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT_TEXT: Final = re.compile(r"[0-9]+", re.ASCII)
_DOUBLE_TEXT: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
_HEX_DOUBLE: Final = re.compile(
    r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+", re.ASCII | re.IGNORECASE
)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _int_from_text(text: str) -> int:
    if len(text) < 25 and _INT_TEXT.fullmatch(text) and MIN_INT <= int(text) <= MAX_INT:
        return int(text)
    raise CelEvaluationError(f'strconv.ParseInt: parsing "{text}": invalid syntax or out of range')


def _uint_from_text(text: str) -> Uint:
    if len(text) < 25 and _UINT_TEXT.fullmatch(text) and int(text) <= MAX_UINT:
        return Uint(int(text))
    raise CelEvaluationError(f'strconv.ParseUint: parsing "{text}": invalid syntax or out of range')


def _int_from_double(value: float) -> int:
    # The bounds themselves are no exact doubles: upstream excludes both.
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise CelEvaluationError("integer overflow")
    return int(value)


def _uint_from_double(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise CelEvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _double_from_text(text: str) -> float:
    if len(text) < 2000:
        if _DOUBLE_TEXT.fullmatch(text):
            value = float(text)
            if not math.isinf(value) or "inf" in text.lower():
                return value
        elif _HEX_DOUBLE.fullmatch(text):
            return float.fromhex(text)
    raise CelEvaluationError(f'strconv.ParseFloat: parsing "{text}": invalid syntax or out of range')


def _bool_from_text(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise CelEvaluationError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _text_from_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelEvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


declare("bool(bool) -> bool", lambda a: a)
declare("bool(string) -> bool", _bool_from_text)
declare("bytes(bytes) -> bytes", lambda a: a)
declare("bytes(string) -> bytes", lambda a: a.encode(), traversal())
declare("double(double) -> double", lambda a: a)
declare("double(int) -> double", float)
declare("double(uint) -> double", float)
declare("double(string) -> double", _double_from_text)
declare("duration(duration) -> duration", lambda a: a)
declare("duration(string) -> duration", parse_duration)
declare("dyn(A) -> dyn", lambda a: a)
declare("int(int) -> int", lambda a: a)
declare("int(uint) -> int", lambda a: checked_int(int(a)))
declare("int(double) -> int", _int_from_double)
declare("int(string) -> int", _int_from_text)
declare("int(timestamp) -> int", lambda a: a.nanos // NANOS)
declare("string(string) -> string", lambda a: a)
declare("string(bool) -> string", lambda a: "true" if a else "false")
declare("string(bytes) -> string", _text_from_bytes, traversal())
declare("string(double) -> string", double_text)
declare("string(int) -> string", str)
declare("string(uint) -> string", lambda a: str(int(a)))
declare("string(duration) -> string", lambda a: seconds_text(a.nanos))
declare("string(timestamp) -> string", lambda a: timestamp_text(a.nanos))
declare("timestamp(timestamp) -> timestamp", lambda a: a)
declare("timestamp(string) -> timestamp", parse_timestamp)
declare("timestamp(int) -> timestamp", lambda a: Timestamp(a * NANOS))
declare("type(A) -> type<A>", lambda a: TypeValue(type_name(a)))
declare("uint(uint) -> uint", lambda a: a)
declare("uint(int) -> uint", checked_uint)
declare("uint(double) -> uint", _uint_from_double)
declare("uint(string) -> uint", _uint_from_text)

CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
"""Functions whose call on a constant is computed when compiled: an error in it is a compile error."""
