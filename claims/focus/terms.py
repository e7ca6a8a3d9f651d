"""What a rule is, and what it finds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from claims.focus.columns import VERSIONS

# A row of a file: texts, decimals, times, numbers; what could not be read is not in it.
Row = Mapping[str, Any]
# Which column, and what is wrong with it.
Fault = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`text` is the rule itself, as a sentence."""

    code: str
    text: str
    versions: Sequence[str] = VERSIONS


@dataclass(frozen=True, kw_only=True)
class Violation:
    """`row` counts from 1, without the header; 0 = the file as a whole."""

    rule: Rule
    row: int
    column: str
    detail: str

    def __str__(self) -> str:
        where = f"row {self.row}" if self.row else "file"
        return f"{where}, {self.column or '-'}: {self.rule.code}: {self.detail}"


@dataclass(frozen=True, kw_only=True)
class RowRule:
    """A rule that a row keeps or breaks by itself."""

    rule: Rule
    check: Callable[[Row], Iterable[Fault]]


class Sum(Protocol):
    """A rule about many rows: each is shown to it, and then it tells."""

    rule: Rule

    def see(self, row: Row, number: int) -> Iterator[Violation]: ...

    def end(self) -> Iterator[Violation]: ...
