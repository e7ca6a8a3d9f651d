"""Reads `table.md`: who may call what."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

PATH = Path(__file__).with_name("table.md")
SHOWN_PATH = "tests/access/table.md"

ROLES = ("owner", "teammate", "lead", "stranger", "finance", "administrator", "auditor", "anonymous")
# Tokens of the administrator, each with one scope: what they are refused, they are refused for the scope.
SCOPES = ("inventory", "requests", "chargeback", "administration")
COLUMNS = ("call", "with", *ROLES, *SCOPES, "records")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# In the place of a status: a redirect to the sign-in page.
SIGN_IN = "login"
NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """One call: `expected` is the status (or SIGN_IN) by role and, for REST, by scope of a token.

    `records` names the action of the audit entry that every success leaves; "– reason" says why it leaves
    none."""

    method: str
    name: str
    arguments: Mapping[str, str]
    expected: Mapping[str, str]
    records: str

    def __str__(self) -> str:
        return f"{self.method} {self.name}"


def read(text: str | None = None) -> list[Row]:
    """All rows of the table, in its order. ValueError names a line that is not one."""
    rows: list[Row] = []
    columns: tuple[str, ...] = COLUMNS
    for number, line in enumerate((text or PATH.read_text()).splitlines(), 1):
        cells = _cells(line)
        if not cells or set(line) <= set("|-: "):
            continue
        if cells[0] == "call":
            columns = tuple(cells)
            continue
        if len(cells) != len(columns):
            raise ValueError(
                f"{SHOWN_PATH}:{number} has {len(cells)} cells instead of {len(columns)}: {line}"
            )
        rows.append(_row(dict(zip(columns, cells, strict=True)), number))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")] if line.startswith("|") else []


def _row(cells: dict[str, str], number: int) -> Row:
    method, _space, name = cells["call"].partition(" ")
    if method not in METHODS or not name:
        raise ValueError(f"{SHOWN_PATH}:{number}: {cells['call']!r} is no method and URL name")
    expected = {who: cells[who] for who in (*ROLES, *SCOPES) if cells.get(who)}
    for who, status in expected.items():
        if not re.fullmatch(rf"\d{{3}}|{SIGN_IN}", status):
            raise ValueError(f"{SHOWN_PATH}:{number}: {status!r} ({who}) is no status")
    if (method == "GET") != (not cells["records"]):
        raise ValueError(f"{SHOWN_PATH}:{number}: calls that change say what they record, others nothing")
    arguments = dict(pair.split("=", 1) for pair in cells["with"].split())
    return Row(method, name, arguments, expected, cells["records"])


def line(row: Row) -> str:
    """The row as it stands in the table; pages have no columns for tokens."""
    who = (*ROLES, *SCOPES) if set(SCOPES) & set(row.expected) else ROLES
    cells = (
        str(row),
        " ".join(f"{name}={value}" for name, value in row.arguments.items()),
        *(row.expected.get(one, "") for one in who),
        row.records,
    )
    return "| " + " | ".join(cells) + " |"


def aligned(text: str) -> str:
    """The same file with the columns of each of its tables below each other."""
    done: list[str] = []
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        block = list(lines)
        done += _aligned(block) if is_table else block
    return "\n".join(done) + "\n"


def _aligned(lines: list[str]) -> list[str]:
    rows = [_cells(line) for line in lines if not set(line) <= set("|-: ")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    told = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return [told[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *told[1:]]


if __name__ == "__main__":  # python -m tests.access.table
    PATH.write_text(aligned(PATH.read_text()))
