"""Times of which nothing is known, to be shown beside history: not observed is not the same as idle."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from claims.history.curves import moment, us
from claims.history.watched import watched
from inventory.coverage import coverage_of_all

# As far back as is looked where nobody says from when.
USUAL = timedelta(days=30)


@dataclass(frozen=True)
class Unseen:
    """Nobody saw a cluster within [start, end); `before` = it was not followed yet."""

    cluster: str
    start: datetime
    end: datetime
    before: bool = False

    @property
    def length(self) -> timedelta:
        return self.end - self.start


def unseen(*, start: datetime | None, end: datetime | None, cluster: str, now: datetime) -> Sequence[Unseen]:
    """What of a period (the last thirty days without one) nobody saw, of one cluster (by name) or of all, the
    latest first; two queries per cluster."""
    until = min(end or now, now)
    since = start or until - USUAL
    found: list[Unseen] = []
    for coverage in coverage_of_all(now=now).values():
        name = coverage.cluster.name
        if cluster not in ("", name) or since >= until:
            continue
        seen = watched(coverage, since=since, now=now)
        if seen is None:
            continue
        for begin, ended in seen.blanks(us(since), us(until)):
            known = min(max(begin, seen.known_from), ended)
            if begin < known and start is not None:
                # Without a beginning nobody asked about that time.
                found.append(Unseen(name, moment(begin), moment(known), before=True))
            if known < ended:
                found.append(Unseen(name, moment(known), moment(ended)))
    return sorted(found, key=lambda one: (one.end, one.cluster), reverse=True)
