"""Which values of a device an expression reads, as far as its text tells."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from portal.dra.cel import ast
from portal.dra.cel.device import EVERYTHING, DeviceView, Read, Reads
from portal.dra.quantity import Quantity

_FIELDS: Final = {"attributes": "attribute", "capacity": "capacity"}

# What a name or expression stands for: the device, one of its two maps, or the map of one domain.
_Symbol = tuple[str, ...]
_DEVICE: Final[_Symbol] = ("device",)


class _Unknown(Exception):
    """The expression uses the device in a way that the text alone does not resolve."""


def find_reads(node: ast.Node) -> Reads:
    """What the checked tree reads, or "everything"."""
    reads: set[Read] = set()
    try:
        _visit(node, {"device": _DEVICE}, reads)
    except _Unknown:
        return EVERYTHING
    return frozenset(reads)


def _visit(node: ast.Node, names: dict[str, _Symbol], reads: set[Read]) -> None:
    """Collect the reads of an expression whose value may be anything but a part of the device itself."""
    if _part(node, names, reads) is not None:
        raise _Unknown


def _part(  # noqa: C901, PLR0912 (one branch per kind of node)
    node: ast.Node, names: dict[str, _Symbol], reads: set[Read]
) -> _Symbol | None:
    """The part of the device that the expression is, if it is one; its reads are collected on the way."""
    match node:
        case ast.Const():
            return None
        case ast.Ident():
            return names.get(node.name)
        case ast.Select():
            return (
                None
                if node.path
                else _field(node.operand, node.name, names, reads, leaf=node.test or node.optional)
            )
        case ast.Bind():
            part = _part(node.value, names, reads)
            inner = {name: symbol for name, symbol in names.items() if name != node.name}
            return _part(node.body, inner if part is None else {**inner, node.name: part}, reads)
        case ast.Call():
            return _call(node, names, reads)
        case ast.ListLiteral():
            for item in node.items:
                _visit(item, names, reads)
        case ast.MapLiteral():
            for key, value, _ in node.entries:
                _visit(key, names, reads)
                _visit(value, names, reads)
        case ast.Comprehension():
            _visit(node.range, names, reads)
            inner = {name: symbol for name, symbol in names.items() if name not in node.names}
            for part_node in (node.guard, node.body):
                if part_node is not None:
                    _visit(part_node, inner, reads)
        case ast.OptionalMap():
            _visit(node.target, names, reads)
            _visit(node.body, {name: symbol for name, symbol in names.items() if name != node.name}, reads)
    return None


def _call(node: ast.Call, names: dict[str, _Symbol], reads: set[Read]) -> _Symbol | None:
    if node.function in ("_[_]", "_[?_]"):
        container, key = node.args
        if isinstance(key, ast.Const) and type(key.value) is str:
            return _field(container, key.value, names, reads, leaf=node.function == "_[?_]")
    if node.function == "@in":
        key, container = node.args
        part = _part(container, names, reads)
        if part is not None:
            if not (isinstance(key, ast.Const) and type(key.value) is str):
                raise _Unknown
            reads.add(
                (f"{part[0]}?", key.value) if len(part) == 1 and part[0] != "device" else (*part, key.value)
            )
            return None
        _visit(key, names, reads)
        return None
    for operand in node.operands:
        _visit(operand, names, reads)
    return None


def _field(
    owner: ast.Node, name: str, names: dict[str, _Symbol], reads: set[Read], *, leaf: bool
) -> _Symbol | None:
    """owner.name: a part of the device where it still is one, else a read."""
    part = _part(owner, names, reads)
    if part is None:
        return None
    if part == _DEVICE:
        if name in _FIELDS:
            if leaf:
                raise _Unknown
            return (_FIELDS[name],)
        reads.add((name,))
        return None
    if len(part) == 1:
        # A lookup finds every domain, so that has() and .? tell nothing, but they hand the map on.
        if leaf:
            raise _Unknown
        return (*part, name)
    reads.add((*part, name))
    return None


# --- keys ---------------------------------------------------------------------------------------------------

_Getter = Callable[[DeviceView], Hashable]


def _typed(value: Any) -> Hashable:
    """The value with its type: True, 1 and 1.0 are one key in Python, but not in CEL."""
    if isinstance(value, Quantity):
        return value.identity
    if isinstance(value, tuple):
        return tuple((type(item), item) for item in value)
    return (type(value), value)


def key_getter(read: Read) -> _Getter:
    """The function that takes from a device what a read stands for."""
    match read:
        case ("driver",):
            return lambda view: view.driver
        case ("allowMultipleAllocations",):
            return lambda view: view.allow_multiple_allocations
        case ("attribute?", domain):
            return lambda view: domain in view.attributes
        case ("capacity?", domain):
            return lambda view: domain in view.capacities
        case ("attribute", domain, name):
            return lambda view: _typed(view.attributes.get(domain, {}).get(name))
        case ("capacity", domain, name):
            return lambda view: _typed(view.capacities.get(domain, {}).get(name))
    raise ValueError(f"not a read: {read}")


def whole_key(view: DeviceView) -> Hashable:
    """All that a selector can see of a device."""
    return (
        view.driver,
        view.allow_multiple_allocations,
        *(
            frozenset(
                (domain, name, _typed(value))
                for domain, values in part.items()
                for name, value in values.items()
            )
            for part in (view.attributes, view.capacities)
        ),
    )
