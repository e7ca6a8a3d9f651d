"""Which bound of an uncertain time is billed. Pure.

What was seen at `at` with an uncertainty happened within [at - uncertainty, at]. In favour of who pays, a
start counts from its later bound and an end from its earlier one; in favour of who operates, the other way
round. Which holds is decided by policies in time, by when the allocation began.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime, timedelta

TENANT, OPERATOR = "tenant", "operator"


@dataclass(frozen=True)
class Policies:
    """(valid_from, bound) in order of time; in favour of who pays before the first."""

    entries: tuple[tuple[datetime, str], ...] = ()

    def at(self, moment: datetime) -> str:
        """The bound that counts for an allocation that began then."""
        index = bisect_right([since for since, _bound in self.entries], moment) - 1
        return self.entries[index][1] if index >= 0 else TENANT


TENANTS = Policies()


def start_of(latest: datetime, uncertainty: timedelta, *, bound: str) -> datetime:
    """When what began within [latest - uncertainty, latest] began, as far as money is concerned."""
    return latest - uncertainty if bound == OPERATOR else latest


def end_of(
    low: datetime, high: datetime, *, start: datetime, before: datetime | None, bound: str
) -> tuple[datetime, timedelta]:
    """The end of what ended within [low, high], and its uncertainty: never before its start, and not after
    what is known to have begun later."""
    if before is not None:
        high = min(high, before)
    low = max(min(low, high), start)
    high = max(low, high)
    return (high if bound == OPERATOR else low), high - low
