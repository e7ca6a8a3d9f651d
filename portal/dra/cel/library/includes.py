"""includes(): one test for attributes that are one value in some drivers, a list in others (KEP-5491)."""

from __future__ import annotations

from typing import Any, Final

from portal.dra.cel import types
from portal.dra.cel.equality import contains, surely_equal
from portal.dra.cel.library.registry import Overload
from portal.dra.cel.values import (
    kind_of,
    size_of,
)


def _includes(attribute: Any, value: Any) -> bool:
    if kind_of(attribute) == "list":
        return contains(attribute, value)
    return surely_equal(value, attribute)


INCLUDES: Final = [
    Overload(
        function="includes",
        member=True,
        params=(types.DYN, types.DYN),
        result=types.BOOL,
        run=_includes,
        cost=lambda args, _result: size_of(args[0]) if kind_of(args[0]) == "list" else 1,
        kinds=(None, None),
    )
]
