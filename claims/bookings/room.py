"""The arithmetic of bookings: how many devices more fit at a time. Pure; moments are UTC, spans half-open.

Several flavors may be made of the same devices, so a number per flavor does not do. Devices are counted by
the set of targets that would take them (`Group`), what is planned by its target; how many more of a target
fit is the flow that is left when everything else has been given its devices.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

# The positions of the targets that would take these devices.
Group = frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Devices of a group that are held until a moment that is known."""

    group: Group
    count: int
    until: datetime


@dataclass(frozen=True, kw_only=True)
class Use:
    """Devices that a target is going to have from `start` (inclusive) to `end` (exclusive)."""

    target: int
    count: int
    start: datetime
    end: datetime
    # By a booking; else by a request that waits.
    booked: bool = True


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Usable devices by group, and what takes some of them away for a time."""

    usable: Mapping[Group, int]
    holds: Sequence[Hold] = ()
    uses: Sequence[Use] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """A span in which the number of devices that fit does not change."""

    start: datetime
    end: datetime
    room: int


def steps(fleet: Fleet, *, target: int, start: datetime, end: datetime) -> Iterator[Step]:
    """How many devices of `target` fit, over [start, end), in order and without gaps."""
    marks = {start}
    marks |= {hold.until for hold in fleet.holds}
    marks |= {moment for use in fleet.uses for moment in (use.start, use.end)}
    within = sorted(mark for mark in marks if start <= mark < end)
    for begin, until in zip(within, [*within[1:], end], strict=True):
        yield Step(start=begin, end=until, room=room_at(fleet, target=target, at=begin))


def room(fleet: Fleet, *, target: int, start: datetime, end: datetime) -> int:
    """How many devices of `target` fit throughout [start, end)."""
    return min(step.room for step in steps(fleet, target=target, start=start, end=end))


def room_at(fleet: Fleet, *, target: int, at: datetime) -> int:
    """How many devices of `target` fit at one moment, besides all that is planned for it."""
    left = dict(fleet.usable)
    for hold in fleet.holds:
        if hold.until > at and hold.group in left:
            left[hold.group] = max(0, left[hold.group] - hold.count)
    demand: Counter[int] = Counter()
    for use in fleet.uses:
        if use.start <= at < use.end:
            demand[use.target] += use.count
    return spare(left, demand, target=target)


def spare(devices: Mapping[Group, int], demand: Mapping[int, int], *, target: int) -> int:
    """How many devices more `target` could be given when every demand is served as far as possible.

    Augmenting paths: who has devices of a group that others need gives way to another of its groups."""
    left = dict(devices)
    given: dict[int, Counter[Group]] = defaultdict(Counter)

    def give(who: int, amount: int, seen: set[Group]) -> int:
        for group in devices:
            if who not in group or group in seen:
                continue
            seen.add(group)
            moved = min(amount, left[group])
            if moved:
                left[group] -= moved
                given[who][group] += moved
                return moved
            for other in group:
                if other == who or not given[other][group]:
                    continue
                moved = give(other, min(amount, given[other][group]), seen)
                if moved:
                    given[other][group] -= moved
                    given[who][group] += moved
                    return moved
        return 0

    def give_all(who: int, amount: int) -> int:
        had = 0
        while had < amount and (moved := give(who, amount - had, set())):
            had += moved
        return had

    for who in sorted(demand):
        if give_all(who, demand[who]) < demand[who] and who == target:
            return 0
    return give_all(target, sum(left.values()))


def first_fit(
    fleet: Fleet, *, target: int, count: int, duration: timedelta, start: datetime, until: datetime
) -> datetime | None:
    """The first moment in [start, until) from which so many devices fit for so long; None = none."""
    since: datetime | None = None
    for step in steps(fleet, target=target, start=start, end=until + duration):
        if step.room < count:
            since = None
            continue
        since = since or step.start
        if since >= until:
            return None
        if step.end - since >= duration:
            return since
    return None


def shortage(
    fleet: Fleet, *, target: int, count: int, start: datetime, end: datetime
) -> tuple[datetime, int] | None:
    """The first moment in [start, end) at which so many devices would fit but for the bookings, and how many
    are missing then. What does not fit anyway is not the bookings' fault. None = there is none."""
    unbooked = replace(fleet, uses=[use for use in fleet.uses if not use.booked])
    for step in steps(fleet, target=target, start=start, end=end):
        if step.room < count <= room_at(unbooked, target=target, at=step.start):
            return step.start, count - step.room
    return None
