"""From the checked tree to nested Python functions.

Each node becomes a function of one *frame*: a list with the device, the cost so far and local variables.
There are two builds of an expression. Without macros its cost is bounded by its length: nothing is counted.
With them, or for devices with values larger than the API admits, every step adds what Kubernetes charges.
"""

from __future__ import annotations

from typing import Any, Final

from portal.dra.cel import ast, steps
from portal.dra.cel.equality import contains
from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.frame import COST, DEVICE, FIRST_SLOT, MAX_COST, Frame, Run
from portal.dra.cel.library import Overload
from portal.dra.cel.library.standard import CONVERSIONS, list_index, map_index
from portal.dra.cel.loops import LOOPS, Failure, iterate
from portal.dra.cel.syntax import Source
from portal.dra.cel.values import (
    NONE,
    MapValue,
    OptionalValue,
    size_of,
)

_MAX_FOLDED: Final = 1000
"""Largest list or text that is computed when compiled: larger ones are not worth keeping."""

_SCALARS: Final = frozenset({"bool", "int", "uint", "string", "bytes", "double", "duration", "timestamp"})


def build(node: ast.Node, source: Source, *, counted: bool) -> tuple[Run, int]:
    """The function for a checked tree, and the length of the frame that it needs; raises CelCompileError."""
    builder = _Builder(source, counted=counted)
    return builder.build(node), builder.slots


class _Constant:
    """A function that always gives the same value, known when compiled."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, _frame: Frame) -> Any:
        return self.value


class _Folded(_Constant):
    """A constant of our own making: upstream computes it each time, so it is none to its rules."""

    __slots__ = ()


class _Builder:
    def __init__(self, source: Source, *, counted: bool) -> None:
        self.source = source
        self.counted = counted
        self.slots = FIRST_SLOT
        self.scopes: list[dict[str, tuple[int, bool]]] = []

    def build(self, node: ast.Node) -> Run:  # noqa: PLR0911 (one per kind of node)
        match node:
            case ast.Const():
                return _Constant(node.value)
            case ast.Ident():
                return self.charge(self.identifier(node), 1)
            case ast.Select():
                return self.select(node)
            case ast.Call():
                return self.call(node)
            case ast.ListLiteral():
                return self.list_literal(node)
            case ast.MapLiteral():
                return self.map_literal(node)
            case ast.Comprehension():
                return self.comprehension(node)
            case ast.Bind():
                return self.bind(node)
            case ast.OptionalMap():
                return self.optional_map(node)
        raise AssertionError(node)

    def charge(self, run: Run, cost: int) -> Run:
        """The function with a fixed cost added."""
        if not self.counted or cost == 0:
            return run

        def charged(frame: Frame) -> Any:
            spent = frame[COST] + cost
            frame[COST] = spent
            if spent > MAX_COST:
                raise CostExceeded
            return run(frame)

        return charged

    # --- names ----------------------------------------------------------------------------------------------

    def slot_of(self, name: str) -> tuple[int, bool] | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def build_in_scope(self, names: dict[str, tuple[int, bool]], node: ast.Node) -> Run:
        self.scopes.append(names)
        run = self.build(node)
        self.scopes.pop()
        return run

    def identifier(self, node: ast.Ident) -> Run:
        local = self.slot_of(node.name)
        if local is None:
            if node.name == "device":
                return lambda frame: frame[DEVICE]
            return _Constant(steps.type_value(node.type))
        slot, may_fail = local
        if not may_fail:
            return lambda frame: frame[slot]

        def read(frame: Frame) -> Any:
            value = frame[slot]
            if type(value) is Failure:
                raise value.error
            return value

        return read

    # --- selection ------------------------------------------------------------------------------------------

    def select(self, node: ast.Select) -> Run:
        if node.path is not None:
            return _Constant(steps.type_value(node.type))
        name = node.name
        if node.test:
            # As in Kubernetes, has() itself is free.
            return self.charge(steps.has(self.build(node.operand), name), 0)
        if node.optional:
            return self.charge(steps.select_optional(self.build(node.operand), name), 1)
        return self.device_value(node.operand, name) or self.charge(
            steps.select(self.build(node.operand), name), self.link_cost(node.operand)
        )

    def link_cost(self, operand: ast.Node) -> int:
        """One for the field; the result of a call is an attribute of its own, which costs one more."""
        if isinstance(operand, ast.Ident | ast.Select):
            return 1
        return 1 if isinstance(operand, ast.Call) and operand.function in ("_[_]", "_[?_]") else 2

    def device_value(self, domain_node: ast.Node, name: str) -> Run | None:
        """The short way to device.driver, device.attributes["d"] and device.attributes["d"].name."""
        if self.is_device(domain_node):
            return self.charge(lambda frame: frame[DEVICE].driver, 2) if name == "driver" else None
        part = self.device_part(domain_node)
        if part is not None:
            return self.charge(steps.domain(part, name), 3)
        domain = steps.constant_key(domain_node)
        if domain is None:
            return None
        owner, domain_name = domain
        part = self.device_part(owner)
        if part is None:
            return None
        make = steps.attribute if part == "attributes" else steps.capacity
        return self.charge(make(domain_name, name), 4)

    def device_part(self, node: ast.Node) -> str | None:
        """ "attributes" or "capacity" where the node is just that of the device."""
        if not isinstance(node, ast.Select) or node.test or node.optional:
            return None
        return node.name if node.name in ("attributes", "capacity") and self.is_device(node.operand) else None

    def is_device(self, node: ast.Node) -> bool:
        return isinstance(node, ast.Ident) and node.name == "device" and self.slot_of("device") is None

    def index(self, node: ast.Call) -> Run:
        container, key = node.args
        if isinstance(key, ast.Const) and type(key.value) is str:
            direct = self.device_value(container, key.value)
            if direct is not None:
                return direct
        get_container, get_key = self.build(container), self.build(key)
        static = container.type.kind
        if static == "list":
            return self.charge(lambda frame: list_index(get_container(frame), get_key(frame)), 1)
        if static == "map":
            return self.charge(lambda frame: map_index(get_container(frame), get_key(frame)), 1)
        return self.charge(lambda frame: steps.index_any(get_container(frame), get_key(frame)), 1)

    # --- calls ----------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Run:  # noqa: PLR0911 (one per way of evaluating)
        match node.function:
            case "_&&_" | "_||_":
                return steps.logical(
                    [self.build(argument) for argument in node.args], decisive=node.function == "_||_"
                )
            case "_?_:_":
                return steps.conditional(*(self.build(argument) for argument in node.args))
            case "_[_]":
                return self.index(node)
            case "_==_" | "_!=_":
                return self.equality(node)
            case "or" | "orValue" if node.target is not None and len(node.args) == 1:
                whole = node.function == "or"
                return self.charge(
                    steps.or_else(self.build(node.target), self.build(node.args[0]), whole=whole), 1
                )
            case "@in" if isinstance(node.args[1], ast.ListLiteral):
                return self.membership(node)
        arguments = [self.build(argument) for argument in node.operands]
        if node.function in CONVERSIONS and len(arguments) == 1 and type(arguments[0]) is _Constant:
            return self.convert(node, arguments[0])
        return self.plain_call(node, arguments)

    def convert(self, node: ast.Call, argument: _Constant) -> Run:
        """A conversion of a constant happens once; if that fails, upstream refuses the whole expression."""
        try:
            return _Constant(steps.dispatch(node.overloads)([argument.value]).run(argument.value))
        except CelEvaluationError as error:
            raise self.source.error(f"program instantiation failed: {error.message}", node.at) from error

    def plain_call(self, node: ast.Call, arguments: list[Run]) -> Run:
        overloads: list[Overload] = node.overloads
        if arguments and all(isinstance(argument, _Constant) for argument in arguments):
            folded = self.fold(steps.dispatch(overloads), [argument([]) for argument in arguments])
            if folded is not None:
                return folded
        settled = len(overloads) == 1 and all(
            wanted is None or not operand.type.is_dynamic
            for wanted, operand in zip(overloads[0].kinds, node.operands, strict=True)
        )
        if self.counted:
            return steps.counted_call(steps.dispatch(overloads), arguments)
        if settled:
            return steps.direct_call(overloads[0].run, arguments)
        return steps.dispatched_call(steps.dispatch(overloads), arguments)

    def fold(self, choose: steps.Dispatch, values: list[Any]) -> Run | None:
        """A call of constants, such as quantity("40Gi"), happens once; its errors and its cost remain."""
        try:
            overload = choose(values)
            result = overload.run(*values)
        except CelEvaluationError as error:
            return self.charge(steps.fail(error.message), 1)
        except (CostExceeded, TypeError, ValueError, AttributeError):
            return None
        if size_of(result) > _MAX_FOLDED:
            return None
        return self.charge(_Folded(result), 1 if overload.cost is None else overload.cost(values, result))

    def equality(self, node: ast.Call) -> Run:
        left, right = (self.build(argument) for argument in node.args)
        positive = node.function == "_==_"
        if self.counted:
            choose = steps.equality_counted(left, right, positive=positive)
        elif isinstance(right, _Constant) and type(right.value) is str:
            choose = steps.equals_text(left, right.value, positive=positive)
        elif all(argument.type.kind in _SCALARS for argument in node.args):
            choose = (
                (lambda frame: left(frame) == right(frame))
                if positive
                else (lambda frame: left(frame) != right(frame))
            )
        else:
            choose = steps.equality(left, right, positive=positive)
        return choose

    def membership(self, node: ast.Call) -> Run:
        """`value in [constants]` costs nothing, as upstream prepares a set for it."""
        value, items = (self.build(argument) for argument in node.args)
        if type(items) is not _Constant:
            return self.plain_call(node, [value, items])
        constants = items.value
        texts = frozenset(constants) if all(type(item) is str for item in constants) else None

        def run(frame: Frame) -> bool:
            given = value(frame)
            if texts is not None and type(given) is str:
                return given in texts
            return contains(constants, given)

        return run

    # --- literals -------------------------------------------------------------------------------------------

    def list_literal(self, node: ast.ListLiteral) -> Run:
        items = [self.build(item) for item in node.items]
        if not node.optional and all(type(item) is _Constant for item in items):
            return _Constant([item(()) for item in items])  # type: ignore[arg-type]  # constants read no frame
        if not node.optional:
            return self.charge(lambda frame: [item(frame) for item in items], 10)
        optional = [at in node.optional for at in range(len(items))]

        def run(frame: Frame) -> list[Any]:
            result = []
            for item, is_optional in zip(items, optional, strict=True):
                value = item(frame)
                if not is_optional:
                    result.append(value)
                elif steps.as_optional(value).present:
                    result.append(value.value)
            return result

        return self.charge(run, 10)

    def map_literal(self, node: ast.MapLiteral) -> Run:
        entries = [(self.build(key), self.build(value), optional) for key, value, optional in node.entries]

        def run(frame: Frame) -> MapValue:
            result = MapValue()
            for key, value, optional in entries:
                name, item = key(frame), value(frame)
                if not optional:
                    result.put(name, item)
                elif steps.as_optional(item).present:
                    result.put(name, item.value)
            return result

        if all(type(k) is _Constant and type(v) is _Constant and not o for k, v, o in entries):
            try:
                return _Constant(run([]))
            except CelEvaluationError as error:
                raise self.source.error(f"program instantiation failed: {error.message}", node.at) from error
        return self.charge(run, 30)

    # --- macros ---------------------------------------------------------------------------------------------

    def comprehension(self, node: ast.Comprehension) -> Run:
        get_range = self.build(node.range)
        slots = [self.new_slot() for _ in node.names]
        names = {name: (slot, False) for name, slot in zip(node.names, slots, strict=True)}
        guard = self.build_in_scope(names, node.guard) if node.guard is not None else None
        body = self.build_in_scope(names, node.body)
        pairs = len(slots) == 2
        return LOOPS[node.kind](lambda frame: iterate(get_range(frame), pairs=pairs), slots, guard, body)

    def bind(self, node: ast.Bind) -> Run:
        value = self.build(node.value)
        slot = self.new_slot()
        body = self.build_in_scope({node.name: (slot, True)}, node.body)

        def run(frame: Frame) -> Any:
            try:
                frame[slot] = value(frame)
            except CelEvaluationError as error:
                # An error counts only where the name is used.
                frame[slot] = Failure(error)
            return body(frame)

        return run

    def optional_map(self, node: ast.OptionalMap) -> Run:
        target = self.build(node.target)
        slot = self.new_slot()
        body = self.build_in_scope({node.name: (slot, False)}, node.body)
        flat = node.flat

        def run(frame: Frame) -> OptionalValue:
            optional = steps.as_optional(target(frame))
            if not optional.present:
                return NONE
            frame[slot] = optional.value
            result = body(frame)
            return steps.as_optional(result) if flat else OptionalValue(result)

        return self.charge(run, 3)
