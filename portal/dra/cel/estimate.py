"""The most that an expression may cost: Kubernetes' estimate, on which the API server decides.

Costs and sizes are pairs (least, most). Where nothing bounds a size, the most is `UNKNOWN`.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from portal.dra.cel import ast, types
from portal.dra.cel.library import Overload
from portal.dra.cel.library.registry import REGEX_LENGTH, TRAVERSAL
from portal.dra.cel.types import Type

UNKNOWN: Final = 2**64 - 1

_MAX_ATTRIBUTES: Final = 32
_MAX_VALUES: Final = 48
"""Most attribute values, those in lists included, that a device may have."""
_SIZES: Final = {"value": 64, "domain": 63, "identifier": 32, "driver": 63}
"""Longest string attribute, domain, identifier and driver name that the API admits."""


class Span(NamedTuple):
    """Least and most."""

    least: int
    most: int

    def plus(self, other: Span) -> Span:
        return Span(min(self.least + other.least, UNKNOWN), min(self.most + other.most, UNKNOWN))

    def times(self, other: Span) -> Span:
        return Span(min(self.least * other.least, UNKNOWN), min(self.most * other.most, UNKNOWN))

    def scaled(self, factor: float) -> Span:
        return Span(_scale(self.least, factor), _scale(self.most, factor))

    def union(self, other: Span) -> Span:
        return Span(min(self.least, other.least), max(self.most, other.most))


def _scale(value: int, factor: float) -> int:
    return UNKNOWN if value == UNKNOWN else min(math.ceil(value * factor), UNKNOWN)


FREE: Final = Span(0, 0)
ONE: Final = Span(1, 1)
_ANY_SIZE: Final = Span(0, UNKNOWN)

_Path = tuple[str, ...]


def estimate(tree: ast.Node) -> int:
    """The most that evaluating the checked tree costs."""
    return _Estimator().cost(tree).most


class _Estimator:
    def __init__(self) -> None:
        self.paths: dict[int, _Path] = {}
        self.sizes: dict[int, Span] = {}
        self.scopes: list[dict[str, tuple[_Path, Span | None]]] = []

    # --- costs ----------------------------------------------------------------------------------------------

    def cost(self, node: ast.Node) -> Span:  # noqa: PLR0911 (one per kind of node)
        match node:
            case ast.Const():
                return FREE
            case ast.Ident():
                self.note_name(node)
                return ONE
            case ast.Select():
                return self.select(node)
            case ast.Call():
                return self.call(node)
            case ast.ListLiteral():
                return self.total(node.items).plus(Span(10, 10))
            case ast.MapLiteral():
                return self.total([part for key, value, _ in node.entries for part in (key, value)]).plus(
                    Span(30, 30)
                )
            case ast.Comprehension():
                return self.comprehension(node)
            case ast.Bind():
                return self.bind(node)
            case ast.OptionalMap():
                return self.optional_map(node)
        raise AssertionError(node)

    def total(self, nodes: list[ast.Node]) -> Span:
        cost = FREE
        for node in nodes:
            cost = cost.plus(self.cost(node))
        return cost

    def note_name(self, node: ast.Ident) -> None:
        for scope in reversed(self.scopes):
            if node.name in scope:
                path, size = scope[node.name]
                self.paths[id(node)] = path
                if size is not None:
                    self.sizes[id(node)] = size
                return
        self.paths[id(node)] = (node.name,)

    def select(self, node: ast.Select) -> Span:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        path = self.paths.get(id(node.operand), ())
        self.paths[id(node)] = (*path, node.name) if path else ()
        return (
            cost.plus(ONE) if node.operand.type.kind in ("map", "object", "dyn", "any", "abstract") else cost
        )

    def call(self, node: ast.Call) -> Span:
        costs = [self.cost(operand) for operand in node.operands]
        match node.function:
            case "_&&_" | "_||_":
                most = FREE
                for cost in costs:
                    most = most.plus(cost)
                return Span(costs[0].least, most.most)
            case "_?_:_":
                self.sizes[id(node)] = self.size(node.args[1]).union(self.size(node.args[2]))
                return costs[0].plus(costs[1].union(costs[2]))
        arguments = FREE
        for cost in costs:
            arguments = arguments.plus(cost)
        if node.function == "_[_]":
            path = self.paths.get(id(node.args[0]), ())
            if path:
                step = "@items" if node.args[0].type.kind == "list" else "@values"
                self.paths[id(node)] = (*path, step)
        own: Span | None = None
        for overload in node.overloads:
            found = self.function(node, overload)
            own = found if own is None else own.union(found)
        return arguments.plus(own if own is not None else ONE)

    def function(self, node: ast.Call, overload: Overload) -> Span:  # noqa: PLR0911 (one per way of counting)
        operands = node.operands
        name = overload.function
        size = [self.size(operand) for operand in operands]
        kind = overload.kinds[0] if overload.kinds else None
        match name:
            case "startsWith" | "endsWith":
                return size[1].scaled(TRAVERSAL)
            case "matches" | "find" | "findAll":
                if name != "matches":
                    self.sizes[id(node)] = Span(0, size[0].most)
                return size[0].plus(ONE).scaled(TRAVERSAL).times(size[1].scaled(REGEX_LENGTH))
            case "contains":
                return size[0].scaled(TRAVERSAL).times(size[1].scaled(TRAVERSAL))
            case "@in" if kind is None and overload.kinds[1] == "list":
                return size[1]
            case "_+_" if kind in ("string", "bytes", "list"):
                result = size[0].plus(size[1])
                self.sizes[id(node)] = result
                return ONE if kind == "list" else result.scaled(TRAVERSAL)
            case "_==_" | "_!=_":
                return self.equality(node, size)
            case "_<_" | "_<=_" | "_>_" | "_>=_" if kind in ("string", "bytes"):
                return _shorter(size)
            case "bytes" if kind == "string":
                self.sizes[id(node)] = Span(size[0].least, min(size[0].most * 4, UNKNOWN))
                return size[0].scaled(TRAVERSAL)
            case "string" if kind == "bytes":
                return size[0].scaled(TRAVERSAL)
        return self.library(node, name, size)

    def equality(self, node: ast.Call, size: list[Span]) -> Span:
        if all(operand.type in (types.QUANTITY, types.SEMVER) for operand in node.args):
            return ONE
        return _shorter(size)

    def library(self, node: ast.Call, name: str, size: list[Span]) -> Span:  # noqa: C901, PLR0911, PLR0912 (a table)
        match name:
            case "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf":
                return self.list_traversal(node.operands[0], size[0])
            case "lowerAscii" | "upperAscii" | "substring" | "trim":
                self.sizes[id(node)] = size[0]
                return size[0].scaled(TRAVERSAL)
            case "replace":
                self.sizes[id(node)] = _replaced(size)
                return size[0].scaled(2 * TRAVERSAL)
            case "split":
                self.sizes[id(node)] = Span(0, size[0].most)
                return size[0].scaled(2 * TRAVERSAL)
            case "join":
                return self.join(node, size)
            case (
                "quantity"
                | "isQuantity"
                | "semver"
                | "isSemver"
                | "url"
                | "isURL"
                | "ip"
                | "isIP"
                | "cidr"
                | "isCIDR"
            ):
                return size[0].scaled(TRAVERSAL) if size and node.operands[0].type.kind != "object" else ONE
            case "format" | "strings.quote":
                return size[0].scaled(TRAVERSAL)
            case "ip.isCanonical":
                return size[0].scaled(2 * TRAVERSAL)
            case "containsIP" | "containsCIDR":
                return Span(1, 4).plus(
                    size[1].scaled(TRAVERSAL) if node.args[0].type.kind == "string" else FREE
                )
            case "validate":
                return size[1].scaled(TRAVERSAL)
            case "includes":
                return Span(1, _MAX_VALUES)
            case (
                "lists.range"
                | "slice"
                | "flatten"
                | "reverse"
                | "distinct"
                | "sort"
                | "@sortByAssociatedKeys"
            ):
                return self.list_extension(node, name, size)
            case "sets.contains" | "sets.equivalent" | "sets.intersects":
                product = size[0].times(size[1])
                return product.plus(product) if name == "sets.equivalent" else product
        return ONE

    def list_extension(self, node: ast.Call, name: str, size: list[Span]) -> Span:
        ten = Span(10, 10)
        if name == "lists.range":
            argument = node.args[0]
            bound = (
                argument.value
                if isinstance(argument, ast.Const) and isinstance(argument.value, int)
                else UNKNOWN
            )
            size = [Span(0, max(bound, 0))]
        if name != "flatten":
            self.sizes[id(node)] = Span(0, size[0].most)
        squared = name in ("distinct", "sort", "@sortByAssociatedKeys")
        return (size[0].times(size[0]) if squared else size[0]).plus(ten)

    def list_traversal(self, operand: ast.Node, size: Span) -> Span:
        if operand.type.kind != "list":
            return size.scaled(TRAVERSAL)
        item = operand.type.params[0]
        each = ONE
        if item.kind in ("string", "bytes"):
            path = self.paths.get(id(operand), ())
            known = _size_at((*path, "@items")) if path else None
            each = each.plus((known or _ANY_SIZE).scaled(TRAVERSAL))
        return size.times(each)

    def join(self, node: ast.Call, size: list[Span]) -> Span:
        path = self.paths.get(id(node.operands[0]), ())
        item = (_size_at((*path, "@items")) if path else None) or _ANY_SIZE
        result = size[0].times(item)
        if len(size) > 1:
            between = Span(max(size[0].least - 1, 0), max(size[0].most - 1, 0))
            result = result.plus(size[1].times(between))
        self.sizes[id(node)] = result
        return result.scaled(TRAVERSAL)

    # --- macros ---------------------------------------------------------------------------------------------

    def comprehension(self, node: ast.Comprehension) -> Span:
        cost = self.cost(node.range)
        count = self.size(node.range)
        path = self.paths.get(id(node.range), ())
        steps: tuple[str, ...] = ("@items",) if node.range.type.kind == "list" else ("@keys",)
        if len(node.names) == 2:
            steps = ("@index", "@items") if node.range.type.kind == "list" else ("@keys", "@values")
        self.scopes.append(
            {
                name: ((*path, step) if path else (), None)
                for name, step in zip(node.names, steps, strict=True)
            }
        )
        guard = self.cost(node.guard) if node.guard is not None else None
        body = self.cost(node.body)
        self.scopes.pop()
        before, step, after = _STEPS[node.kind]
        each = _each(node.kind, step, body, guard)
        if node.type.kind in ("list", "map"):
            self.sizes[id(node)] = Span(0, count.most)
        return cost.plus(before).plus(count.times(each)).plus(after)

    def bind(self, node: ast.Bind) -> Span:
        cost = self.cost(node.value)
        self.scopes.append({node.name: (self.paths.get(id(node.value), ()), self.sizes.get(id(node.value)))})
        body = self.cost(node.body)
        self.scopes.pop()
        self.sizes[id(node)] = self.size(node.body)
        return cost.plus(body).plus(Span(10, 10))

    def optional_map(self, node: ast.OptionalMap) -> Span:
        target = self.cost(node.target)
        self.scopes.append({node.name: ((), None)})
        body = self.cost(node.body)
        self.scopes.pop()
        has_value = target.plus(ONE)
        value = target.plus(ONE).plus(Span(10, 10)).plus(body).plus(FREE if node.flat else ONE)
        return has_value.plus(value.union(ONE))

    # --- sizes ----------------------------------------------------------------------------------------------

    def size(self, node: ast.Node) -> Span:
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        match node:
            case ast.Const():
                length = len(node.value) if isinstance(node.value, str | bytes) else 1
                return Span(length, length)
            case ast.ListLiteral():
                return Span(len(node.items), len(node.items))
            case ast.MapLiteral():
                return Span(len(node.entries), len(node.entries))
        path = self.paths.get(id(node), ())
        found = _size_at(path) if path else None
        if found is not None:
            return found
        return ONE if _is_scalar(node.type) else _ANY_SIZE


_STEPS: Final[dict[str, tuple[Span, Span, Span]]] = {
    # What the macro costs before, per step besides its parts, and after.
    "all": (FREE, Span(3, 3), ONE),
    "exists": (FREE, Span(4, 4), ONE),
    "exists_one": (FREE, Span(1, 2), Span(2, 2)),
    "filter": (Span(10, 10), Span(1, 13), ONE),
    "map": (Span(10, 10), Span(12, 12), ONE),
    "transformList": (Span(10, 10), Span(12, 12), ONE),
    "transformMap": (Span(30, 30), Span(3, 3), ONE),
    "transformMapEntry": (Span(30, 30), Span(2, 2), ONE),
}


def _each(kind: str, step: Span, body: Span, guard: Span | None) -> Span:
    if kind in ("all", "exists"):
        return Span(step.least, step.plus(body).most)
    return step.plus(body) if guard is None else guard.plus(step.plus(body).union(ONE))


def _shorter(size: list[Span]) -> Span:
    most = min(size[0].most, size[1].most)
    return Span(1 if most > 0 else 0, most).scaled(TRAVERSAL)


def _replaced(size: list[Span]) -> Span:
    """The size of text.replace(old, new), from the sizes of the three."""
    text, old, new = size[:3]
    if old.least == 0:
        most = Span(0, min(text.most + 1, UNKNOWN)).times(new).plus(text).most
    elif new.most <= old.least:
        most = text.most
    else:
        most = Span(0, UNKNOWN if text.most == UNKNOWN else -(-text.most // old.least)).times(new).most
    return Span(0, most)


def _is_scalar(type_: Type) -> bool:
    inner, _ = types.unwrap_optional(type_)
    return inner.kind in ("bool", "int", "uint", "double", "duration", "timestamp", "type")


def _size_at(path: _Path) -> Span | None:  # noqa: PLR0911 (one per place)
    """The most that the API admits at a path below `device`; None where it is not known."""
    match path:
        case ("device",):
            return Span(0, 4)
        case ("device", "driver"):
            return Span(0, _SIZES["driver"])
        case ("device", "attributes" | "capacity") | ("device", "attributes" | "capacity", "@values"):
            return Span(0, _MAX_ATTRIBUTES)
        case ("device", "attributes" | "capacity", "@keys"):
            return Span(0, _SIZES["domain"])
        case ("device", "attributes" | "capacity", "@values", "@keys"):
            return Span(0, _SIZES["identifier"])
        case ("device", "attributes", "@values", _):
            return Span(0, _SIZES["value"])
    return None
