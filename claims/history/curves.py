"""Numbers that change in steps, and their means over buckets of time. Pure, and exact in microseconds.

A period is divided into equal buckets, and those where the observation of a cluster changes: what lies
between two such edges is a cell. Within a cell one thing holds, so nothing has to be shared out by guess.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# More gaps than these in one grid are drawn as one long gap: each is an edge that all sums are cut at.
MOST_GAPS = 30

# What can be said of a cell: everything, only what is held for certain, nothing of the devices that there
# are, or nothing at all (before the cluster was followed, and in the future).
SEEN, LOST, BEHIND, NOTHING = "seen", "lost", "behind", ""


def us(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Equal buckets of time, the last of which `now` is in; in microseconds since 1970."""

    start: int
    width: int
    count: int
    now: int

    @classmethod
    def until(cls, now: datetime, *, length: timedelta, bucket: timedelta) -> "Grid":
        """As many buckets as make up `length`. They begin on multiples of their width."""
        width, count = bucket // MICROSECOND, length // bucket
        end = (us(now) // width + 1) * width
        return cls(start=end - count * width, width=width, count=count, now=us(now))

    @property
    def end(self) -> int:
        return self.start + self.count * self.width

    def begin(self, index: int) -> datetime:
        """When a bucket begins."""
        return moment(self.start + index * self.width)


class Level(NamedTuple):
    """Mean numbers of devices over a stretch of time."""

    held: float = 0.0
    free: float = 0.0
    unavailable: float = 0.0
    unknown: float = 0.0

    @property
    def total(self) -> float:
        return sum(self)


def added(levels: Iterable[Level | None]) -> Level | None:
    """The sum of the levels that are known; None where none is."""
    known = [level for level in levels if level is not None]
    return Level(*(sum(parts) for parts in zip(*known, strict=True))) if known else None


@dataclass(frozen=True)
class Cells:
    """The cells of a grid; `states` says what can be said of each."""

    grid: Grid
    # Where the observation changes, strictly within the grid.
    extra: Sequence[int]
    edges: Sequence[int]
    states: Sequence[str]

    @classmethod
    def cut(
        cls, grid: Grid, *, known_from: int, in_step_until: int, lost: Sequence[tuple[int, int]] = ()
    ) -> "Cells":
        """The cells of a cluster that is followed since `known_from` and in step up to `in_step_until`, with
        the periods in which changes can have gone unseen, in any order."""
        gaps = merged(lost)
        if len(gaps) > MOST_GAPS:
            gaps = [(gaps[0][0], gaps[-1][1])]
        marks = {known_from, in_step_until, grid.now, *(edge for gap in gaps for edge in gap)}
        extra = sorted(mark for mark in marks if grid.start < mark < grid.end)
        edges = sorted({*range(grid.start, grid.end + 1, grid.width), *extra})

        def state(at: int) -> str:
            if not known_from <= at < grid.now:
                return NOTHING
            if at >= in_step_until:
                return BEHIND
            return LOST if any(start <= at < end for start, end in gaps) else SEEN

        return cls(grid, extra, edges, [state(at) for at in edges[:-1]])

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def index(self) -> Mapping[tuple[int, int], int]:
        """(bucket, how many extra edges have been passed) → cell."""
        return {self.place(at): cell for cell, at in enumerate(self.edges[:-1])}

    def place(self, at: int) -> tuple[int, int]:
        """The bucket of an instant, and how many extra edges it has passed."""
        return (at - self.grid.start) // self.grid.width, sum(edge <= at for edge in self.extra)

    def of(self, at: int) -> int:
        """The cell of an instant within the grid."""
        return self.index[self.place(at)]

    def by_bucket(self) -> list[list[int]]:
        """The cells of each bucket."""
        cells: list[list[int]] = [[] for _ in range(self.grid.count)]
        for cell, at in enumerate(self.edges[:-1]):
            cells[(at - self.grid.start) // self.grid.width].append(cell)
        return cells

    def length(self, cell: int) -> int:
        return self.edges[cell + 1] - self.edges[cell]


@dataclass
class Curve:
    """A number over the cells that starts at zero and changes in steps."""

    cells: Cells
    _within: list[int] = field(init=False)
    _steps: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._within = [0] * len(self.cells)
        self._steps = [0] * (len(self.cells) + 1)

    def begin(self, value: int) -> None:
        """It is so much more from the beginning on."""
        self._steps[0] += value

    def change(self, at: int, by: int) -> None:
        """It is so much more from that instant on; before the grid is at its beginning, after it never."""
        if at <= self.cells.grid.start:
            self.begin(by)
        elif at < self.cells.grid.end:
            self.change_in(self.cells.of(at), by, by * at)

    def change_in(self, cell: int, by: int, weighted: int) -> None:
        """Several changes within one cell: by so much together; `weighted` adds up change × instant."""
        self._within[cell] += by * self.cells.edges[cell + 1] - weighted
        self._steps[cell + 1] += by

    @property
    def last(self) -> int:
        """The number at the end of the grid."""
        return sum(self._steps)

    def means(self) -> list[float]:
        """The mean over each cell."""
        levels = accumulate(self._steps[:-1])
        lengths = (end - start for start, end in pairwise(self.cells.edges))
        return [
            level + within / length
            for level, within, length in zip(levels, self._within, lengths, strict=True)
        ]


def merged(periods: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The periods in order, with those that touch made one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(periods):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return found
