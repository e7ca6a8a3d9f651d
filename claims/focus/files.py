"""Rows as files: CSV and Parquet, piece by piece as they are written.

CSV is UTF-8 without a mark; null is an empty field without quotes; a text that a spreadsheet would take for
a formula gets an apostrophe before it, as in every table of the desk. Parquet has the same columns in their
types, compressed with zstd, in groups of rows.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from claims.focus.columns import Column, Type, arrow_schema, columns
from claims.focus.values import number
from portal import csvs

FORMATS = ("csv", "parquet")
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
# Lines of CSV that are sent together, and rows of a group of Parquet.
LINES = 500
GROUP = 8_192


def written(rows: Iterable[Mapping[str, Any]], *, version: str, form: str) -> Iterator[bytes]:
    """The file, in pieces."""
    return _csv(rows, columns(version)) if form == "csv" else _parquet(rows, version)


def time_text(at: datetime) -> str:
    """Of a time in UTC."""
    return f"{at.isoformat()[:19]}Z"


def _csv(rows: Iterable[Mapping[str, Any]], of: Sequence[Column]) -> Iterator[bytes]:
    buffer = StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.name for column in of])
    names = [column.name for column in of]
    told = [
        (n, text) for n, c in enumerate(of) if (text := None if c.ours else _TEXTS.get(c.type)) is not None
    ]
    for line, row in enumerate(rows, start=1):
        values = [row[name] for name in names]
        for place, text in told:
            if (value := values[place]) is not None:
                values[place] = text(value)
        writer.writerow(values)
        if line % LINES == 0:
            yield buffer.getvalue().encode("utf-8", "backslashreplace")
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode("utf-8", "backslashreplace")


def _boolean(value: bool) -> str:  # noqa: FBT001 - it is the value
    return "true" if value else "false"


_TEXTS: Mapping[Type, Any] = {
    Type.STRING: csvs.cell,
    Type.DECIMAL: number,
    Type.DATETIME: time_text,
    Type.BOOLEAN: _boolean,
}


class _Sink:
    """What Parquet is written to: gives away what has been written so far."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def write(self, part: Any) -> int:
        told = bytes(part)
        self._parts.append(told)
        self._at += len(told)
        return len(told)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing to close."""

    def taken(self) -> bytes:
        told = b"".join(self._parts)
        self._parts.clear()
        return told


def _parquet(rows: Iterable[Mapping[str, Any]], version: str) -> Iterator[bytes]:
    schema, sink = arrow_schema(version), _Sink()
    names = schema.names
    iterator = iter(rows)
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        while chunk := list(islice(iterator, GROUP)):
            values = [
                pa.array([_clean(row[name]) for row in chunk], type=schema.field(name).type) for name in names
            ]
            writer.write_table(pa.table(values, schema=schema), row_group_size=GROUP)
            yield sink.taken()
    yield sink.taken()


def _clean(value: Any) -> Any:
    """Half a character is in no UTF-8."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value
