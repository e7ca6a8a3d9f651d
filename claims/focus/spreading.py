"""What each row is billed: so that the rows of a line of a statement come to what the line says, to the last
digit.

A line is rounded to the currency's minor unit, by the largest remainder over its statement. Its rows have
ten places. The difference between the rounded line and its exact amount is spread over its rows by their
size; each row is billed what the running total grows by when it is rounded, so that nothing is ever lost,
and no row has to be remembered. In whole numbers throughout.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from claims.focus.columns import BILLED_PLACES

# Running totals have thirty places: a million roundings of them do not reach the tenth.
_FINE = 10**30
_STEP: int = 10 ** (30 - BILLED_PLACES)


def fine(amount: Fraction) -> int:
    """The amount in 10⁻³⁰ of a currency unit, rounded down."""
    told: int = amount.numerator * _FINE // amount.denominator
    return told


@dataclass(kw_only=True)
class Spread:
    """One line while its rows go by. `goal` is what it was rounded to, `exact` what it exactly is, `size` the
    sum of its rows' amounts without their signs, `rows` how many there are."""

    goal: Fraction
    exact: Fraction
    size: Fraction
    rows: int
    _seen: int = field(default=0, init=False)
    _sum: int = field(default=0, init=False)
    _weight: int = field(default=0, init=False)
    _told: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._goal = fine(self.goal)
        self._difference = self._goal - fine(self.exact)
        self._size = fine(self.size)

    def next(self, exact: Fraction) -> int:
        """What the next row is billed, in 10⁻¹⁰ of a currency unit. Its last row brings it to its goal."""
        amount = fine(exact)
        self._seen += 1
        self._sum += amount
        self._weight += abs(amount)
        if self._seen == self.rows:
            reached = self._goal
        else:
            part = self._difference * self._weight // self._size if self._size else 0
            reached = self._sum + part
        rounded = (2 * reached + _STEP) // (2 * _STEP)
        billed, self._told = rounded - self._told, rounded
        return billed


def spread(amounts: Iterable[Fraction], *, goal: Fraction) -> list[int]:
    """The same for amounts that are all at hand."""
    rows = list(amounts)
    line = Spread(
        goal=goal,
        exact=sum(rows, Fraction(0)),
        size=sum((abs(row) for row in rows), Fraction(0)),
        rows=len(rows),
    )
    return [line.next(row) for row in rows]
