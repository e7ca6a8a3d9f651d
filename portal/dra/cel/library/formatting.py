"""string.format(list) and strings.quote(string)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from portal.dra.cel.equality import spend
from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.library.times import seconds_text, timestamp_text
from portal.dra.cel.values import (
    double_text,
    kind_of,
    map_pairs,
    map_size,
)

_CLAUSE: Final = re.compile(r"%(?:(?P<percent>%)|(?P<precision>\.[0-9]*)?(?P<verb>.?))", re.DOTALL)
_QUOTED: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_MAX_PRECISION: Final = 1000
_MAX_TEXT: Final = 10_000_000


def quote(text: str) -> str:
    """The text in double quotes, control characters escaped."""
    return '"' + "".join(_QUOTED.get(character, character) for character in text) + '"'


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return double_text(value)


def _text(value: Any, *, nested: bool = False) -> str:  # noqa: PLR0911 (one per kind of value)
    """What %s makes of a value."""
    match kind_of(value):
        case "string":
            return quote(value) if nested else str(value)
        case "bool":
            return "true" if value else "false"
        case "int" | "uint":
            return str(int(value))
        case "double":
            return _fixed(value, 6) if nested else double_text(value)
        case "null":
            return "null"
        case "bytes":
            text = value.decode("utf-8", "replace")
            return f"b{quote(text)}" if nested else text
        case "duration":
            text = seconds_text(value.nanos)
            return f'duration("{text}")' if nested else text
        case "timestamp":
            text = timestamp_text(value.nanos)
            return f'timestamp("{text}")' if nested else text
        case "type":
            return str(value.name)
        case "list":
            spend(10 + len(value))
            return "[" + ", ".join(_text(item, nested=True) for item in value) + "]"
        case "map":
            return _map_text(value)
        case _:
            raise CelEvaluationError(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
                "durations, and timestamps"
            )


def _map_text(value: Any) -> str:
    entries = []
    spend(20 + 2 * map_size(value))
    for key, item in map_pairs(value):
        if kind_of(key) not in ("string", "bool", "int", "uint"):
            raise CelEvaluationError("no formatting function for the key of a map")
        entries.append(f"{_text(key, nested=True)}:{_text(item, nested=True)}")
    return "{" + ", ".join(sorted(entries)) + "}"


def _whole(value: Any, _precision: int) -> str:
    if kind_of(value) not in ("int", "uint"):
        raise CelEvaluationError(f"decimal clause can only be used on integers, was given {_name(value)}")
    return str(int(value))


def _name(value: Any) -> str:
    return kind_of(value).rpartition(":")[2]


def _number(value: Any, what: str) -> float:
    kind = kind_of(value)
    if kind == "string" and value in ("NaN", "Infinity", "-Infinity"):
        return float(value.replace("Infinity", "inf"))
    if kind not in ("int", "uint", "double"):
        raise CelEvaluationError(f"{what} clause can only be used on doubles, was given {_name(value)}")
    return float(value)


def _fixed(value: Any, precision: int) -> str:
    number = _number(value, "fixed-point")
    return f"{number:.{precision}f}" if math.isfinite(number) else _double(number)


def _scientific(value: Any, precision: int) -> str:
    number = _number(value, "scientific")
    return f"{number:.{precision}e}" if math.isfinite(number) else _double(number)


def _binary(value: Any, _precision: int) -> str:
    if kind_of(value) not in ("int", "uint", "bool"):
        raise CelEvaluationError(
            f"only integers and bools can be formatted as binary, was given {_name(value)}"
        )
    return format(int(value), "b")


def _octal(value: Any, _precision: int) -> str:
    if kind_of(value) not in ("int", "uint"):
        raise CelEvaluationError(f"octal clause can only be used on integers, was given {_name(value)}")
    return format(int(value), "o")


def _hexadecimal(value: Any, _precision: int) -> str:
    match kind_of(value):
        case "int" | "uint":
            return format(int(value), "x")
        case "string":
            return str(value).encode().hex()
        case "bytes":
            return bytes(value).hex()
        case _:
            raise CelEvaluationError(
                "only integers, byte buffers, and strings can be formatted as hex, was given " + _name(value)
            )


_VERBS: Final[dict[str, Callable[[Any, int], str]]] = {
    "s": lambda value, _: _text(value),
    "d": _whole,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
}


def clauses(template: str) -> list[str]:
    """The verbs of a format, in order; raises CelEvaluationError for one that there is not."""
    found = []
    for match in _CLAUSE.finditer(template):
        if match["percent"]:
            continue
        if match["verb"] not in _VERBS or not match["verb"]:
            raise CelEvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{match["verb"]}"'
            )
        precision = match["precision"]
        if precision and (precision == "." or len(precision) > 5 or int(precision[1:]) > _MAX_PRECISION):
            raise CelEvaluationError("could not parse formatting clause: error while parsing precision")
        found.append(match["verb"])
    return found


def format_text(template: str, args: Sequence[Any]) -> str:
    """`template.format(args)`."""
    verbs = clauses(template)
    if len(verbs) > len(args):
        raise CelEvaluationError(f"index {len(args)} out of range")
    if len(verbs) < len(args):
        raise CelEvaluationError(
            f"too many arguments supplied to string.format (expected {len(verbs)}, got {len(args)})"
        )
    remaining = iter(args)
    length = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal length
        if match["percent"]:
            return "%"
        precision = int(match["precision"][1:]) if match["precision"] else 6
        text = _VERBS[match["verb"]](next(remaining), min(precision, _MAX_PRECISION))
        length += len(text)
        if length > _MAX_TEXT:
            raise CostExceeded
        return text

    return _CLAUSE.sub(fill, template)
