"""Rules about columns and single values: which columns there are, types, formats, null, allowed values."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from claims.focus.columns import Column, Level, Type
from claims.focus.terms import Rule, Violation

MISSING = Rule(code="column-missing", text="Every mandatory column of the version is there.")
UNKNOWN = Rule(code="column-unknown", text="A column that the version does not know begins with x_.")
NAME = Rule(code="column-name", text="A name is x_ and words in Pascal case, of 50 characters at most.")
ORDER = Rule(code="column-order", text="FOCUS columns come first, then x_ columns, each in order of names.")
TWICE = Rule(code="column-twice", text="No column is there twice.")
WIDTH = Rule(code="row-width", text="A row has as many fields as there are columns.")
NULL = Rule(code="not-null", text="A column that is not nullable has a value in every row.")
BLANK = Rule(code="empty-text", text="What is absent is null: no text is empty or blank.")
ASCII = Rule(code="not-ascii", text="Texts of FOCUS columns are ASCII.")
NUMBER = Rule(
    code="number-format",
    text="Numbers are digits with a decimal point: no sign but a minus, no exponent, no separators.",
)
TIME = Rule(code="time-format", text="Times are UTC: YYYY-MM-DDTHH:MM:SSZ.")
JSON = Rule(
    code="json-format", text="JSON is an object; in tags and in details of prices, no value is an object."
)
ALLOWED = Rule(code="value-not-allowed", text="A value is one of those that the column allows.")
CURRENCY = Rule(code="currency-format", text="A currency is an ISO 4217 code.")
UNIT = Rule(code="unit-format", text="Units are as UnitFormat has them, such as Device-Hours or 4 GiB-Hours.")
CHECKSUM = Rule(code="checksum", text="The file is the one that the metadata beside it are of.")
TYPE = Rule(code="type", text="A value, or a column of Parquet, has the type of the column.")

VALUE_RULES = (
    MISSING, UNKNOWN, NAME, ORDER, TWICE, WIDTH, NULL, BLANK, ASCII, NUMBER, TIME, JSON, ALLOWED, CURRENCY,
    UNIT, TYPE, CHECKSUM,
)  # fmt: skip

_NUMBER = re.compile(r"-?(0|[1-9]\d*)\.\d+", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_NAME = re.compile(r"x_[A-Z][A-Za-z0-9]*", re.ASCII)
_SIZES = "|".join(f"{p}{i}{b}" for p in "KMGTPE" for i in ("", "i") for b in "bB")
_BASE = rf"(?:b|B|{_SIZES}|[A-Z][A-Za-z]+)"
_UNIT = re.compile(rf"(?:[1-9]\d* )?{_BASE}(?:-{_BASE})?(?:/(?:[1-9]\d* )?{_BASE})?", re.ASCII)
_FLAT = ("Tags", "AllocatedTags", "SkuPriceDetails")
# Nothing could be made of a value: no other rule looks at it.
UNREADABLE = object()
Wrong = list[tuple[Rule, str]]


def check_columns(names: Sequence[str], known: Mapping[str, Column]) -> Iterator[Violation]:
    """About the header."""
    for name, column in known.items():
        if column.level is Level.MANDATORY and name not in names:
            yield _of_file(MISSING, name, "is not there")
    for name in names:
        if name.startswith("x_"):
            if not _NAME.fullmatch(name) or len(name) > 50:
                yield _of_file(NAME, name, "is not a name of a column")
        elif name not in known:
            yield _of_file(UNKNOWN, name, "is none of this version, and does not begin with x_")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield _of_file(TWICE, name, "is there twice")
    ordered = sorted(names, key=lambda name: (name.startswith("x_"), name))
    for name, expected in zip(names, ordered, strict=True):
        if name != expected:
            yield _of_file(ORDER, name, f"stands where {expected} should")
            break


def read(text: str | None, column: Column) -> tuple[Any, Wrong]:
    """A field of CSV as a value of its column, or UNREADABLE; and what is wrong with how it is written."""
    if text is None:
        return None, []
    found: Any = UNREADABLE
    wrong: Wrong = [(TYPE, f"{text[:60]!r} is no {column.type}")]
    if column.type is Type.DATETIME:
        return _time(text)
    if column.type is Type.DECIMAL:
        found = Decimal(text) if _NUMBER.fullmatch(text) else UNREADABLE
        wrong = [(NUMBER, f"{text[:60]!r}")]
    elif column.type is Type.INTEGER:
        found = int(text) if _WHOLE.fullmatch(text) else UNREADABLE
    elif column.type is Type.BOOLEAN:
        found = {"true": True, "false": False}.get(text, UNREADABLE)
    else:
        found = text
    return found, wrong if found is UNREADABLE else []


def _time(text: str) -> tuple[Any, Wrong]:
    try:
        if _TIME.fullmatch(text):
            return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC), []
    except ValueError:
        pass
    return UNREADABLE, [(TIME, f"{text[:60]!r}")]


def check_value(value: Any, column: Column) -> Iterator[tuple[Rule, str]]:
    """About a value of the type of its column."""
    if value is None:
        if not column.nullable:
            yield NULL, "is null"
    elif isinstance(value, str):
        yield from _check_text(value, column)
    elif isinstance(value, datetime) and (value.microsecond or value.utcoffset()):
        yield TIME, f"{value.isoformat()} is no whole second in UTC"


def _check_text(value: str, column: Column) -> Iterator[tuple[Rule, str]]:
    if not value.strip():
        yield BLANK, "is empty"
        return
    if not value.isascii() and not column.custom:
        yield ASCII, ascii(value[:60])
    if column.allowed and value not in column.allowed:
        yield ALLOWED, f"{value[:60]!r} is none of {', '.join(column.allowed)}"
    if column.name == "BillingCurrency" and not re.fullmatch("[A-Z]{3}", value):
        yield CURRENCY, f"{value[:60]!r}"
    if column.name in ("PricingUnit", "ConsumedUnit") and not _UNIT.fullmatch(value):
        yield UNIT, f"{value[:60]!r}"
    if column.type is Type.JSON and (wrong := _wrong_json(value, flat=column.name in _FLAT)):
        yield JSON, wrong


def _wrong_json(text: str, *, flat: bool) -> str:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is there twice")
        return dict(pairs)

    try:
        told = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        return str(error)[:120]
    if not isinstance(told, dict):
        return "is no object"
    if flat and any(isinstance(value, dict | list) for value in told.values()):
        return "has values that are objects or lists"
    return ""


def _of_file(rule: Rule, column: str, detail: str) -> Violation:
    return Violation(rule=rule, row=0, column=column, detail=detail)
