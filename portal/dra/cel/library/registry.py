"""The functions of the environment: their overloads, how to compute them, and what Kubernetes charges."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from portal.dra.cel import types
from portal.dra.cel.types import Type
from portal.dra.cel.values import size_of

Implementation = Callable[..., Any]
Cost = Callable[[Sequence[Any], Any], int]

TRAVERSAL: Final = 0.1
"""Cost of looking at one character."""
REGEX_LENGTH: Final = 0.25
"""Cost of one character of a regular expression, per character looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function. `kinds` are the kinds of value that it takes (None: any)."""

    function: str
    member: bool
    params: tuple[Type, ...]
    result: Type
    run: Implementation
    cost: Cost | None
    kinds: tuple[str | None, ...]

    def takes(self, kinds: Sequence[str]) -> bool:
        return len(kinds) == len(self.kinds) and all(
            wanted is None or wanted == kind for wanted, kind in zip(self.kinds, kinds, strict=True)
        )


FUNCTIONS: Final[dict[str, list[Overload]]] = {}

_NAMES: Final = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null": types.NULL,
    "dyn": types.DYN,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "Quantity": types.QUANTITY,
    "Semver": types.SEMVER,
    "URL": types.URL,
    "IP": types.IP,
    "CIDR": types.CIDR,
    "Format": types.FORMAT,
}
_GENERIC: Final[dict[str, Callable[..., Type]]] = {
    "list": types.list_of,
    "map": types.map_of,
    "optional": types.optional_of,
    "type": types.type_of,
}
_SIGNATURE: Final = re.compile(
    r"(?:(?P<receiver>[\w<>, ]+)::)?(?P<name>[\w.@?\[\]!<>=+*/%&|:-]+)\((?P<params>.*)\) -> (?P<result>.+)"
)


def read_type(text: str) -> Type:
    """A type as signatures write it: `list<A>`, `map<string, int>`, `optional<A>`."""
    text = text.strip()
    head, bracket, rest = text.partition("<")
    if bracket:
        return _GENERIC[head](*map(read_type, split_types(rest[:-1])))
    return types.parameter(text) if text in ("A", "B") else _NAMES[text]


def split_types(text: str) -> list[str]:
    """Split at the commas that no angle bracket encloses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() else []


def _kind(type_: Type) -> str | None:
    if type_.kind in ("param", "dyn"):
        return None
    return f"{type_.kind}:{type_.name}" if type_.kind in ("object", "abstract") else type_.kind


def declare(signature: str, run: Implementation, cost: Cost | None = None) -> None:
    """Add an overload, such as `string::split(string) -> list<string>` or `quantity(string) -> Quantity`."""
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise ValueError(f"not a signature: {signature}")
    params = [read_type(text) for text in split_types(match["params"])]
    if match["receiver"]:
        params.insert(0, read_type(match["receiver"]))
    overload = Overload(
        function=match["name"],
        member=match["receiver"] is not None,
        params=tuple(params),
        result=read_type(match["result"]),
        run=run,
        cost=cost,
        kinds=tuple(map(_kind, params)),
    )
    FUNCTIONS.setdefault(match["name"], []).append(overload)


# --- what things cost ---------------------------------------------------------------------------------------


def traversal(factor: float = 1.0, argument: int = 0) -> Cost:
    """One pass over an argument, times a factor."""

    def cost(args: Sequence[Any], _result: Any) -> int:
        return math.ceil(size_of(args[argument]) * factor * TRAVERSAL)

    return cost


def both_traversals(args: Sequence[Any], _result: Any) -> int:
    return math.ceil((size_of(args[0]) + size_of(args[1])) * TRAVERSAL)


def shorter_traversal(args: Sequence[Any], _result: Any) -> int:
    return math.ceil(min(size_of(args[0]), size_of(args[1])) * TRAVERSAL)


def product_of_traversals(args: Sequence[Any], _result: Any) -> int:
    return math.ceil(size_of(args[0]) * TRAVERSAL) * math.ceil(size_of(args[1]) * TRAVERSAL)


def regex_cost(args: Sequence[Any], _result: Any) -> int:
    return math.ceil((1 + size_of(args[0])) * TRAVERSAL) * math.ceil(size_of(args[1]) * REGEX_LENGTH)


def list_traversal(args: Sequence[Any], _result: Any) -> int:
    """One step per element; texts cost by their length, and very short ones nothing."""
    items = args[0]
    if not isinstance(items, list | tuple):
        return int(size_of(items) * TRAVERSAL)
    return sum(int(len(item) * TRAVERSAL) if isinstance(item, str | bytes) else 1 for item in items)


def result_size(factor: float = 1.0, base: int = 0) -> Cost:
    def cost(_args: Sequence[Any], result: Any) -> int:
        return base + math.ceil(size_of(result) * factor)

    return cost


def product_of_sizes(args: Sequence[Any], _result: Any) -> int:
    return size_of(args[0]) * size_of(args[1])
