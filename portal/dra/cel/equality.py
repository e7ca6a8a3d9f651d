"""CEL's equality and order, bounded in the work that they may cause."""

from __future__ import annotations

import threading
from typing import Any, Final

from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.values import (
    KINDS,
    NO_SUCH_OVERLOAD,
    NUMBERS,
    STRICT,
    kind_of,
    map_find,
    map_pairs,
    map_size,
)

# --- work that costs do not show ----------------------------------------------------------------------------

_WORK: Final = threading.local()
_MAX_WORK: Final = 1_000_000


def reset_work() -> None:
    """Begin an evaluation: see `spend`."""
    _WORK.left = _MAX_WORK


def spend(steps: int) -> None:
    """Lists of lists cost by their first level only: comparing shared ones could go on for ever."""
    _WORK.left = left = getattr(_WORK, "left", _MAX_WORK) - steps
    if left < 0:
        raise CostExceeded


# --- equality and order -------------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool:
    """CEL's `==`; raises CelEvaluationError where the left operand's type knows no such comparison."""
    left_type, right_type = type(left), type(right)
    if left_type is right_type:
        return _equal_alike(left, right)
    if left is None or right is None:
        return False
    if left_type in STRICT:
        raise CelEvaluationError(NO_SUCH_OVERLOAD)
    if left_type in NUMBERS and right_type in NUMBERS:
        left, right = _as_numbers(left, right)
        return bool(left == right)
    kind = KINDS[left_type]
    return kind in ("list", "map") and kind == KINDS[right_type] and _equal_alike(left, right)


def _as_numbers(left: Any, right: Any) -> tuple[Any, Any]:
    """Two numbers of different types, made comparable: next to a double, whole numbers become doubles."""
    if type(left) is float or type(right) is float:
        return float(left), float(right)
    return left, right


def _equal_alike(left: Any, right: Any) -> bool:
    kind = KINDS[type(left)]
    if kind == "list":
        spend(10 + len(left))
        return len(left) == len(right) and all(map(_not_unequal, left, right))
    if kind == "map":
        return _equal_maps(left, right)
    if kind == "abstract:optional_type":
        if not (left.present and right.present):
            return bool(left.present == right.present)
        return equal(left.value, right.value)
    return bool(left == right)


def _equal_maps(left: Any, right: Any) -> bool:
    if map_size(left) != map_size(right):
        return False
    spend(20 + 2 * map_size(left))
    for key, value in map_pairs(left):
        found, other = map_find(right, key)
        if not found or not _not_unequal(value, other):
            return False
    return True


def _not_unequal(left: Any, right: Any) -> bool:
    """Inside of lists and maps only a definite "no" makes a difference; an impossible comparison does not."""
    try:
        return equal(left, right)
    except CelEvaluationError:
        return True


def surely_equal(left: Any, right: Any) -> bool:
    """Equality as `in` and the sets library use it: an impossible comparison is no match."""
    try:
        return equal(left, right)
    except CelEvaluationError:
        return False


def contains(items: Any, value: Any) -> bool:
    """Whether a list has an element equal to the value."""
    spend(len(items))
    return any(surely_equal(value, item) for item in items)


_ORDERED: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp"})


def compare(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; None with NaN; raises CelEvaluationError for types without an order between them."""
    left_type, right_type = type(left), type(right)
    if left_type is not right_type and not (left_type in NUMBERS and right_type in NUMBERS):
        raise CelEvaluationError(NO_SUCH_OVERLOAD)
    kind = kind_of(left)
    if kind not in _ORDERED:
        raise CelEvaluationError(NO_SUCH_OVERLOAD)
    if kind in ("duration", "timestamp"):
        left, right = left.nanos, right.nanos
    elif left_type is not right_type:
        left, right = _as_numbers(left, right)
    if left != left or right != right:  # noqa: PLR0124 (NaN)
        return None
    return int(left > right) - int(left < right)
