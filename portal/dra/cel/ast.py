"""The expression tree. The checker writes a type, and the resolved function, onto its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from portal.dra.cel.types import Type


@dataclass(slots=True, eq=False)
class Node:
    """An expression that starts (or whose operator stands) at offset `at`."""

    at: int
    type: Type = field(init=False, repr=False)


@dataclass(slots=True, eq=False)
class Const(Node):
    value: object


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.name`; with `test` the has() of it, with `optional` the `operand.?name`."""

    operand: Node
    name: str
    test: bool = False
    optional: bool = False
    path: str | None = None
    """Set by the checker where the whole is a qualified name, such as that of a type."""


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function; operators have names such as `_+_`. `&&` and `||` have two arguments or more."""

    function: str
    target: Node | None
    args: list[Node]
    overloads: list[Any] = field(default_factory=list)

    @property
    def operands(self) -> list[Node]:
        """Receiver, if any, and arguments."""
        return [self.target, *self.args] if self.target is not None else self.args


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    items: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    entries: list[tuple[Node, Node, bool]]


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """all, exists, exists_one, map, filter and their two-variable relatives.

    `guard` is the condition of map(x, guard, body); `kind` tells what is made of the bodies.
    """

    kind: str
    range: Node
    names: tuple[str, ...]
    guard: Node | None
    body: Node


@dataclass(slots=True, eq=False)
class Bind(Node):
    """cel.bind(name, value, body); evaluates the value once, when it is first used."""

    name: str
    value: Node
    body: Node


@dataclass(slots=True, eq=False)
class OptionalMap(Node):
    """target.optMap(name, body), or optFlatMap."""

    target: Node
    name: str
    body: Node
    flat: bool


def children(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            yield from node.operands
        case ListLiteral():
            yield from node.items
        case MapLiteral():
            for key, value, _ in node.entries:
                yield key
                yield value
        case Comprehension():
            yield node.range
            if node.guard is not None:
                yield node.guard
            yield node.body
        case Bind():
            yield node.value
            yield node.body
        case OptionalMap():
            yield node.target
            yield node.body
