"""The rules of FOCUS 1.2 and 1.4, and files and rows checked by them.

The rules are those of the specification's dataset "Cost and Usage" that a file can be seen to keep, its
arithmetic included, and a few of our own about our x_ columns. A file is read once, row by row, in memory
that does not grow with it (but for a sum per invoice, and a price per SKU).
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from claims.focus import value_rules
from claims.focus.columns import VERSIONS, Column, Type, named
from claims.focus.row_rules import ROW_RULES
from claims.focus.sum_rules import SUM_RULES, sums
from claims.focus.terms import Row, Rule, Violation
from claims.focus.value_rules import UNREADABLE, VALUE_RULES

RULES: tuple[Rule, ...] = (*VALUE_RULES, *(one.rule for one in ROW_RULES), *SUM_RULES)
# How many rows of Parquet are looked at together.
BATCH = 5_000
# Columns that only one of the versions has.
_NEW, _OLD = "ServiceProviderName", "ProviderName"


class Unreadable(Exception):
    """The file cannot be checked at all; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def rules(version: str) -> list[Rule]:
    return [rule for rule in RULES if version in rule.versions]


def check(
    rows: Iterable[Sequence[Any]],
    names: Sequence[str],
    *,
    version: str,
    written: bool,
    totals: Mapping[str, Decimal] | None = None,
) -> Iterator[Violation]:
    """Every violation, in order of the rows. `names` are the columns, `rows` have a value for each: texts as
    CSV has them where `written`, else values in their types. `totals` is what invoices come to, if known."""
    known = named(version)
    yield from value_rules.check_columns(names, known)
    columns = [known.get(name, Column(name=name)) for name in names]
    alone = [one for one in ROW_RULES if version in one.rule.versions]
    many = sums(totals)
    for number, values in enumerate(rows, start=1):
        if len(values) != len(columns):
            detail = f"{len(values)} fields, and {len(columns)} columns"
            yield Violation(rule=value_rules.WIDTH, row=number, column="", detail=detail)
            continue
        row: dict[str, Any] = {}
        for value, column in zip(values, columns, strict=True):
            yield from _value(value, column, row, number, written=written)
        yield from _row(row, number, alone)
        for one in many:
            yield from one.see(row, number)
    for one in many:
        yield from one.end()


def _value(
    value: Any, column: Column, row: dict[str, Any], number: int, *, written: bool
) -> Iterator[Violation]:
    """Checks one value and puts it into the row, unless nothing can be made of it."""
    found, wrong = value_rules.read(value, column) if written else (value, [])
    if found is not UNREADABLE:
        row[column.name] = found
        wrong = [*wrong, *value_rules.check_value(found, column)]
    for rule, detail in wrong:
        yield Violation(rule=rule, row=number, column=column.name, detail=detail)


def _row(row: Row, number: int, alone: Iterable[Any]) -> Iterator[Violation]:
    for one in alone:
        for column, detail in one.check(row):
            yield Violation(rule=one.rule, row=number, column=column, detail=detail)


# --- files --------------------------------------------------------------------------------------


def check_file(
    path: Path, *, version: str = "", totals: Mapping[str, Decimal] | None = None
) -> Iterator[Violation]:
    """Of CSV or Parquet, by the file's ending. Without a version it is told by the columns. Raises
    Unreadable."""
    if path.suffix == ".parquet":
        return _check_parquet(path, version, totals)
    return _check_csv(path, version, totals)


def version_of(names: Iterable[str]) -> str:
    """By the columns that only one version has. Raises Unreadable."""
    found = set(names)
    if (_NEW in found) == (_OLD in found):
        raise Unreadable(f"Say which version it is: one of {', '.join(VERSIONS)}.")
    return "1.4" if _NEW in found else "1.2"


def _check_csv(path: Path, version: str, totals: Mapping[str, Decimal] | None) -> Iterator[Violation]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            names = next(reader, None)
            if not names:
                raise Unreadable(f"{path} is empty.")
            rows = ([field or None for field in row] for row in reader)
            yield from check(rows, names, version=version or version_of(names), written=True, totals=totals)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error


def _check_parquet(path: Path, version: str, totals: Mapping[str, Decimal] | None) -> Iterator[Violation]:
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            version = version or version_of(names)
            yield from _check_types(file.schema_arrow, named(version))
            rows = (
                row
                for batch in file.iter_batches(batch_size=BATCH)
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            )
            yield from check(rows, names, version=version, written=False, totals=totals)
    except (OSError, pa.ArrowException) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error


_TYPES = {
    Type.DECIMAL: pa.types.is_decimal,
    Type.DATETIME: lambda kind: pa.types.is_timestamp(kind) and kind.tz == "UTC",
    Type.INTEGER: pa.types.is_integer,
    Type.BOOLEAN: pa.types.is_boolean,
}


def _check_types(schema: Any, known: Mapping[str, Column]) -> Iterator[Violation]:
    for field in schema:
        column = known.get(field.name)
        if column is not None and not _TYPES.get(column.type, pa.types.is_string)(field.type):
            detail = f"is {field.type}, and not {column.type}"
            yield Violation(rule=value_rules.TYPE, row=0, column=field.name, detail=detail)


class Beside:
    """The metadata that lies beside a file. Raises Unreadable for what is none."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}.metadata.json")
        self.there = self.path.exists()
        try:
            told = json.loads(self.path.read_text(encoding="utf-8")) if self.there else {}
            self.version: str = told["Schema"][0]["FocusVersion"] if told else ""
            self.totals = (
                {one["InvoiceId"]: Decimal(one["BilledCost"]) for one in told["x_Invoices"]} if told else None
            )
            self.sha256: str = told["x_File"]["Sha256"] if told else ""
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise Unreadable(f"{self.path} cannot be read: {error!r}") from error

    def check(self, file: Path) -> Iterator[Violation]:
        """Whether the file is the one that the metadata are of."""
        try:
            with file.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise Unreadable(f"{file} cannot be read: {error}") from error
        if self.there and found != self.sha256:
            detail = f"has the SHA-256 {found}, its metadata tell {self.sha256}"
            yield Violation(rule=value_rules.CHECKSUM, row=0, column="", detail=detail)
