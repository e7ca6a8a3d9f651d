"""CSV that can be opened safely: streamed line by line, and no cell is a formula."""

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.http import HttpResponseBase, StreamingHttpResponse

# A spreadsheet takes a cell that starts so for a formula; people choose names and purposes freely.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# What is less than nothing is a number to everybody: as a text, nobody's sum would count it.
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?", re.ASCII)


class _Echo:
    """What csv.writer writes to: gives the line back."""

    def write(self, line: str) -> str:
        return line


def cell(value: Any) -> Any:
    """The value as it may stand in a cell: text that would be a formula gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS) and not _NEGATIVE.fullmatch(value):
        return f"'{value}"
    return "" if value is None else value


def lines(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """The CSV's lines, one at a time."""
    writer = csv.writer(_Echo())
    yield writer.writerow(header)
    for row in rows:
        yield writer.writerow([cell(value) for value in row])


def download(filename: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> HttpResponseBase:
    """A response that streams the rows as a file. UTF-8 with a mark, which spreadsheets need for Chinese."""

    def marked() -> Iterator[str]:
        yield "\ufeff"
        yield from lines(header, rows)

    response = StreamingHttpResponse(marked(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    return response
