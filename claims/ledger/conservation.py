"""Every piece of hardware at every instant: allocated + idle + unavailable + unknown = existence. Pure.

A piece is a device, or what partitions are cut from: those draw on the counters of one set, and are
alternatives that share it. How much of a piece is in use is the largest used/total over its counters or
capacities. What is held exists, whoever stopped to tell of it. Idle is never cut off at zero: a negative one
is a defect, and named.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from inventory.identity import amount_named
from portal.dra.quantity import InvalidQuantity, Quantity

# What an exclusive device is used up by.
WHOLE = ""
# Uses that add up with none of their kind: shares of which nobody tells how much they take, and second
# holders of what has one already, which the audit names for that. Both keep the piece from being idle.
UNTOLD, SECOND = "\0untold/", "\0second/"
Number = int | Fraction


class Use(NamedTuple):
    """[start, end) in microseconds since 1970, and how much of what it takes."""

    start: int
    end: int
    parts: Mapping[str, Number]
    # UNTOLD or SECOND; else it adds up with the others.
    apart: str = ""


class Span(NamedTuple):
    """[start, end) in microseconds since 1970."""

    start: int
    end: int


@dataclass
class Piece:
    """What is known of one piece of hardware; `published` and `barred` are times of each of its entries,
    `cut` whether partitions are cut from it."""

    name: str
    uses: list[Use] = field(default_factory=list)
    published: list[Span] = field(default_factory=list)
    barred: list[Span] = field(default_factory=list)
    cut: bool = False


@dataclass
class Sums:
    """Device time in microseconds, exactly."""

    existence: Number = 0
    allocated: Number = 0
    idle: Number = 0
    unavailable: Number = 0
    unknown: Number = 0

    def add(self, other: "Sums") -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def conserved(self) -> bool:
        return self.existence == self.allocated + self.idle + self.unavailable + self.unknown


class Excess(NamedTuple):
    """More in use than there is, for the first time at `at`."""

    at: int
    what: str
    share: Number


def add_up(piece: Piece, blanks: Sequence[tuple[int, int]]) -> tuple[Sums, Excess | None]:
    """The piece's sums, and where they cannot be. `blanks` are the times that nobody saw, in order."""
    sums, excess = Sums(), None
    for cell in _told(piece, blanks):
        time = cell.end - cell.start
        rest = cell.exists - cell.share
        sums.existence += cell.exists * time
        sums.allocated += cell.share * time
        if rest < 0 and excess is None:
            excess = Excess(cell.start, cell.most, cell.share)
        setattr(sums, cell.rest, getattr(sums, cell.rest) + rest * time)
    return sums, excess


def idle(piece: Piece, blanks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, Fraction]]:
    """When how much of the piece was there, to be had, seen, and held by nobody: [start, end) in order, in
    microseconds since 1970; neighbours of one share are one."""
    last: tuple[int, int, Fraction] | None = None
    for cell in _told(piece, blanks):
        rest = Fraction(cell.exists - cell.share)
        if cell.rest != "idle" or rest <= 0:
            continue
        if last is not None and (last[1], last[2]) == (cell.start, rest):
            last = last[0], cell.end, rest
            continue
        if last is not None:
            yield last
        last = cell.start, cell.end, rest
    if last is not None:
        yield last


class _Cell(NamedTuple):
    """A stretch of time; `rest` is what the part that nobody holds counts as, `most` what is used most."""

    start: int
    end: int
    exists: int
    share: Number
    rest: str
    most: str


def _told(piece: Piece, blanks: Sequence[tuple[int, int]]) -> Iterator[_Cell]:
    used: dict[str, Number] = defaultdict(int)
    published = barred = 0
    blank = 0
    for start, end, steps in _cells(piece, blanks):
        for step in steps:
            published += step.published
            barred += step.barred
            blank += step.blank
            for name, amount in step.used.items():
                if not (total := used[name] + amount):
                    del used[name]
                else:
                    used[name] = total
        if start == end:
            continue
        share, most = _in_use(used, cut=piece.cut)
        exists = 1 if published > 0 or share > 0 else 0
        rest = "idle"
        if exists > share and blank:
            rest = "unknown"
        elif exists > share and 0 < published <= barred:
            rest = "unavailable"
        yield _Cell(start, end, exists, share, rest, most)


def _in_use(used: Mapping[str, Number], *, cut: bool) -> tuple[Number, str]:
    """How much of a piece is in use, and what of it most: besides who has the whole of a device nobody has a
    share of it. Of what partitions are cut from, "the whole" only means that nobody told how much."""
    if not used:
        return 0, WHOLE
    most = max(used, key=lambda name: used[name])
    share = used[most]
    if (whole := used.get(WHOLE)) and len(used) > 1 and not cut:
        beside = {name: part for name, part in used.items() if name and not name.startswith(SECOND)}
        if beside:
            most = max(beside, key=lambda name: beside[name])
            share = max(share, whole + beside[most])
    return share, WHOLE if most.startswith((UNTOLD, SECOND)) else most


class _Step(NamedTuple):
    published: int = 0
    barred: int = 0
    blank: int = 0
    used: Mapping[str, Number] = {}


def _cells(piece: Piece, blanks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, list[_Step]]]:
    """Stretches within which nothing changes, with what changes at their beginning."""
    steps: dict[int, list[_Step]] = defaultdict(list)
    for span in piece.published:
        steps[span.start].append(_Step(published=1))
        steps[span.end].append(_Step(published=-1))
    for span in piece.barred:
        steps[span.start].append(_Step(barred=1))
        steps[span.end].append(_Step(barred=-1))
    for number, use in enumerate(piece.uses):
        if use.start < use.end:
            parts = use.parts
            if use.apart:
                parts = {f"{use.apart}{number}": max(parts.values(), default=0)}
            steps[use.start].append(_Step(used=parts))
            steps[use.end].append(_Step(used={name: -amount for name, amount in parts.items()}))
    if not steps:
        return
    first, last = min(steps), max(steps)
    for start, end in blanks:
        if start < last and end > first:
            steps[max(start, first)].append(_Step(blank=1))
            steps[min(end, last)].append(_Step(blank=-1))
    edges = sorted(steps)
    for edge, following in zip(edges, [*edges[1:], edges[-1]], strict=True):
        yield edge, following, steps[edge]


def amounts_of(consumed: Mapping[str, Any], capacity: Mapping[str, Any]) -> dict[str, Number]:
    """How much of each capacity of its device a share takes; without those that cannot be told in numbers."""
    parts = {name: _part(amount, _total(amount_named(capacity, name))) for name, amount in consumed.items()}
    return {name: part for name, part in parts.items() if part is not None}


def parts_of(
    *, shared: bool, amounts: Mapping[str, Number], counters: Mapping[str, Any]
) -> Mapping[str, Number]:
    """How much of what one allocation takes: of counters where its device draws on some (as much of them as
    it has of the device), of capacities where it is a share, else the whole device; and so does a share of
    which nobody tells how much, apart from all others (`UNTOLD`)."""
    if counters:
        mine = max(amounts.values(), default=1) if shared else 1
        drawn = {
            name: _part(told.get("used"), told.get("total"))
            for name, told in counters.items()
            if isinstance(told, Mapping)
        }
        return {name: part * mine for name, part in drawn.items() if part is not None}
    return amounts if shared and amounts else {WHOLE: 1}


def _total(told: Any) -> Any:
    return told.get("value") if isinstance(told, Mapping) else told


def _part(used: Any, total: Any) -> Number | None:
    try:
        whole, part = Quantity.parse(str(total)).nanos, Quantity.parse(str(used)).nanos
    except InvalidQuantity:
        return None
    return Fraction(part, whole) if whole > 0 and part >= 0 else None


def spans(changes: Iterable[tuple[int, int]], *, now: int, until_now: bool) -> list[Span]:
    """Stretches from changes (time, +1 or -1) of something that is there or not: what began and did not end
    lasts until now if it is `until_now`, else it is not told of."""
    found: list[Span] = []
    since: int | None = None
    for at, by in sorted(changes):
        if by > 0 and since is None:
            since = at
        elif by < 0 and since is not None:
            found.append(Span(since, at))
            since = None
    if since is not None and until_now and since < now:
        found.append(Span(since, now))
    return found
