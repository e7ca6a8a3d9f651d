"""The macros that loop, as functions of a frame. They always count, as only they can take long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.frame import COST, MAX_COST, Frame, Run
from portal.dra.cel.values import NO_SUCH_OVERLOAD, MapValue, kind_of, map_pairs

_GO_NAMES: Final = {
    "bool": "types.Bool",
    "int": "types.Int",
    "Uint": "types.Uint",
    "float": "types.Double",
    "str": "types.String",
    "bytes": "types.Bytes",
    "NoneType": "types.Null",
    "Duration": "types.Duration",
    "Timestamp": "types.Timestamp",
    "OptionalValue": "*types.Optional",
    "Quantity": "cel.Quantity",
    "Semver": "cel.Semver",
}
"""How error messages of upstream name what is no list or map."""


class Failure:
    """In place of a bound value that could not be computed."""

    __slots__ = ("error",)

    def __init__(self, error: CelEvaluationError) -> None:
        self.error = error


def iterate(value: Any, *, pairs: bool) -> Iterable[Any]:
    """What a loop runs over: elements or keys; with `pairs`, index and element or key and value."""
    match kind_of(value):
        case "list":
            return list(enumerate(value)) if pairs else value
        case "map":
            found = map_pairs(value)
            return found if pairs else [key for key, _ in found]
    raise CelEvaluationError(
        f"got '{_GO_NAMES.get(type(value).__name__, 'types.Val')}', expected iterable type"
    )


def _spend(frame: Frame, cost: int) -> None:
    spent = frame[COST] + cost
    frame[COST] = spent
    if spent > MAX_COST:
        raise CostExceeded


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise CelEvaluationError(NO_SUCH_OVERLOAD)


def _assign(frame: Frame, slots: Sequence[int], item: Any) -> None:
    if len(slots) == 1:
        frame[slots[0]] = item
    else:
        frame[slots[0]], frame[slots[1]] = item


def _quantifier(*, decisive: bool) -> Callable[..., Run]:
    """all() and exists(): the decisive value wins over errors, whichever element gives it."""
    step_cost = 4 if decisive else 3

    def make(items: Run, slots: Sequence[int], _guard: Run | None, body: Run) -> Run:
        single = slots[0] if len(slots) == 1 else None

        def run(frame: Frame) -> bool:
            failure: CelEvaluationError | None = None
            for item in items(frame):
                spent = frame[COST] + step_cost
                frame[COST] = spent
                if spent > MAX_COST:
                    raise CostExceeded
                if single is not None:
                    frame[single] = item
                else:
                    _assign(frame, slots, item)
                try:
                    value = body(frame)
                except CelEvaluationError as error:
                    failure = failure or error
                    continue
                if value is decisive:
                    return bool(decisive)
                if type(value) is not bool:
                    failure = failure or CelEvaluationError(NO_SUCH_OVERLOAD)
            _spend(frame, 1)
            if failure is not None:
                raise failure
            return not decisive

        return run

    return make


def _exists_one(items: Run, slots: Sequence[int], _guard: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> bool:
        count = 0
        for item in items(frame):
            _spend(frame, 1)
            _assign(frame, slots, item)
            if _truth(body(frame)):
                _spend(frame, 1)
                count += 1
        _spend(frame, 2)
        return count == 1

    return run


def _filter(items: Run, slots: Sequence[int], _guard: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> list[Any]:
        result = []
        for item in items(frame):
            _spend(frame, 1)
            _assign(frame, slots, item)
            if _truth(body(frame)):
                _spend(frame, 12)
                result.append(item)
        _spend(frame, 1)
        return result

    return run


def _map(items: Run, slots: Sequence[int], guard: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> list[Any]:
        result = []
        for item in items(frame):
            _spend(frame, 1)
            _assign(frame, slots, item)
            if guard is None or _truth(guard(frame)):
                result.append(body(frame))
                _spend(frame, 11)
        _spend(frame, 1)
        return result

    return run


def _transform_map(items: Run, slots: Sequence[int], guard: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> MapValue:
        result = MapValue()
        for item in items(frame):
            _spend(frame, 1)
            _assign(frame, slots, item)
            if guard is None or _truth(guard(frame)):
                result.put(item[0], body(frame))
                _spend(frame, 3)
        _spend(frame, 1)
        return result

    return run


def _transform_map_entry(items: Run, slots: Sequence[int], guard: Run | None, body: Run) -> Run:
    def run(frame: Frame) -> MapValue:
        result = MapValue()
        for item in items(frame):
            _spend(frame, 1)
            _assign(frame, slots, item)
            if guard is not None and not _truth(guard(frame)):
                continue
            entry = body(frame)
            if kind_of(entry) != "map":
                raise CelEvaluationError(NO_SUCH_OVERLOAD)
            for key, value in map_pairs(entry):
                if result.find(key) is not None:
                    raise CelEvaluationError(f"insert failed: key '{key}' already exists")
                result.put(key, value)
            _spend(frame, 1)
        _spend(frame, 1)
        return result

    return run


LOOPS: Final[dict[str, Callable[[Run, Sequence[int], Run | None, Run], Run]]] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
}
