"""Reading a booking: what a form or a program sends, to values that make sense. What a booking shares with a
request is read and judged by the same functions (`claims.asks.judging`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from django.utils.translation import gettext as _

from claims.asks import judging as asks
from claims.asks.reading import WrongValue, read_text
from claims.asks.values import Reading
from claims.models import Booking, Flavor, Request
from portal.accounts.models import User

# What a booking has in common with a request, by the same names.
SHARED = (
    *("project", "flavor", "cluster", "pool", "namespace", "count", "min_memory"),
    *("duration", "duration_unit", "purpose"),
)
FIELDS = ("start", *SHARED)
HOUR = timedelta(hours=1)


@dataclass(kw_only=True)
class Wanted:
    """What of a booking could be read so far, and what is wrong with it."""

    reading: Reading
    start: datetime | None = None
    # The clocks show this time twice that day; the first is meant.
    twice: bool = False
    errors: dict[str, list[str]] = field(default_factory=dict)

    @property
    def end(self) -> datetime | None:
        if self.start is None or self.reading.duration is None:
            return None
        try:
            return self.start + self.reading.duration
        except OverflowError:
            # Beyond the last day that there is: the start is wrong, and says so.
            return None

    @property
    def placed(self) -> bool:
        """Whether it is known what would be booked, and from when to when."""
        return self.reading.placement is not None and self.end is not None and self.bookable

    @property
    def bookable(self) -> bool:
        """Whether the desk could hold it: what a Device Plugin gives, nobody can hold."""
        return self.reading.backend != Request.Backend.PLUGIN


def read(values: Mapping[str, Any], *, user: User, now: datetime, zone: tzinfo) -> Wanted:
    """Everything in `values` (keys as in FIELDS) that makes sense, and a message for each field that does
    not. A start without an offset is in `zone`."""
    shared = {name: values[name] for name in SHARED if values.get(name) is not None}
    seen = asks.read(shared, user=user, now=now)
    wanted = Wanted(reading=seen, errors=dict(seen.errors))
    # A booking holds, so it is a claim; the flavor's backend decides whether that is possible.
    wanted.errors.pop("shape", None)
    wanted.errors.pop("device_class", None)
    if seen.flavor is None:
        wanted.errors.pop("cluster", None)
        wanted.errors.setdefault("flavor", [_("Choose a flavor.")])
    elif not wanted.bookable:
        wanted.errors.setdefault("flavor", []).append(
            _("A Device Plugin serves it there: nobody can hold its units, so they cannot be booked.")
        )
    elif seen.flavor.bookable_days == 0:
        wanted.errors.setdefault("flavor", []).append(_("This flavor cannot be booked ahead; request it."))
    try:
        wanted.start, wanted.twice = read_start(values, zone=zone)
        if seen.flavor is not None:
            start_within(seen.flavor, wanted.start, now=now)
    except WrongValue as error:
        wanted.errors.setdefault("start", []).append(str(error))
    return wanted


def read_start(values: Mapping[str, Any], *, zone: tzinfo) -> tuple[datetime, bool]:
    """The start in UTC, and whether the clocks of `zone` show that time twice (then the first is meant)."""
    typed = read_text(values, "start", limit=40)
    if not typed:
        raise WrongValue(_("Say from when on you need it."))
    example = _("A date and a time, such as 2026-03-02T09:00.")
    if len(typed) <= len("2026-03-02"):
        raise WrongValue(example)
    try:
        # Browsers send minutes and no offset; programs may send either.
        found = datetime.fromisoformat(typed)
        if found.tzinfo is not None:
            return found.astimezone(UTC).replace(second=0, microsecond=0), False
        local = found.replace(second=0, microsecond=0)
        start = local.replace(tzinfo=zone).astimezone(UTC)
        if start.astimezone(zone).replace(tzinfo=None) != local:
            raise WrongValue(_("The clocks go forward then: that time does not exist on that day."))
        twice = local.replace(tzinfo=zone).utcoffset() != local.replace(tzinfo=zone, fold=1).utcoffset()
    except (ValueError, OverflowError):
        raise WrongValue(example) from None
    return start, twice


def start_within(flavor: Flavor, start: datetime, *, now: datetime) -> None:
    """WrongValue when the start has passed, or is further ahead than the flavor can be booked."""
    if start <= now:
        raise WrongValue(_("This has passed; what you need now is a request."))
    if flavor.bookable_days and start > now + timedelta(days=flavor.bookable_days):
        raise WrongValue(
            _("At most %(days)s days ahead; %(flavor)s can be booked up to %(last)s.")
            % {
                "days": flavor.bookable_days,
                "flavor": flavor,
                "last": (now + timedelta(days=flavor.bookable_days)).strftime("%Y-%m-%d %H:%M UTC"),
            }
        )


def values_of(booking: Booking) -> dict[str, Any]:
    """The booking as a request asks for it: a claim for the whole time."""
    return {
        "project": booking.project.slug,
        "flavor": booking.flavor.slug,
        "cluster": booking.cluster.name,
        "pool": booking.pool,
        "namespace": booking.namespace,
        "count": str(booking.count),
        "min_memory": booking.min_memory,
        "shape": Request.Shape.CLAIM.value,
        "duration": str(booking.duration // HOUR),
        "duration_unit": "hours",
        "purpose": booking.purpose,
    }
