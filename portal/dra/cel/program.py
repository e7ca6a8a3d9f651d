"""From the checked tree to nested Python functions.

Each node becomes a function of one *frame*: a list with the device, the cost so far and local variables.
There are two builds of an expression. Without macros its cost is bounded by its length: nothing is counted.
With them, or for devices with values larger than the API admits, every step adds what Kubernetes charges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from portal.dra.cel import ast
from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.library import Overload
from portal.dra.cel.library.optionals import optional_index
from portal.dra.cel.library.standard import CONVERSIONS, key_text, list_index, map_index
from portal.dra.cel.loops import LOOPS, Failure, Frame, Run, iterate
from portal.dra.cel.syntax import Source
from portal.dra.cel.types import Type
from portal.dra.cel.values import (
    KINDS,
    NO_SUCH_OVERLOAD,
    NONE,
    MapValue,
    OptionalValue,
    TypeValue,
    contains,
    equal,
    kind_of,
    map_find,
    size_of,
    spend,
    surely_equal,
)

MAX_COST: Final = 1_000_000
"""What an evaluation may cost (CELSelectorExpressionMaxCost)."""

_MAX_FOLDED: Final = 1000
"""Largest list or text that is computed when compiled: larger ones are not worth keeping."""

DEVICE: Final = 0
COST: Final = 1
FIRST_SLOT: Final = 2

_SCALARS: Final = frozenset({"bool", "int", "uint", "string", "bytes", "double", "duration", "timestamp"})
_TYPE_VALUES: Final = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}


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
            return _Constant(_type_value(node.type))
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
            return _Constant(_type_value(node.type))
        name = node.name
        if node.test:
            # As in Kubernetes, has() itself is free.
            return self.charge(_has(self.build(node.operand), name), 0)
        if node.optional:
            return self.charge(_select_optional(self.build(node.operand), name), 1)
        return self.device_value(node.operand, name) or self.charge(
            _select(self.build(node.operand), name), self.link_cost(node.operand)
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
            return self.charge(_domain(part, name), 3)
        domain = _constant_key(domain_node)
        if domain is None:
            return None
        owner, domain_name = domain
        part = self.device_part(owner)
        if part is None:
            return None
        make = _attribute if part == "attributes" else _capacity
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
        return self.charge(lambda frame: _index_any(get_container(frame), get_key(frame)), 1)

    # --- calls ----------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Run:  # noqa: PLR0911 (one per way of evaluating)
        match node.function:
            case "_&&_" | "_||_":
                return _logical(
                    [self.build(argument) for argument in node.args], decisive=node.function == "_||_"
                )
            case "_?_:_":
                return _conditional(*(self.build(argument) for argument in node.args))
            case "_[_]":
                return self.index(node)
            case "_==_" | "_!=_":
                return self.equality(node)
            case "or" | "orValue" if node.target is not None and len(node.args) == 1:
                whole = node.function == "or"
                return self.charge(_or(self.build(node.target), self.build(node.args[0]), whole=whole), 1)
            case "@in" if isinstance(node.args[1], ast.ListLiteral):
                return self.membership(node)
        arguments = [self.build(argument) for argument in node.operands]
        if node.function in CONVERSIONS and len(arguments) == 1 and type(arguments[0]) is _Constant:
            return self.convert(node, arguments[0])
        return self.plain_call(node, arguments)

    def convert(self, node: ast.Call, argument: _Constant) -> Run:
        """A conversion of a constant happens once; if that fails, upstream refuses the whole expression."""
        try:
            return _Constant(_dispatch(node.overloads)([argument.value]).run(argument.value))
        except CelEvaluationError as error:
            raise self.source.error(f"program instantiation failed: {error.message}", node.at) from error

    def plain_call(self, node: ast.Call, arguments: list[Run]) -> Run:
        overloads: list[Overload] = node.overloads
        if arguments and all(isinstance(argument, _Constant) for argument in arguments):
            folded = self.fold(_dispatch(overloads), [argument([]) for argument in arguments])
            if folded is not None:
                return folded
        settled = len(overloads) == 1 and all(
            wanted is None or not operand.type.is_dynamic
            for wanted, operand in zip(overloads[0].kinds, node.operands, strict=True)
        )
        if self.counted:
            return _counted_call(_dispatch(overloads), arguments)
        if settled:
            return _direct_call(overloads[0].run, arguments)
        return _dispatched_call(_dispatch(overloads), arguments)

    def fold(self, choose: Dispatch, values: list[Any]) -> Run | None:
        """A call of constants, such as quantity("40Gi"), happens once; its errors and its cost remain."""
        try:
            overload = choose(values)
            result = overload.run(*values)
        except CelEvaluationError as error:
            return self.charge(_fail(error.message), 1)
        except (CostExceeded, TypeError, ValueError, AttributeError):
            return None
        if size_of(result) > _MAX_FOLDED:
            return None
        return self.charge(_Folded(result), 1 if overload.cost is None else overload.cost(values, result))

    def equality(self, node: ast.Call) -> Run:
        left, right = (self.build(argument) for argument in node.args)
        positive = node.function == "_==_"
        if self.counted:
            choose = _equality_counted(left, right, positive=positive)
        elif isinstance(right, _Constant) and type(right.value) is str:
            choose = _equals_text(left, right.value, positive=positive)
        elif all(argument.type.kind in _SCALARS for argument in node.args):
            choose = (
                (lambda frame: left(frame) == right(frame))
                if positive
                else (lambda frame: left(frame) != right(frame))
            )
        else:
            choose = _equality(left, right, positive=positive)
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
                elif _as_optional(value).present:
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
                elif _as_optional(item).present:
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

        return self.charge(run, 1)

    def optional_map(self, node: ast.OptionalMap) -> Run:
        target = self.build(node.target)
        slot = self.new_slot()
        body = self.build_in_scope({node.name: (slot, False)}, node.body)
        flat = node.flat

        def run(frame: Frame) -> OptionalValue:
            optional = _as_optional(target(frame))
            if not optional.present:
                return NONE
            frame[slot] = optional.value
            result = body(frame)
            return _as_optional(result) if flat else OptionalValue(result)

        return self.charge(run, 3)


# --- the functions that nodes become ------------------------------------------------------------------------


def _type_value(type_: Type) -> TypeValue:
    inner = type_.params[0] if type_.params else type_
    return TypeValue(_TYPE_VALUES.get(inner.kind, inner.name))


def _as_optional(value: Any) -> OptionalValue:
    if type(value) is not OptionalValue:
        raise CelEvaluationError(NO_SUCH_OVERLOAD)
    return value


def _constant_key(node: ast.Node) -> tuple[ast.Node, str] | None:
    """`owner` and "key" of owner.key or owner["key"]."""
    if isinstance(node, ast.Select) and not node.test and not node.optional:
        return node.operand, node.name
    if isinstance(node, ast.Call) and node.function == "_[_]":
        key = node.args[1]
        if isinstance(key, ast.Const) and type(key.value) is str:
            return node.args[0], key.value
    return None


def _fail(message: str) -> Run:
    def run(_frame: Frame) -> Any:
        raise CelEvaluationError(message)

    return run


_NOTHING: Final[dict[str, Any]] = {}


def _domain(part: str, domain: str) -> Run:
    if part == "attributes":
        return lambda frame: frame[DEVICE].attributes.get(domain, _NOTHING)
    return lambda frame: frame[DEVICE].capacities.get(domain, _NOTHING)


def _attribute(domain: str, name: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return frame[DEVICE].attributes[domain][name]
        except KeyError:
            raise CelEvaluationError(f"no such key: {name}") from None

    return run


def _capacity(domain: str, name: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return frame[DEVICE].capacities[domain][name]
        except KeyError:
            raise CelEvaluationError(f"no such key: {name}") from None

    return run


def _find_field(value: Any, name: str) -> tuple[bool, Any]:
    """Whether a map has the key, and its value; other values must not even be asked for fields."""
    kind = KINDS.get(type(value))
    if kind == "map":
        return map_find(value, name)
    if kind == "list":
        raise CelEvaluationError("unsupported index type 'string' in list")
    raise CelEvaluationError(f"no such key: {name}")


def _select(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is OptionalValue:
            return optional_index(value, name)
        found, item = _find_field(value, name)
        if not found:
            raise CelEvaluationError(f"no such key: {name}")
        return item

    return run


def _has(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is OptionalValue:
            if not value.present:
                return False
            value = value.value
        return _find_field(value, name)[0]

    return run


def _select_optional(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> OptionalValue:
        value = operand(frame)
        if type(value) is OptionalValue:
            return optional_index(value, name)
        found, item = _find_field(value, name)
        return OptionalValue(item) if found else NONE

    return run


def _index_any(container: Any, key: Any) -> Any:
    if type(container) is OptionalValue:
        return optional_index(container, key)
    match kind_of(container):
        case "list":
            return list_index(container, key)
        case "map":
            return map_index(container, key)
    # A plain value has no elements: nothing is found in it.
    raise CelEvaluationError(f"no such key: {key_text(key)}")


def _logical(terms: Sequence[Run], *, decisive: bool) -> Run:
    """&& and ||: the decisive value wins over errors, wherever it stands."""

    def run(frame: Frame) -> bool:
        failure: CelEvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except CelEvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                return bool(decisive)
            if type(value) is not bool:
                failure = failure or CelEvaluationError(NO_SUCH_OVERLOAD)
        if failure is not None:
            raise failure
        return not decisive

    return run


def _conditional(condition: Run, yes: Run, no: Run) -> Run:
    def run(frame: Frame) -> Any:
        decision = condition(frame)
        if decision is True:
            return yes(frame)
        if decision is False:
            return no(frame)
        raise CelEvaluationError(NO_SUCH_OVERLOAD)

    return run


def _or(target: Run, other: Run, *, whole: bool) -> Run:
    def run(frame: Frame) -> Any:
        optional = _as_optional(target(frame))
        if optional.present:
            return optional if whole else optional.value
        return _as_optional(other(frame)) if whole else other(frame)

    return run


def _equality(left: Run, right: Run, *, positive: bool) -> Run:
    if positive:
        return lambda frame: equal(left(frame), right(frame))
    # An impossible comparison is an error for ==, but "not equal" for !=.
    return lambda frame: not surely_equal(left(frame), right(frame))


def _equality_counted(left: Run, right: Run, *, positive: bool) -> Run:
    from portal.dra.cel.library.registry import shorter_traversal

    def run(frame: Frame) -> bool:
        pair = (left(frame), right(frame))
        spent = frame[COST] + shorter_traversal(pair, None)
        frame[COST] = spent
        if spent > MAX_COST:
            raise CostExceeded
        return equal(*pair) if positive else not surely_equal(*pair)

    return run


def _equals_text(left: Run, text: str, *, positive: bool) -> Run:
    def run(frame: Frame) -> bool:
        value = left(frame)
        if type(value) is str:
            return (value == text) is positive
        return equal(value, text) if positive else not surely_equal(value, text)

    return run


Dispatch = Callable[[Sequence[Any]], Overload]


def _dispatch(overloads: Sequence[Overload]) -> Dispatch:
    """Which of the overloads takes the values at hand; remembers the answer for each combination of types."""
    known: dict[tuple[type, ...], Overload | None] = {}

    def choose(values: Sequence[Any]) -> Overload:
        key = tuple(map(type, values))
        try:
            found = known[key]
        except KeyError:
            kinds = [kind_of(value) for value in values]
            found = known[key] = next((item for item in overloads if item.takes(kinds)), None)
        if found is None:
            raise CelEvaluationError(NO_SUCH_OVERLOAD)
        return found

    return choose


def _direct_call(run: Callable[..., Any], arguments: Sequence[Run]) -> Run:
    match arguments:
        case [one]:
            return lambda frame: run(one(frame))
        case [one, two]:
            return lambda frame: run(one(frame), two(frame))
    return lambda frame: run(*[argument(frame) for argument in arguments])


def _dispatched_call(choose: Dispatch, arguments: Sequence[Run]) -> Run:
    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        return choose(values).run(*values)

    return run


def _counted_call(choose: Dispatch, arguments: Sequence[Run]) -> Run:
    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        overload = choose(values)
        if overload.cost is not None and type(values[0]) is list:
            spend(len(values[0]))
        result = overload.run(*values)
        spent = frame[COST] + (1 if overload.cost is None else overload.cost(values, result))
        frame[COST] = spent
        if spent > MAX_COST:
            raise CostExceeded
        return result

    return run
