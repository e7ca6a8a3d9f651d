"""What a chart shows, as a table: the page prints the table, and `static/charts.js` draws from it.

So a chart and its table cannot disagree, nothing needs an inline script, and who does not see charts (or has
no JavaScript) has the same numbers. An empty cell is drawn as a gap, never as zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Series:
    """One column of numbers. `tone` is a colour of the style sheet: held, free, unavailable, unknown, or the
    number of a hue."""

    name: Any
    tone: str


@dataclass(frozen=True)
class Value:
    """A number for the chart (None = not known) and as people read it."""

    number: float | None
    shown: str


@dataclass(frozen=True)
class Row:
    label: str
    # The same, shorter, for the axis.
    tick: str
    values: Sequence[Value]


@dataclass(frozen=True)
class Figure:
    """A stacked bar chart: one bar per row, one part per series."""

    id: str
    label: Any
    # What the rows are, and what is counted.
    rows_are: Any
    unit: Any
    series: Sequence[Series]
    rows: Sequence[Row]
    # Bars that touch (time), or stand apart (kinds).
    touching: bool = False
    note: Any = ""
    # Where the table is long, it is folded.
    folded: bool = True
