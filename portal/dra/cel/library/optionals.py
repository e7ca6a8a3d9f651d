"""Optional values: a.?b, [?c], optional.of() and what one does with them."""

from __future__ import annotations

from typing import Any

from portal.dra.cel.errors import CelEvaluationError
from portal.dra.cel.library.registry import declare
from portal.dra.cel.library.standard import key_text, list_index
from portal.dra.cel.values import NONE, OptionalValue, is_zero, kind_of, map_find


def _of_non_zero(value: Any) -> OptionalValue:
    return NONE if is_zero(value) else OptionalValue(value)


def _value(optional: OptionalValue) -> Any:
    if not optional.present:
        raise CelEvaluationError("optional.none() dereference")
    return optional.value


def optional_index(container: Any, key: Any) -> OptionalValue:
    """container[?key]: none where the key or index is not there."""
    if isinstance(container, OptionalValue):
        return optional_index(container.value, key) if container.present else NONE
    kind = kind_of(container)
    if kind == "map":
        found, value = map_find(container, key)
        return OptionalValue(value) if found else NONE
    if kind != "list":
        raise CelEvaluationError(f"no such key: {key_text(key)}")
    try:
        return OptionalValue(list_index(container, key))
    except CelEvaluationError as error:
        if error.message.startswith("index out of bounds"):
            return NONE
        raise


def _unwrap(items: Any) -> list[Any]:
    return [item.value for item in items if item.present]


declare("optional.of(A) -> optional<A>", OptionalValue)
declare("optional.ofNonZeroValue(A) -> optional<A>", _of_non_zero)
declare("optional.none() -> optional<A>", lambda: NONE)
declare("optional<A>::value() -> A", _value)
declare("optional<A>::hasValue() -> bool", lambda optional: optional.present)
# Both evaluate their argument only when needed: the evaluator has its own code for them.
declare("optional<A>::or(optional<A>) -> optional<A>", lambda a, b: a if a.present else b)
declare("optional<A>::orValue(A) -> A", lambda a, b: a.value if a.present else b)
declare("_[?_](list<A>, int) -> optional<A>", optional_index)
declare("_[?_](map<A, B>, A) -> optional<B>", optional_index)
declare("_[?_](optional<list<A>>, int) -> optional<A>", optional_index)
declare("_[?_](optional<map<A, B>>, A) -> optional<B>", optional_index)
declare("_[_](optional<list<A>>, int) -> optional<A>", optional_index)
declare("_[_](optional<map<A, B>>, A) -> optional<B>", optional_index)
declare("list<A>::first() -> optional<A>", lambda items: OptionalValue(items[0]) if items else NONE)
declare("list<A>::last() -> optional<A>", lambda items: OptionalValue(items[-1]) if items else NONE)
declare("optional.unwrap(list<optional<A>>) -> list<A>", _unwrap)
declare("list<optional<A>>::unwrapOpt() -> list<A>", _unwrap)
