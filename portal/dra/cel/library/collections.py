"""Lists and sets: Kubernetes' own list functions, CEL's lists extension, and the sets library."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from portal.dra.cel.equality import compare, contains, spend, surely_equal
from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.library.registry import declare, list_traversal, product_of_sizes, result_size
from portal.dra.cel.values import (
    Duration,
    Uint,
    checked_int,
    checked_uint,
    kind_of,
)

_MAX_LIST: Final = 1_000_000
_ORDERED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _in_order(left: Any, right: Any) -> int:
    if kind_of(left) != kind_of(right):
        raise CelEvaluationError("no such overload")
    return compare(left, right) or 0


# --- Kubernetes ---------------------------------------------------------------------------------------------


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(_in_order(left, right) <= 0 for left, right in itertools.pairwise(items))


def _sum(zero: Any) -> Callable[[Sequence[Any]], Any]:
    def run(items: Sequence[Any]) -> Any:
        total = zero if not items else items[0]
        for item in items[1:]:
            total = _add(total, item)
        if kind_of(total) not in ("int", "uint", "double", "duration"):
            raise CelEvaluationError("no such overload")
        return total

    return run


def _add(left: Any, right: Any) -> Any:
    kind = kind_of(left)
    if kind != kind_of(right) or kind not in ("int", "uint", "double", "duration"):
        raise CelEvaluationError("no such overload")
    if kind == "int":
        return checked_int(left + right)
    if kind == "uint":
        return checked_uint(int(left) + int(right))
    return Duration(left.nanos + right.nanos) if kind == "duration" else left + right


def _extreme(name: str, sign: int) -> Callable[[Sequence[Any]], Any]:
    def run(items: Sequence[Any]) -> Any:
        if not items:
            raise CelEvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if _in_order(item, best) * sign > 0:
                best = item
        return best

    return run


def _index_of(items: Sequence[Any], value: Any) -> int:
    return next((at for at, item in enumerate(items) if surely_equal(item, value)), -1)


def _last_index_of(items: Sequence[Any], value: Any) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if surely_equal(items[at], value)), -1)


for _kind, _zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", Duration(0))):
    declare(f"list<{_kind}>::sum() -> {_kind}", _sum(_zero), list_traversal)
for _kind in _ORDERED:
    declare(f"list<{_kind}>::isSorted() -> bool", _is_sorted, list_traversal)
    declare(f"list<{_kind}>::min() -> {_kind}", _extreme("min", -1), list_traversal)
    declare(f"list<{_kind}>::max() -> {_kind}", _extreme("max", 1), list_traversal)
declare("list<A>::indexOf(A) -> int", _index_of, list_traversal)
declare("list<A>::lastIndexOf(A) -> int", _last_index_of, list_traversal)

# --- CEL's lists extension ----------------------------------------------------------------------------------


def _slice(items: Sequence[Any], start: int, end: int) -> list[Any]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelEvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise CelEvaluationError(f"{call}, start index must be less than or equal to end index")
    if end > len(items):
        raise CelEvaluationError(f"{call}, list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelEvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if depth > 0 and kind_of(item) == "list":
            flat.extend(_flatten(item, depth - 1))
        else:
            flat.append(item)
        if len(flat) > _MAX_LIST:
            raise CostExceeded
    return flat


def _range(count: int) -> list[int]:
    if count > _MAX_LIST:
        raise CostExceeded
    return list(range(count))


def _distinct(items: Sequence[Any]) -> list[Any]:
    unique: list[Any] = []
    simple: set[Any] = set()
    for item in items:
        if kind_of(item) in ("string", "int"):
            key = (type(item), item)
            if key in simple:
                continue
            simple.add(key)
            if kind_of(item) == "string":
                unique.append(item)
                continue
        if not contains(unique, item):
            unique.append(item)
    return unique


def _squared(args: Sequence[Any], _result: Any) -> int:
    """What comparing each with each costs, and a new list."""
    return 10 + len(args[0]) ** 2


def _sort_by(items: Sequence[Any], keys: Sequence[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise CelEvaluationError("sortBy() expected a key for each element")
    if keys and kind_of(keys[0]) not in _ORDERED:
        raise CelEvaluationError("list elements must be comparable")
    if any(kind_of(key) != kind_of(keys[0]) for key in keys):
        raise CelEvaluationError("list elements must have the same type")

    def order(left: int, right: int) -> int:
        return _in_order(keys[left], keys[right])

    return [items[at] for at in sorted(range(len(items)), key=functools.cmp_to_key(order))]


declare("list<A>::slice(int, int) -> list<A>", _slice, result_size(1.0, 10))
declare("list<list<A>>::flatten() -> list<A>", _flatten, result_size(1.0, 10))
declare("list<dyn>::flatten(int) -> list<dyn>", _flatten, result_size(1.0, 10))
declare("lists.range(int) -> list<int>", _range, result_size(1.0, 10))
declare("list<A>::distinct() -> list<A>", _distinct, _squared)
declare("list<A>::reverse() -> list<A>", lambda items: list(reversed(items)), result_size(1.0, 10))
for _kind in _ORDERED:
    declare(
        f"list<{_kind}>::sort() -> list<{_kind}>",
        lambda items: _sort_by(items, items),
        _squared,
    )
    declare(f"list<A>::@sortByAssociatedKeys(list<{_kind}>) -> list<A>", _sort_by, _squared)

# --- sets ---------------------------------------------------------------------------------------------------


def _set_contains(items: Sequence[Any], others: Sequence[Any]) -> bool:
    for other in others:
        spend(len(items))
        if not any(surely_equal(item, other) for item in items):
            return False
    return True


def _set_intersects(items: Sequence[Any], others: Sequence[Any]) -> bool:
    return any(contains(others, item) for item in items)


declare("sets.contains(list<A>, list<A>) -> bool", _set_contains, product_of_sizes)
declare(
    "sets.equivalent(list<A>, list<A>) -> bool",
    lambda a, b: _set_contains(a, b) and _set_contains(b, a),
    lambda args, result: 2 * product_of_sizes(args, result),
)
declare(
    "sets.intersects(list<A>, list<A>) -> bool",
    _set_intersects,
    product_of_sizes,
)
