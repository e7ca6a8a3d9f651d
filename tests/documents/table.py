"""The rows of `commands.toml`."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PATH = Path(__file__).parent / "commands.toml"
FUNCTIONS = PATH.with_name("functions.sh")
EVERYWHERE = "everywhere"


@dataclass(frozen=True)
class Row:
    """One command; the head of the file says what each column means."""

    command: str
    says: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    because: str = ""
    before: str = ""
    after: str = ""
    status: int = 0
    goes_on: bool = False
    takes_long: bool = False
    needs: str = ""

    def script(self) -> str:
        """What is given to the shell."""
        text = self.run or self.command
        for placeholder, value in {"https://desk.example.org": "$DESK", **self.where}.items():
            text = text.replace(placeholder, value)
        return "\n".join(part for part in (self.before, text, self.after) if part)


@dataclass(frozen=True)
class Table:
    """`rows` by document, `EVERYWHERE` for those that count in all; `readers` and `others` as in the file."""

    rows: Mapping[str, tuple[Row, ...]]
    readers: Mapping[str, Mapping[str, str]]
    others: Mapping[str, str]

    def rows_of(self, document: str) -> Iterator[Row]:
        """Those of the document, and then those that count everywhere."""
        yield from self.rows.get(document, ())
        yield from self.rows[EVERYWHERE]


def read() -> Table:
    whole = tomllib.loads(PATH.read_text())
    readers, others = whole.pop("readers"), whole.pop("others")
    rows = {
        document: tuple(Row(**{**row, "says": tuple(row.pop("says", ()))}) for row in listed)
        for document, listed in whole.items()
    }
    return Table(rows, readers, others)
