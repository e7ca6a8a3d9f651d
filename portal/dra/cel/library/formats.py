"""Kubernetes' named formats: format.dns1123Label().validate("…")."""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Callable
from typing import Final

from portal.dra.cel.errors import CelEvaluationError
from portal.dra.cel.library.network import InvalidText, Url
from portal.dra.cel.library.registry import declare, traversal
from portal.dra.cel.library.times import parse_timestamp
from portal.dra.cel.values import NONE, OptionalValue, register

Check = Callable[[str], list[str]]

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_MESSAGE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_NAME_MESSAGE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_QUALIFIED_MESSAGE: Final = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character with an optional DNS subdomain prefix and '/'"
)
_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def _pattern(pattern: str, longest: int, message: str, *, prefix: bool = False) -> Check:
    expression = re.compile(pattern, re.ASCII)

    def check(text: str) -> list[str]:
        # A prefix will have something appended: a dash at its end is fine then.
        if prefix and len(text) > 1 and text.endswith("-"):
            text = text[:-1] + "a"
        problems = []
        if len(text.encode()) > longest:
            problems.append(f"must be no more than {longest} bytes")
        if not expression.fullmatch(text):
            problems.append(message)
        return problems

    return check


_subdomain: Final = _pattern(rf"{_LABEL}(\.{_LABEL})*", 253, _SUBDOMAIN_MESSAGE)
_name_part: Final = _pattern(_NAME, 63, _NAME_MESSAGE)


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return [_QUALIFIED_MESSAGE]
    problems = []
    if len(parts) == 2:
        problems = (
            ["prefix part must be non-empty"]
            if not parts[0]
            else [f"prefix part {p}" for p in _subdomain(parts[0])]
        )
    if not parts[-1]:
        return [*problems, "name part must be non-empty"]
    return problems + _name_part(parts[-1])


def _uri(text: str) -> list[str]:
    try:
        Url(text)
    except InvalidText as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    pattern = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    return [] if re.fullmatch(pattern, text, re.IGNORECASE | re.ASCII) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            datetime.date.fromisoformat(text)
            return []
    except ValueError:
        pass
    return ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        parse_timestamp(text.upper())
    except CelEvaluationError:
        return ["invalid datetime"]
    return []


_label: Final = _pattern(_LABEL, 63, _LABEL_MESSAGE)
_CHECKS: Final[dict[str, Check]] = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _pattern(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, _LABEL_1035_MESSAGE),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _pattern(_LABEL, 63, _LABEL_MESSAGE, prefix=True),
    "dns1123SubdomainPrefix": _pattern(rf"{_LABEL}(\.{_LABEL})*", 253, _SUBDOMAIN_MESSAGE, prefix=True),
    "dns1035LabelPrefix": _pattern(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, _LABEL_1035_MESSAGE, prefix=True),
    "labelValue": _pattern(rf"({_NAME})?", 63, _VALUE_MESSAGE),
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}


class NamedFormat:
    """A format by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("format", self.name))


def _validate(named: NamedFormat, text: str) -> OptionalValue:
    problems = _CHECKS[named.name](text)
    return OptionalValue(problems) if problems else NONE


def _named(name: str) -> OptionalValue:
    return OptionalValue(NamedFormat(name)) if name in _CHECKS else NONE


def _constant(name: str) -> Callable[[], NamedFormat]:
    return lambda: NamedFormat(name)


register(NamedFormat, "object:kubernetes.NamedFormat")
declare("format.named(string) -> optional<Format>", _named)
declare("Format::validate(string) -> optional<list<string>>", _validate, traversal(1.0, 1))
for _format in _CHECKS:
    declare(f"format.{_format}() -> Format", _constant(_format))
