"""Kubernetes' quantities and semantic versions in CEL."""

from __future__ import annotations

from portal.dra.cel.errors import CelEvaluationError
from portal.dra.cel.library.registry import declare, traversal
from portal.dra.quantity import InvalidQuantity, Quantity, is_quantity
from portal.dra.semver import InvalidVersion, Semver, is_semver


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except InvalidQuantity as error:
        raise CelEvaluationError(str(error)) from error


def _as_integer(quantity: Quantity) -> int:
    try:
        return quantity.as_int()
    except ValueError as error:
        raise CelEvaluationError(str(error)) from error


def _semver(text: str, relaxed: bool = False) -> Semver:  # noqa: FBT001, FBT002 (CEL's own signature)
    try:
        return Semver.parse_relaxed(text) if relaxed else Semver.parse(text)
    except InvalidVersion as error:
        raise CelEvaluationError(str(error)) from error


declare("quantity(string) -> Quantity", _quantity, traversal())
declare("isQuantity(string) -> bool", is_quantity, traversal())
declare("Quantity::sign() -> int", Quantity.sign)
declare("Quantity::isInteger() -> bool", Quantity.is_integer)
declare("Quantity::asInteger() -> int", _as_integer)
declare("Quantity::asApproximateFloat() -> double", Quantity.as_float)
declare("Quantity::add(Quantity) -> Quantity", lambda a, b: a + b)
declare("Quantity::add(int) -> Quantity", lambda a, b: a + Quantity.from_int(b))
declare("Quantity::sub(Quantity) -> Quantity", lambda a, b: a - b)
declare("Quantity::sub(int) -> Quantity", lambda a, b: a - Quantity.from_int(b))

declare("semver(string) -> Semver", _semver, traversal())
declare("semver(string, bool) -> Semver", _semver, traversal())
declare("isSemver(string) -> bool", is_semver, traversal())
declare("isSemver(string, bool) -> bool", lambda text, relaxed: is_semver(text, relaxed=relaxed), traversal())
declare("Semver::major() -> int", lambda version: version.major)
declare("Semver::minor() -> int", lambda version: version.minor)
declare("Semver::patch() -> int", lambda version: version.patch)

for _type in ("Quantity", "Semver"):
    declare(f"{_type}::isLessThan({_type}) -> bool", lambda a, b: a < b)
    declare(f"{_type}::isGreaterThan({_type}) -> bool", lambda a, b: b < a)
    declare(f"{_type}::compareTo({_type}) -> int", lambda a, b: a.compare(b))
