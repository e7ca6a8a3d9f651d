"""Checks on literals that Kubernetes makes after type checking: patterns, times, formats, and mixed lists."""

from __future__ import annotations

from typing import Final

from portal.dra.cel import ast, types
from portal.dra.cel.errors import CelEvaluationError
from portal.dra.cel.library.formatting import clauses
from portal.dra.cel.library.standard import PATTERNS
from portal.dra.cel.library.times import parse_duration, parse_timestamp
from portal.dra.cel.syntax import Source
from portal.dra.cel.types import Type

_PARSERS: Final = {"duration": parse_duration, "timestamp": parse_timestamp}


def check_literals(root: ast.Node, source: Source) -> None:
    """Raises CelCompileError for the first literal at fault."""
    pending = [(root, False)]
    while pending:
        node, in_format = pending.pop()
        is_format = isinstance(node, ast.Call) and node.function == "format" and node.target is not None
        if isinstance(node, ast.Call):
            _check_call(node, source)
        elif isinstance(node, ast.ListLiteral) and not in_format:
            inner = [
                _unwrapped(item.type) if at in node.optional else item.type
                for at, item in enumerate(node.items)
            ]
            _check_alike(node.items, inner, source)
        elif isinstance(node, ast.MapLiteral) and not in_format:
            _check_alike(
                [key for key, _, _ in node.entries], [key.type for key, _, _ in node.entries], source
            )
            values = [value for _, value, _ in node.entries]
            _check_alike(
                values,
                [_unwrapped(value.type) if optional else value.type for _, value, optional in node.entries],
                source,
            )
        pending.extend((child, in_format or is_format) for child in ast.children(node))


def _unwrapped(type_: Type) -> Type:
    return types.unwrap_optional(type_)[0]


def _check_alike(nodes: list[ast.Node], found: list[Type], source: Source) -> None:
    for node, type_ in zip(nodes, found, strict=True):
        if type_ != found[0]:
            raise source.error(f"expected type '{found[0]}' but found '{type_}'", node.at)


def _check_call(node: ast.Call, source: Source) -> None:
    arguments = [argument.value if isinstance(argument, ast.Const) else None for argument in node.args]
    try:
        if node.function in _PARSERS and len(arguments) == 1 and isinstance(arguments[0], str):
            _PARSERS[node.function](arguments[0])
        elif node.function == "matches" and arguments and isinstance(arguments[-1], str):
            PATTERNS.get(arguments[-1])
        elif node.function == "format" and isinstance(node.target, ast.Const):
            _check_format(node.target.value, node.args)
    except CelEvaluationError as error:
        if node.function == "format":
            raise source.error(error.message, node.at) from error
        raise source.error(f"invalid {node.function} argument", node.args[-1].at) from error


_ALLOWED: Final = {
    "d": ("int", "uint"),
    "f": ("double", "int", "uint"),
    "e": ("double", "int", "uint"),
    "b": ("int", "uint", "bool"),
    "o": ("int", "uint"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
}


def _check_format(template: object, args: list[ast.Node]) -> None:
    if not isinstance(template, str) or len(args) != 1 or not isinstance(args[0], ast.ListLiteral):
        return
    items = args[0].items
    verbs = clauses(template)
    if len(verbs) > len(items):
        raise CelEvaluationError(f"index {len(items)} out of range")
    if len(verbs) < len(items):
        raise CelEvaluationError(
            f"too many arguments supplied to string.format (expected {len(verbs)}, got {len(items)})"
        )
    for verb, item in zip(verbs, items, strict=True):
        allowed = _ALLOWED.get(verb)
        if allowed and not item.type.is_dynamic and item.type.kind not in allowed:
            raise CelEvaluationError(f"%{verb} clause cannot format a value of type {item.type}")
