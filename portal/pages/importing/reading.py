"""CSV as people have it: with or without a byte-order mark, commas, semicolons or tabs; bounded in size."""

import codecs
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

MAX_BYTES = 1024 * 1024
# Of each table. A line takes some milliseconds, and while an import runs nobody else writes to an SQLite.
MAX_LINES = 1_000
MAX_CELL = 1_000
MAX_FAULTS = 100
DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Fault:
    """What is wrong, and where: the table, the line (1 = the header, 0 = the whole), the column or ""."""

    table: str
    line: int
    column: str
    message: str


@dataclass(frozen=True)
class Shape:
    """A table's columns: those that must be there, and those that may."""

    name: str
    required: Sequence[str]
    optional: Sequence[str] = ()

    @property
    def columns(self) -> Sequence[str]:
        return (*self.required, *self.optional)


@dataclass(frozen=True)
class Row:
    """One line. `cells` has the columns that the file has, without blanks around their values."""

    line: int
    cells: Mapping[str, str]


PROJECTS = Shape("projects", ("project", "name"), ("cost_centre", "description"))
MEMBERS = Shape("members", ("project", "person", "role"))
NAMESPACES = Shape("namespaces", ("project", "cluster", "namespace"), ("from", "until"))
# In the order in which they are done: members and namespaces may name projects of the same import.
SHAPES = (PROJECTS, MEMBERS, NAMESPACES)


class Unreadable(ValueError):
    """The file is no text that could be read; the message says what to do."""


def decoded(raw: bytes) -> str:
    """The text of a file: UTF-8 (with a mark or without), or UTF-16 with its mark. Raises Unreadable."""
    if len(raw) > MAX_BYTES:
        raise Unreadable(_("The file is larger than %(size)s KiB.") % {"size": MAX_BYTES // 1024})
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Unreadable(
            _("Line %(line)s is not UTF-8. Save the file as “CSV UTF-8”.") % {"line": line}
        ) from None


def read(text: str, shape: Shape) -> tuple[list[Row], list[Fault]]:
    """The rows of a table and what is wrong with its form; nothing at all for a text without a line."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        return [], []
    if len(text.encode()) > MAX_BYTES:
        return [], [Fault(shape.name, 0, "", _("The table is too large."))]
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        return [], [Fault(shape.name, line, "", _("There is a NUL character: this is no text."))]
    rows, faults = [], []
    header: list[str] = []
    try:
        for line, cells in _lines(text):
            if not header:
                header = [cell.lower() for cell in cells]
                faults = list(_header_faults(header, shape))
                if faults:
                    return [], faults
                continue
            found = list(_row_faults(line, cells, header, shape))
            faults += found
            if not found:
                rows.append(Row(line, dict(zip(header, cells, strict=False))))
            if len(rows) > MAX_LINES or len(faults) > MAX_FAULTS:
                text_ = _("There are more than %(count)s lines, or faults in most of them.")
                return rows, [*faults, Fault(shape.name, line, "", text_ % {"count": MAX_LINES})]
    except csv.Error as error:
        line = text.count("\n") + 1 if "end of data" in str(error) else 0
        faults.append(Fault(shape.name, line, "", _("This is no CSV: %(error)s.") % {"error": error}))
    return rows, faults


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines with something in them, with the number on which each begins."""
    first = text.lstrip().splitlines()[0]
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begins = 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield begins, [cell.strip() for cell in cells]
        begins = reader.line_num + 1


def _header_faults(header: Sequence[str], shape: Shape) -> Iterator[Fault]:
    for number, name in enumerate(header, start=1):
        if name not in shape.columns:
            said = _("There is no column “%(name)s” (the %(number)s. one). Known are: %(known)s.") % {
                "name": name[:80],
                "number": number,
                "known": ", ".join(shape.columns),
            }
            yield Fault(shape.name, 1, name[:80], said)
        elif name in header[: number - 1]:
            yield Fault(shape.name, 1, name, _("This column is there twice."))
    for name in shape.required:
        if name not in header:
            yield Fault(shape.name, 1, name, _("This column is missing."))


def _row_faults(line: int, cells: Sequence[str], header: Sequence[str], shape: Shape) -> Iterator[Fault]:
    if len(cells) != len(header):
        said = _("The line has %(found)s cells, the header has %(wanted)s.") % {
            "found": len(cells),
            "wanted": len(header),
        }
        yield Fault(shape.name, line, "", said)
        return
    for name, cell in zip(header, cells, strict=True):
        if name in shape.required and not cell:
            yield Fault(shape.name, line, name, _("This is empty."))
        elif len(cell) > MAX_CELL:
            yield Fault(shape.name, line, name, _("This is longer than %(n)s characters.") % {"n": MAX_CELL})
