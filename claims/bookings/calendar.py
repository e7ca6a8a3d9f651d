"""The calendar of a flavor in one place: what is left in each part of a week or a month, and what is booked.

Days are the reader's, moments UTC: a day on which the clocks change has 23 or 25 hours, and its parts are as
long as the clocks say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from django.db.models import Q

from claims.bookings.room import Step, steps
from claims.bookings.supply import Target, supply
from claims.catalogue.places import choices_of
from claims.catalogue.stock import FleetOf
from claims.models import PLANNED, Booking, Flavor, Placement, Request
from claims.models.requests import FINAL_STATES
from inventory.snapshot import fleet
from portal.accounts.models import Project, User

WEEK, MONTH = "week", "month"
VIEWS = (WEEK, MONTH)
# Parts of a day in the view of a week.
HOURS = 3
PARTS = tuple(range(0, 24, HOURS))
DAY = timedelta(days=1)
EARLIEST, LATEST = date(2001, 1, 1), date(2200, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A part of the calendar. `room` None = it is over."""

    day: date
    # By the reader's clocks.
    at: time
    start: datetime
    end: datetime
    room: int | None
    # Bookings of the flavor in it.
    booked: int
    # Where a booking made from here would begin; None = it cannot be booked.
    from_: datetime | None
    today: bool = False
    # In the view of a month: it belongs to another one.
    outside: bool = False


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the table: in the week a day, in the month a week."""

    day: date
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A booking as the reader may see it: strangers only its project."""

    booking: Booking
    detailed: bool


@dataclass(frozen=True, kw_only=True)
class Calendar:
    flavor: Flavor
    placement: Placement
    view: str
    # Seven days, for the headings of a month.
    days: Sequence[date]
    # When the parts of a day begin, for those of a week.
    parts: Sequence[time]
    lines: Sequence[Line]
    entries: Sequence[Entry]
    # Devices that are usable now, and those held by work whose end nobody knows.
    usable: int
    endless: int
    start: datetime
    end: datetime
    first: date
    before: date
    after: date

    @property
    def last(self) -> date:
        return self.after - DAY if self.view == WEEK else _next_month(self.first) - DAY


def places_to_book(flavor: Flavor) -> list[Placement]:
    """Where the flavor can be held, in order: by DRA, on clusters that are switched on."""
    rows = flavor.placements.filter(cluster__enabled=True).select_related("cluster", "flavor")
    found = list(rows.order_by("position", "pk"))
    chosen = choices_of(found)
    return [one for one in found if chosen[one.pk].backend == Request.Backend.DRA]


def read_day(text: str, *, today: date) -> date:
    """A day of an address; today for what is none."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return today
    return min(max(found, EARLIEST), LATEST)


def calendar(
    *,
    placement: Placement,
    user: User,
    view: str,
    day: date,
    zone: tzinfo,
    now: datetime,
    fleet_of: FleetOf = fleet,
) -> Calendar:
    """The week or month around `day`, in days of `zone`."""
    flavor = placement.flavor
    if view == MONTH:
        first = day.replace(day=1)
        shown = first - timedelta(days=first.weekday())
        weeks = -(-((_next_month(first) - shown) // DAY) // 7)
        days = [shown + n * DAY for n in range(7 * weeks)]
        before, after = (first - DAY).replace(day=1), _next_month(first)
    else:
        first = day - timedelta(days=day.weekday())
        days = [first + n * DAY for n in range(7)]
        before, after = first - 7 * DAY, first + 7 * DAY
    start, end = _moment(days[0], 0, zone), _moment(days[-1] + DAY, 0, zone)
    there = supply(target=Target(placement), now=now, start=start, end=end, fleet_of=fleet_of)
    bookings = _bookings(placement, start, end)
    draw = _Drawing(
        flavor=flavor,
        first=first,
        view=view,
        zone=zone,
        now=now,
        steps=list(steps(there.fleet, target=0, start=start, end=end)),
        bookings=bookings,
    )
    seen = set(Project.objects.all().detailed_to(user).values_list("pk", flat=True))
    return Calendar(
        flavor=flavor,
        placement=placement,
        view=view,
        days=days[:7],
        parts=[time(hour) for hour in PARTS],
        lines=draw.weeks(days) if view == MONTH else draw.parts(days),
        entries=[Entry(booking=row, detailed=row.project_id in seen) for row in bookings],
        usable=there.usable,
        endless=there.endless,
        start=start,
        end=end,
        first=first,
        before=before,
        after=after,
    )


@dataclass(frozen=True, kw_only=True)
class _Drawing:
    flavor: Flavor
    first: date
    view: str
    zone: tzinfo
    now: datetime
    steps: Sequence[Step]
    bookings: Sequence[Booking]

    def parts(self, days: Sequence[date]) -> list[Line]:
        return [Line(day=day, cells=[self.cell(day, hour, hour + HOURS) for hour in PARTS]) for day in days]

    def weeks(self, days: Sequence[date]) -> list[Line]:
        return [
            Line(day=days[place], cells=[self.cell(day, 0, 24) for day in days[place : place + 7]])
            for place in range(0, len(days), 7)
        ]

    def cell(self, day: date, begin: int, until: int) -> Cell:
        start = _moment(day, begin, self.zone)
        end = _moment(day + DAY, 0, self.zone) if until == 24 else _moment(day, until, self.zone)
        ahead = max(start, _quarter_after(self.now)) if end > self.now else None
        last = self.now + timedelta(days=self.flavor.bookable_days)
        return Cell(
            day=day,
            at=time(begin),
            start=start,
            end=end,
            # An hour that the clocks leave out has no moment.
            room=None if end <= self.now or start >= end else self.room(max(start, self.now), end),
            booked=sum(row.starts_at < end and row.ends_at > start for row in self.bookings),
            from_=ahead if ahead is not None and start < end and ahead < min(end, last) else None,
            today=day == self.now.astimezone(self.zone).date(),
            outside=self.view == MONTH and day.month != self.first.month,
        )

    def room(self, start: datetime, end: datetime) -> int:
        return min((step.room for step in self.steps if step.start < end and step.end > start), default=0)


def _bookings(placement: Placement, start: datetime, end: datetime) -> list[Booking]:
    """What is planned there, and what has started and is not over."""
    rows = Booking.objects.filter(
        flavor=placement.flavor, cluster=placement.cluster, pool=placement.pool
    ).within(start, end)
    running = Q(state=Booking.State.STARTED) & ~Q(request__state__in=FINAL_STATES)
    rows = rows.filter(Q(state__in=PLANNED) | running)
    return list(rows.select_related("project", "requester").order_by("starts_at", "pk"))


def _moment(day: date, hour: int, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC)


def _quarter_after(now: datetime) -> datetime:
    whole = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return whole + timedelta(minutes=15) * ((now - whole) // timedelta(minutes=15) + 1)


def _next_month(first: date) -> date:
    return (first.replace(day=28) + timedelta(days=4)).replace(day=1)
