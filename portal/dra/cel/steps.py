"""The functions that nodes of the tree become, each given the functions of its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from portal.dra.cel import ast
from portal.dra.cel.equality import equal, spend, surely_equal
from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.frame import COST, DEVICE, MAX_COST, Frame, Run
from portal.dra.cel.library import Overload
from portal.dra.cel.library.optionals import optional_index
from portal.dra.cel.library.registry import shorter_traversal
from portal.dra.cel.library.standard import key_text, list_index, map_index
from portal.dra.cel.types import Type
from portal.dra.cel.values import (
    KINDS,
    NO_SUCH_OVERLOAD,
    NONE,
    OptionalValue,
    TypeValue,
    kind_of,
    map_find,
)

_TYPE_VALUES: Final = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}


def type_value(type_: Type) -> TypeValue:
    inner = type_.params[0] if type_.params else type_
    return TypeValue(_TYPE_VALUES.get(inner.kind, inner.name))


def as_optional(value: Any) -> OptionalValue:
    if type(value) is not OptionalValue:
        raise CelEvaluationError(NO_SUCH_OVERLOAD)
    return value


def constant_key(node: ast.Node) -> tuple[ast.Node, str] | None:
    """`owner` and "key" of owner.key or owner["key"]."""
    if isinstance(node, ast.Select) and not node.test and not node.optional:
        return node.operand, node.name
    if isinstance(node, ast.Call) and node.function == "_[_]":
        key = node.args[1]
        if isinstance(key, ast.Const) and type(key.value) is str:
            return node.args[0], key.value
    return None


def fail(message: str) -> Run:
    def run(_frame: Frame) -> Any:
        raise CelEvaluationError(message)

    return run


_NOTHING: Final[dict[str, Any]] = {}


def domain(part: str, domain: str) -> Run:
    if part == "attributes":
        return lambda frame: frame[DEVICE].attributes.get(domain, _NOTHING)
    return lambda frame: frame[DEVICE].capacities.get(domain, _NOTHING)


def attribute(domain: str, name: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return frame[DEVICE].attributes[domain][name]
        except KeyError:
            raise CelEvaluationError(f"no such key: {name}") from None

    return run


def capacity(domain: str, name: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return frame[DEVICE].capacities[domain][name]
        except KeyError:
            raise CelEvaluationError(f"no such key: {name}") from None

    return run


def find_field(value: Any, name: str) -> tuple[bool, Any]:
    """Whether a map has the key, and its value; other values must not even be asked for fields."""
    kind = KINDS.get(type(value))
    if kind == "map":
        return map_find(value, name)
    if kind == "list":
        raise CelEvaluationError("unsupported index type 'string' in list")
    raise CelEvaluationError(f"no such key: {name}")


def select(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is OptionalValue:
            return optional_index(value, name)
        found, item = find_field(value, name)
        if not found:
            raise CelEvaluationError(f"no such key: {name}")
        return item

    return run


def has(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is OptionalValue:
            if not value.present:
                return False
            value = value.value
        return find_field(value, name)[0]

    return run


def select_optional(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> OptionalValue:
        value = operand(frame)
        if type(value) is OptionalValue:
            return optional_index(value, name)
        found, item = find_field(value, name)
        return OptionalValue(item) if found else NONE

    return run


def index_any(container: Any, key: Any) -> Any:
    if type(container) is OptionalValue:
        return optional_index(container, key)
    match kind_of(container):
        case "list":
            return list_index(container, key)
        case "map":
            return map_index(container, key)
    # A plain value has no elements: nothing is found in it.
    raise CelEvaluationError(f"no such key: {key_text(key)}")


def logical(terms: Sequence[Run], *, decisive: bool) -> Run:
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


def conditional(condition: Run, yes: Run, no: Run) -> Run:
    def run(frame: Frame) -> Any:
        decision = condition(frame)
        if decision is True:
            return yes(frame)
        if decision is False:
            return no(frame)
        raise CelEvaluationError(NO_SUCH_OVERLOAD)

    return run


def or_else(target: Run, other: Run, *, whole: bool) -> Run:
    def run(frame: Frame) -> Any:
        optional = as_optional(target(frame))
        if optional.present:
            return optional if whole else optional.value
        return as_optional(other(frame)) if whole else other(frame)

    return run


def equality(left: Run, right: Run, *, positive: bool) -> Run:
    if positive:
        return lambda frame: equal(left(frame), right(frame))
    # An impossible comparison is an error for ==, but "not equal" for !=.
    return lambda frame: not surely_equal(left(frame), right(frame))


def equality_counted(left: Run, right: Run, *, positive: bool) -> Run:
    def run(frame: Frame) -> bool:
        pair = (left(frame), right(frame))
        spent = frame[COST] + shorter_traversal(pair, None)
        frame[COST] = spent
        if spent > MAX_COST:
            raise CostExceeded
        return equal(*pair) if positive else not surely_equal(*pair)

    return run


def equals_text(left: Run, text: str, *, positive: bool) -> Run:
    def run(frame: Frame) -> bool:
        value = left(frame)
        if type(value) is str:
            return (value == text) is positive
        return equal(value, text) if positive else not surely_equal(value, text)

    return run


Dispatch = Callable[[Sequence[Any]], Overload]


def dispatch(overloads: Sequence[Overload]) -> Dispatch:
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


def direct_call(run: Callable[..., Any], arguments: Sequence[Run]) -> Run:
    match arguments:
        case [one]:
            return lambda frame: run(one(frame))
        case [one, two]:
            return lambda frame: run(one(frame), two(frame))
    return lambda frame: run(*[argument(frame) for argument in arguments])


def dispatched_call(choose: Dispatch, arguments: Sequence[Run]) -> Run:
    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        return choose(values).run(*values)

    return run


def counted_call(choose: Dispatch, arguments: Sequence[Run]) -> Run:
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
