"""Selectors: compiled CEL expressions over one device."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Container, Hashable
from typing import Any, Final, TypeVar

from portal.dra.cel import ast
from portal.dra.cel.checker import check
from portal.dra.cel.device import EVERYTHING, DeviceView, Reads
from portal.dra.cel.environment import CONSUMABLE_CAPACITY, LIST_ATTRIBUTES, Environment
from portal.dra.cel.equality import reset_work
from portal.dra.cel.errors import CelCompileError, CelEvaluationError, CostExceeded
from portal.dra.cel.estimate import estimate
from portal.dra.cel.frame import MAX_COST, Run
from portal.dra.cel.literals import check_literals
from portal.dra.cel.parser import parse
from portal.dra.cel.program import build
from portal.dra.cel.reads import find_reads, key_getter, whole_key
from portal.dra.cel.syntax import MAX_LENGTH, Source
from portal.dra.cel.types import TypeTooLarge
from portal.dra.cel.values import (
    type_name,
)

Result = TypeVar("Result")

_SHORT: Final = 2000
"""Up to this length, nothing without macros can reach the cost limit on a device that the API admits."""


class Selector:
    """A compiled expression. Immutable, safe to share between threads."""

    __slots__ = (
        "_build_counted",
        "_counted",
        "_deep",
        "_getters",
        "_lists",
        "_run",
        "_slots",
        "expression",
        "reads",
        "result_type",
    )

    def __init__(self, expression: str, tree: ast.Node, source: Source, *, lists: bool, deep: bool) -> None:
        self.expression = expression
        self.reads: Reads = find_reads(tree)
        self.result_type = str(tree.type)
        self._lists = lists
        self._deep = deep
        self._getters = [] if self.reads == EVERYTHING else [key_getter(read) for read in sorted(self.reads)]
        counted = len(expression) > _SHORT or _can_take_long(tree)
        self._run, self._slots = build(tree, source, counted=counted)
        self._build_counted = None if counted else functools.partial(build, tree, source, counted=True)
        self._counted: tuple[Run, int] | None = (self._run, self._slots) if counted else None

    def evaluate(self, device: DeviceView) -> bool:
        """Whether the device matches; raises CelEvaluationError."""
        if device.unusable is not None or (device.lists is not None and not self._lists):
            raise self._unusable(device)
        if self._counted is not None or device.oversized or self._deep:
            return self._evaluate_counted(device)[0]
        frame = [device, 0, *(None,) * (self._slots - 2)]
        reset_work()
        try:
            result = self._run(frame)
        except (
            CelEvaluationError,
            CostExceeded,
            RecursionError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:
            raise _as_evaluation_error(error) from None
        if type(result) is bool:
            return result
        raise _no_bool(result)

    @staticmethod
    def _unusable(device: DeviceView) -> CelEvaluationError:
        return CelEvaluationError(device.unusable or f"attribute {device.lists}: unsupported attribute value")

    def cost(self, device: DeviceView) -> int:
        """What evaluating costs for this device, as Kubernetes counts it; raises as `evaluate`."""
        self.evaluate(device)
        return self._evaluate_counted(device)[1]

    def _evaluate_counted(self, device: DeviceView) -> tuple[bool, int]:
        if self._counted is None:
            self._counted = (
                self._with_room(self._build_counted) if self._build_counted else (self._run, self._slots)
            )
        run, slots = self._counted
        frame: list[Any] = [device, 0, *(None,) * (slots - 2)]
        reset_work()
        try:
            result = self._with_room(functools.partial(run, frame))
        except (
            CelEvaluationError,
            CostExceeded,
            RecursionError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:
            raise _as_evaluation_error(error) from None
        if type(result) is bool:
            return result, frame[1]
        raise _no_bool(result)

    def _with_room(self, call: Callable[[], Result]) -> Result:
        return _deeply(call) if self._deep else call()

    def memo_key(self, device: DeviceView) -> Hashable:
        """The values that the expression reads, with types: devices with the same key get the same answer."""
        usable = (device.unusable, None if self._lists else device.lists)
        if self.reads == EVERYTHING:
            return (usable, whole_key(device))
        return (usable, *[getter(device) for getter in self._getters])

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"


def _as_evaluation_error(error: Exception) -> CelEvaluationError:
    if isinstance(error, CelEvaluationError):
        return error
    if isinstance(error, CostExceeded):
        return CelEvaluationError(CostExceeded.MESSAGE)
    if isinstance(error, RecursionError):
        return CelEvaluationError("values nest too deeply")
    # A value of another type inside of a list or map than its static type promised, by way of dyn().
    return CelEvaluationError("no such overload")


def _no_bool(result: object) -> CelEvaluationError:
    return CelEvaluationError(f"CEL result of type {type_name(result)} could not be converted to bool")


_NUMBERS: Final = frozenset({"int", "uint", "double", "duration", "timestamp"})
_GROWING: Final = frozenset(
    [
        "replace",
        "join",
        "format",
        "split",
        "findAll",
        "lists.range",
        "flatten",
        "slice",
        "sort",
        "reverse",
        "distinct",
        "@sortByAssociatedKeys",
        "strings.quote",
        "sets.contains",
        "sets.equivalent",
        "sets.intersects",
    ]
)


def _can_take_long(root: ast.Node) -> bool:
    """Whether the cost is more than what the length of the expression bounds."""
    pending: list[ast.Node] = [root]
    named = joined = False
    while pending:
        node = pending.pop()
        pending.extend(ast.children(node))
        match node:
            case ast.Comprehension() | ast.OptionalMap():
                return True
            case ast.Bind():
                # A name for what the device has may be used often, but each use adds to the length.
                named = True
                if not _is_plain_read(node.value):
                    return True
            case ast.Call():
                joined = joined or (node.function == "_+_" and node.type.kind not in _NUMBERS)
                if node.function in _GROWING:
                    return True
    return named and joined


def _is_plain_read(node: ast.Node) -> bool:
    while isinstance(node, ast.Select):
        node = node.operand
        if isinstance(node, ast.Call) and node.function == "_[_]" and isinstance(node.args[1], ast.Const):
            node = node.args[0]
    return isinstance(node, ast.Ident) or (
        isinstance(node, ast.Call) and node.function == "_[_]" and _is_plain_read(node.args[0])
    )


# --- depth --------------------------------------------------------------------------------------------------

_DEEP_STACK: Final = 20_000
_stack_lock: Final = threading.Lock()


def _deeply(call: Callable[[], Result]) -> Result:
    """Run with room for the deepest expression that the grammar's limit admits.

    Python functions calling each other use no C stack; only the counter of the interpreter stands in the way.
    """
    with _stack_lock:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _DEEP_STACK))
        try:
            return call()
        finally:
            sys.setrecursionlimit(before)


def _compile(expression: str, features: Container[str], *, new: bool, deep: bool) -> Selector:
    reset_work()
    source = Source(expression)
    tree = parse(source)
    environment = Environment.of(features, new=new)
    check(tree, source, environment)
    check_literals(tree, source)
    return Selector(expression, tree, source, lists=environment.list_attributes or not new, deep=deep)


def compile_selector(
    expression: str, *, features: Container[str] = frozenset(), enforce_estimate: bool = False
) -> Selector:
    """Compile an expression; raises CelCompileError.

    `features` are the names of the gates that are on. Without `enforce_estimate` it compiles as the scheduler
    does, which knows `includes`, lists and `allowMultipleAllocations` whatever the gates say, so that it
    understands stored objects. With it, as the API server validates new objects: the gates decide what may be
    named, and what could cost more than `MAX_COST` at worst is refused.
    """
    gates = frozenset(gate for gate in (CONSUMABLE_CAPACITY, LIST_ATTRIBUTES) if gate in features)
    found = _compile_once(expression, gates, new=enforce_estimate)
    if isinstance(found, CelCompileError):
        raise CelCompileError(found.message, found.line, found.column)
    if enforce_estimate:
        enforce(found, gates)
    return found


def enforce(selector: Selector, gates: frozenset[str]) -> None:
    """Refuse a selector whose estimated maximum is above the limit."""
    cost = estimated_cost(selector.expression, gates)
    if cost > MAX_COST:
        raise CelCompileError("too complex, exceeds cost limit")


@functools.lru_cache(maxsize=1024)
def estimated_cost(expression: str, gates: frozenset[str]) -> int:
    """The most that evaluating the expression may cost, by Kubernetes' estimate; raises CelCompileError."""
    source = Source(expression)

    def run() -> int:
        tree = parse(source)
        check(tree, source, Environment.of(gates, new=True))
        return estimate(tree)

    return _deeply(run)


def _compile_once(expression: str, gates: frozenset[str], *, new: bool) -> Selector | CelCompileError:
    """Errors are remembered too: a bad selector is tried for every node. Long ones take too much room."""
    if len(expression) > _SHORT:
        return _compile_safely(expression, gates, new=new)
    return _compile_short(expression, gates, new=new)


@functools.lru_cache(maxsize=1024)
def _compile_short(expression: str, gates: frozenset[str], *, new: bool) -> Selector | CelCompileError:
    return _compile_safely(expression, gates, new=new)


def _compile_safely(expression: str, gates: frozenset[str], *, new: bool) -> Selector | CelCompileError:
    if len(expression.encode("utf-8", "replace")) > MAX_LENGTH:
        return CelCompileError(f"must not be longer than {MAX_LENGTH} bytes")
    try:
        try:
            return _compile(expression, gates, new=new, deep=False)
        except RecursionError:
            return _deeply(lambda: _compile(expression, gates, new=new, deep=True))
    except CelCompileError as error:
        return error
    except TypeTooLarge:
        return CelCompileError("the types of this expression are too complex")
    except RecursionError:
        return CelCompileError("expression recursion limit exceeded")
