"""CEL's types, and when one may stand where another is wanted (gradual typing with type parameters)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_MAX_SIZE: Final = 2000


class TypeTooLarge(Exception):
    """The type has too many parts: maps of maps double with every level, and could go on for ever."""


class Type:
    """A type; `kind` groups types, `name` tells abstract ones and type parameters apart."""

    __slots__ = ("is_open", "kind", "name", "params", "size")

    def __init__(self, kind: str, name: str = "", params: Sequence[Type] = ()) -> None:
        self.kind = kind
        self.name = name or kind
        self.params = tuple(params)
        self.is_open: bool = kind == "param" or any(item.is_open for item in self.params)
        """Whether a type parameter occurs in it."""
        self.size: int = 1 + sum(item.size for item in self.params)
        if self.size > _MAX_SIZE:
            raise TypeTooLarge

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Type)
            and self.kind == other.kind
            and self.name == other.name
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.params))

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"

    __repr__ = __str__

    @property
    def is_dynamic(self) -> bool:
        """Whether it is checked when evaluated. "any" differs from "dyn" only as the result of a selector."""
        return self.kind in _DYNAMIC


_DYNAMIC: Final = frozenset({"dyn", "any", "error"})

DYN: Final = Type("dyn")
ANY: Final = Type("any")
ERROR: Final = Type("error", "!error!")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null", "null")
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")
QUANTITY: Final = Type("object", "kubernetes.Quantity")
SEMVER: Final = Type("object", "kubernetes.Semver")
URL: Final = Type("object", "kubernetes.URL")
IP: Final = Type("object", "net.IP")
CIDR: Final = Type("object", "net.CIDR")
FORMAT: Final = Type("object", "kubernetes.NamedFormat")
DEVICE: Final = Type("object", "kubernetes.DRADevice")

_NULLABLE: Final = frozenset({"null", "object", "abstract", "duration", "timestamp", "dyn", "any", "error"})


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("abstract", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def parameter(name: str) -> Type:
    return Type("param", name)


def unwrap_optional(type_: Type) -> tuple[Type, bool]:
    """The type inside of an optional, and whether it was one."""
    if type_.kind == "abstract" and type_.name == "optional_type":
        return type_.params[0], True
    return type_, False


class Substitution:
    """What type parameters stand for, as found out so far."""

    __slots__ = ("_known",)

    def __init__(self, known: Mapping[str, Type] | None = None) -> None:
        self._known: dict[str, Type] = dict(known or {})

    def assign(self, pairs: Iterable[tuple[Type, Type]]) -> bool:
        """Whether each first type may stand for the second; learns parameters only if all may."""
        before = dict(self._known)
        if all(self._assignable(given, wanted) for given, wanted in pairs):
            return True
        self._known = before
        return False

    def apply(self, type_: Type, *, open_to_dyn: bool = False) -> Type:
        """The type with all known parameters filled in, and unknown ones as dyn if asked for."""
        if type_.kind == "param":
            known = self._known.get(type_.name)
            if known is not None:
                return self.apply(known, open_to_dyn=open_to_dyn)
            return DYN if open_to_dyn else type_
        if not type_.is_open:
            return type_
        return Type(
            type_.kind, type_.name, [self.apply(item, open_to_dyn=open_to_dyn) for item in type_.params]
        )

    def _assignable(self, given: Type, wanted: Type) -> bool:  # noqa: PLR0911 (one per rule)
        if wanted.kind == "param":
            fits, bound = self._bind(wanted, given)
            if fits or bound:
                return fits
        if given.kind == "param":
            return self._bind(given, wanted)[0]
        if given.is_dynamic or wanted.is_dynamic:
            return True
        if given.kind == "null" or wanted.kind == "null":
            return (wanted if given.kind == "null" else given).kind in _NULLABLE
        if given.kind != wanted.kind:
            return False
        if given.kind == "type":
            return True
        return (
            given.name == wanted.name
            and len(given.params) == len(wanted.params)
            and all(map(self._assignable, given.params, wanted.params))
        )

    def _bind(self, param: Type, given: Type) -> tuple[bool, bool]:
        """Whether the parameter can be (or already is) `given`; and whether it stood for something before."""
        if param == given:
            return True, True
        known = self._known.get(param.name)
        if known is None:
            if self._occurs(param, given):
                return False, False
            self._known[param.name] = given
            return True, False
        if known == given:
            return True, True
        if not self._assignable(given, known):
            return False, True
        general = given if less_specific(given, known) else known
        if not self._occurs(param, general):
            self._known[param.name] = general
        return True, True

    def _occurs(self, param: Type, within: Type) -> bool:
        if not within.is_open:
            return False
        if within.kind == "param":
            if within.name == param.name:
                return True
            known = self._known.get(within.name)
            return known is not None and self._occurs(param, known)
        return any(self._occurs(param, item) for item in within.params)


def less_specific(first: Type, second: Type) -> bool:
    """Whether the first type is equal to the second or wider than it."""
    if first.kind in ("dyn", "any", "param"):
        return True
    if second.kind in ("dyn", "any", "param") or first.kind != second.kind:
        return False
    if first.kind == "type":
        return True
    return (
        first.name == second.name
        and len(first.params) == len(second.params)
        and all(map(less_specific, first.params, second.params))
    )
