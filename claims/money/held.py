"""How many allocations there were, and for how long, by whatever the reader asks for.

The time is that of `claims.money.usage`, of the charges for what somebody held: one source, so that both come
to the same. Besides it, an allocation counts once in each row that has some of its time.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from django.db.models import Count, F, QuerySet

from claims.history.curves import us
from claims.models import Charge
from claims.money.rollup import months_within
from claims.money.usage import TIMES, Wanted, buckets, charges_of, column, rows_of
from portal.accounts.models import User

# Charges that are fetched at a time.
FETCH = 5_000


class Key(NamedTuple):
    """What a row has in common; `groups` is in the order asked for, "" = nothing known."""

    groups: tuple[str, ...]
    unit: str
    per: str


@dataclass(frozen=True, kw_only=True)
class Held:
    """`time` is units × microseconds within the period."""

    key: Key
    time: Fraction
    allocations: int


def held_by(wanted: Wanted, *, viewer: User, now: datetime) -> list[Held]:
    """The rows in order of their keys. `wanted` is parsed as `held`. Raises Http404 for a project that is
    none of the reader's."""
    times: dict[Key, Fraction] = defaultdict(Fraction)
    for row in rows_of(wanted, viewer=viewer, now=now):
        # What has a price and what has none is one row: no amount is told.
        times[Key(*row.key[:3])] += row.time
    counts = _counts(wanted, viewer, now)
    return [Held(key=key, time=times[key], allocations=counts.get(key, 0)) for key in sorted(times)]


def allocations_in(wanted: Wanted, *, viewer: User, now: datetime) -> int:
    """How many allocations all rows are made of: one in several of them counts once."""
    return _timed(wanted, viewer, now).values("source").distinct().count()


# --- counting --------------------------------------------------------------------------------------


def _timed(wanted: Wanted, viewer: User, now: datetime) -> QuerySet[Charge]:
    """The charges that have some time within the period. The `source` of each is one allocation."""
    rows = charges_of(wanted, viewer=viewer, now=now).filter(fixed=None, ended_us__gt=F("started_us"))
    # An index knows the months.
    near = months_within(
        us(wanted.period.start), wanted.end_us(now), wanted.zone, billed=wanted.billed
    )  # fmt: skip
    return (rows if near is None else rows.filter(month__in=near)).order_by()


def _counts(wanted: Wanted, viewer: User, now: datetime) -> Mapping[Key, int]:
    columns = {f"by_{name}": column(name) for name in wanted.group_by if name not in TIMES}
    rows = _timed(wanted, viewer, now).annotate(**columns)
    if len(columns) == len(wanted.group_by):
        counted = rows.values_list(*columns, "unit", "per").annotate(count=Count("source", distinct=True))
        return {Key(tuple(groups), unit, per): count for *groups, unit, per, count in counted}
    return _in_time(wanted, rows, list(columns), us(wanted.period.start), wanted.end_us(now))


def _in_time(
    wanted: Wanted, rows: QuerySet[Charge], columns: Sequence[str], start: int, end: int
) -> Mapping[Key, int]:
    """By hour, day or month. Each charge is looked at once, however many of them it runs through; those of
    one allocation come after each other, so that it counts once in each."""
    if start >= end:
        return {}
    place, by_time = next((at, name) for at, name in enumerate(wanted.group_by) if name in TIMES)
    edges, labels = buckets(by_time, wanted, start, end)
    changes: dict[Key, list[int]] = defaultdict(lambda: [0] * len(edges))
    source, counted = "", dict[Key, int]()
    values = rows.order_by("source", "started_us").values_list(
        *columns, "unit", "per", "source", "started_us", "ended_us"
    )
    for *groups, unit, per, this, begins, ends in values.iterator(chunk_size=FETCH):
        if this != source:
            source, counted = this, {}
        key = Key(tuple(groups), unit, per)
        first = max(bisect_right(edges, max(begins, start)) - 1, counted.get(key, -1) + 1)
        last = bisect_left(edges, min(ends, end)) - 1
        if first <= last:
            changes[key][first] += 1
            changes[key][last + 1] -= 1
            counted[key] = last
    return {
        Key((*groups[:place], label, *groups[place:]), unit, per): count
        for (groups, unit, per), steps in changes.items()
        for label, count in zip(labels, accumulate(steps[:-1]), strict=True)
        if count
    }
