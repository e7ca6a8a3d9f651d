"""Numbers that change in steps: exact means over cells, and what may be said of which."""

import pytest

from claims.history.curves import BEHIND, LOST, NOTHING, SEEN, Cells, Curve, Grid, Level, added, merged
from claims.history.watched import Watched

GRID = Grid(start=0, width=100, count=3, now=250)


def cells(**changes: object) -> Cells:
    return Cells.cut(GRID, **{"known_from": 0, "in_step_until": 250, **changes})  # type: ignore[arg-type] # test


def test_cells_are_cut_where_the_observation_changes() -> None:
    cut = cells(known_from=30, in_step_until=220, lost=[(90, 130)])
    told = list(zip(cut.edges, cut.states, strict=False))
    assert told == [
        (0, NOTHING), (30, SEEN), (90, LOST), (100, LOST), (130, SEEN), (200, SEEN), (220, BEHIND),
        (250, NOTHING),
    ]  # fmt: skip
    assert cut.by_bucket() == [[0, 1, 2], [3, 4], [5, 6, 7]]


@pytest.mark.parametrize("at", range(0, 300, 7))
def test_every_instant_is_in_the_cell_around_it(at: int) -> None:
    cut = cells(known_from=30, in_step_until=220, lost=[(90, 130), (130, 131)])
    cell = cut.of(at)
    assert cut.edges[cell] <= at < cut.edges[cell + 1]


def test_a_curve_is_integrated_exactly() -> None:
    curve = Curve(cells())
    curve.begin(2)
    curve.change(-5, 1)
    curve.change(50, -1)
    curve.change(110, 4)
    curve.change(10**9, 100)
    assert curve.means() == [2.5, 5.6, 6.0, 6.0]
    assert curve.last == 6


def test_changes_of_a_cell_may_come_together() -> None:
    apart, together = Curve(cells()), Curve(cells())
    for at in (105, 120, 199):
        apart.change(at, 1)
    together.change_in(1, 3, 105 + 120 + 199)
    assert apart.means() == together.means()


def test_periods_that_touch_are_one_however_many_others_there_are() -> None:
    assert merged([(5, 9), (1, 3), (3, 4), (6, 7), (2, 2)]) == [(1, 4), (5, 9)]
    apart = [(2 * n, 2 * n + 1) for n in range(100)]
    assert merged(reversed(apart)) == apart


def test_too_many_gaps_are_drawn_as_one() -> None:
    cut = cells(lost=[(2 * n, 2 * n + 1) for n in range(100)])
    assert set(cut.states[: cut.of(199)]) == {LOST}
    assert cut.states[cut.of(199)] == SEEN
    assert len(cut) <= GRID.count + 3


def test_what_was_seen_between_many_gaps_is_known() -> None:
    """Audits and the price of idle time go by this, over all the years that a desk has run."""
    gaps = [(1_000 * n, 1_000 * n + 1) for n in range(1, 100)]
    seen = Watched(known_from=0, in_step_until=100_000, lost=gaps)
    assert seen.blanks(0, 100_000) == gaps
    assert seen.blanks(5_000, 7_000) == [(5_000, 5_001), (6_000, 6_001)]


def test_unknown_levels_do_not_count_as_zero() -> None:
    assert added([None, Level(held=1), None, Level(free=2)]) == Level(held=1, free=2)
    assert added([None, None]) is None
