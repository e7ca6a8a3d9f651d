"""Use and cost of a period, put together by whatever its reader asks for: project, product, day …

The rows are charges, cut to the period: all sums are exact, so that those of any grouping, of its pages and
of the charges themselves are the same. Amounts are rounded once, by the largest remainder, over all rows.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from django.db.models import Case, Count, F, Min, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest, Least
from django.http import Http404
from django.utils.translation import gettext as _

from claims.history.curves import EPOCH, us
from claims.history.curves import moment as _moment
from claims.history.intervals import MAX_TEXT
from claims.models import Charge, ChargeDay
from claims.models.charges import amount
from claims.money.costs import Period
from claims.money.months import Month, NoMonth, months
from claims.money.rollup import months_within, pieces
from claims.money.statements import apportioned, clipped
from portal import access, money
from portal.accounts.models import Project, User

# What rows can be put together by, and the column that tells it.
DIMENSIONS = {
    "project": "project__slug",
    "cost_centre": "cost_centre",
    "person": "person__username",
    "cluster": "cluster__name",
    "product": "product",
    "class": "device_class",
    "profile": "profile_digest",
    "kind": "kind",
}
TIMES = ("hour", "day", "month")
NOBODY = "unattributed"
# Hours of a longer time are more than anybody reads.
MOST_HOURS = timedelta(days=100)
HOUR = 3_600_000_000
_RATE = ("unit", "per", "currency", "list_micros", "discount_micros", "quantity", "fixed")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which charges, of which time. `billed` is the month that they are billed in ("" = any)."""

    period: Period
    filters: Mapping[str, str]
    billed: str = ""
    group_by: Sequence[str] = ()
    zone: tzinfo
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, values: Mapping[str, str], *, now: datetime, zone: tzinfo, held: bool = False) -> "Wanted":
        """From a query string; what cannot be read is named in `errors`. With `held` only what somebody held:
        then there is one kind, which nobody chooses."""
        period = Period.parse(values, now=now, zone=zone)
        errors = dict(period.errors)
        typed = {name: _text(values.get(name)) for name in DIMENSIONS}
        if held:
            typed["kind"] = Charge.Kind.USAGE.value
        if typed["kind"] and typed["kind"] not in Charge.Kind.values:
            errors["kind"] = _("Choose one of: %(choices)s.") % {"choices": ", ".join(Charge.Kind.values)}
        billed = _text(values.get("billed"))
        try:
            billed = str(Month.parse(billed)) if billed else ""
        except NoMonth as error:
            errors["billed"] = str(error)
        if billed and "billed" not in errors and not (period.typed["from"] or period.typed["to"]):
            # Corrections of what was long ago are billed with it.
            period = Period(start=EPOCH, end=Month.parse(billed).bounds(zone)[1], typed=period.typed)
        names = groups_of(values)
        known = [name for name in (*DIMENSIONS, *TIMES) if not (held and name == "kind")]
        times = [name for name in names if name in TIMES]
        if any(name not in known for name in names):
            errors["group_by"] = _("Choose one of: %(choices)s.") % {"choices": ", ".join(known)}
        elif len(set(times)) > 1:
            errors["group_by"] = _("Only one of hour, day and month.")
        elif times and period.start == EPOCH:
            errors["group_by"] = _("Say from when to when.")
        elif "hour" in times and period.end - period.start > MOST_HOURS:
            errors["group_by"] = _("By the hour: at most a hundred days at once.")
        return cls(
            period=period,
            filters={name: text for name, text in typed.items() if text},
            billed=billed,
            group_by=tuple(dict.fromkeys(names)),
            zone=zone,
            errors=errors,
        )

    def end_us(self, now: datetime) -> int:
        """What still runs is counted up to now."""
        return us(min(now, self.period.end))


def groups_of(values: Mapping[str, str]) -> list[str]:
    """What a query string asks to put together by, as it is typed there."""
    return [name.strip() for name in _text(values.get("group_by")).split(",") if name.strip()]


class Key(NamedTuple):
    """What the charges of a row have in common; `groups` is in the order asked for, "" = nothing known."""

    groups: tuple[str, ...]
    unit: str
    per: str
    # "" = nothing had a price.
    currency: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """`time` is units × microseconds. Amounts of a currency add up to its rounded total."""

    key: Key
    time: Fraction
    exact: Fraction | None
    minor: int | None

    @property
    def amount(self) -> Decimal | None:
        return None if self.minor is None else money.from_minor_units(self.minor, currency=self.key.currency)


def hours(time: Fraction) -> Decimal:
    """Units × microseconds as unit-hours, with six places."""
    return Decimal(round(time / money.MICROSECONDS_PER_HOUR * 10**6)).scaleb(-6)


def charges_of(wanted: Wanted, *, viewer: User, now: datetime) -> QuerySet[Charge]:
    """The charges that the reader may see, with `time` (see `clipped`) and `who`, which is empty where the
    reader may not know persons. Raises Http404 for a project that is none of theirs."""
    start, end = us(wanted.period.start), wanted.end_us(now)
    rows = clipped(permitted(Charge.objects.all(), wanted, viewer), start_us=start, end_us=end)
    if (first := _begins(wanted, start, end)) is not None:
        # The index in the order of the answer is read from there, not from when anything was charged first.
        rows = rows.filter(started_us__gte=first)
    return rows.annotate(who=_who(viewer))


def _begins(wanted: Wanted, start: int, end: int) -> int | None:
    """A time before which no charge begins that is wanted; None = it is not known."""
    near = months_within(start, end, wanted.zone, billed=wanted.billed)
    if not near:
        return None
    # Rated in another zone, months began two days earlier at most.
    first = us(Month.parse(near[0]).start(wanted.zone) - timedelta(days=2))
    if start >= first:
        return first
    # Amounts that no time makes are billed whenever they were.
    fixed = Charge.objects.filter(fixed__isnull=False, month__in=near).aggregate(first=Min("started_us"))
    return min(first, fixed["first"] or first)


def permitted(rows: QuerySet[Any], wanted: Wanted, viewer: User) -> QuerySet[Any]:
    """Charges, or days of them, that the reader may see and asks for, whenever they are."""
    sees_all = access.may_see_costs_of_all(viewer)
    filters = dict(wanted.filters)
    slug = filters.pop("project", "")
    if slug == NOBODY and sees_all:
        rows = rows.filter(project=None)
    elif slug:
        project = Project.objects.all().visible_to(viewer).filter(slug=slug).first()
        if project is None:
            raise Http404
        rows = rows.filter(project=project)
    elif not sees_all:
        rows = rows.filter(project__in=Project.objects.all().visible_to(viewer))
    if wanted.billed:
        rows = rows.filter(month=wanted.billed)
    if "person" in filters and not access.may_read_everything(viewer):
        # Else who asks for a name would learn what its owner used.
        rows = rows.filter(project__in=Project.objects.all().detailed_to(viewer))
    return rows.filter(**{DIMENSIONS[name]: value for name, value in filters.items()})


def _who(viewer: User) -> Any:
    who: Any = F("person__username")
    if not access.may_read_everything(viewer):
        detailed = Project.objects.all().detailed_to(viewer)
        who = Case(When(project__in=detailed, then=who), default=Value(""))
    return Coalesce(who, Value(""))


def rows_of(wanted: Wanted, *, viewer: User, now: datetime) -> list[Row]:
    """The rows in order of their keys."""
    told: dict[Key, list[Any]] = {}
    for key, time, exact in _parts(wanted, viewer, now):
        found = told.setdefault(key, [Fraction(0), None])
        found[0] += time
        if exact is not None:
            found[1] = exact if found[1] is None else found[1] + exact
    keys = sorted(told)
    minor: dict[Key, int] = {}
    for currency in {key.currency for key in keys if key.currency}:
        of = [key for key in keys if key.currency == currency]
        minor |= dict(zip(of, apportioned([told[key][1] for key in of], currency=currency), strict=True))
    return [Row(key=key, time=told[key][0], exact=told[key][1], minor=minor.get(key)) for key in keys]


def totals(rows: Sequence[Row]) -> dict[str, tuple[int, Fraction]]:
    """By currency: whole minor units, and exactly."""
    found: dict[str, tuple[int, Fraction]] = {}
    for row in rows:
        if row.minor is not None and row.exact is not None:
            minor, exact = found.get(row.key.currency, (0, Fraction(0)))
            found[row.key.currency] = minor + row.minor, exact + row.exact
    return found


def quantities(times: Iterable[tuple[str, str, Fraction]]) -> dict[tuple[str, str], Fraction]:
    """Units × microseconds by unit and what it is per."""
    found: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for unit, per, time in times:
        if time:
            found[unit, per] += time
    return dict(sorted(found.items()))


# --- adding up -------------------------------------------------------------------------------------


Part = tuple[Key, Fraction, Fraction | None]


def _parts(wanted: Wanted, viewer: User, now: datetime) -> Iterator[Part]:
    start, end = us(wanted.period.start), wanted.end_us(now)
    rows = permitted(Charge.objects.all(), wanted, viewer)
    days = permitted(ChargeDay.objects.all(), wanted, viewer)
    if "person" in wanted.group_by:
        rows, days = (of.annotate(who=_who(viewer)) for of in (rows, days))
    if "hour" in wanted.group_by:
        yield from _hourly(wanted, rows, now)
        return
    added_up = pieces(start=start, end=end, zone=wanted.zone, billed=wanted.billed)
    if not added_up:
        yield from _of_charges(wanted, rows, start, end)
        return
    for piece in added_up:
        if piece.first:
            within = days.filter(month__in=piece.months, day__gte=piece.first, day__lte=piece.last)
            yield from _summed_days(wanted, within)
        else:
            timed = rows.filter(fixed=None, month__in=piece.months)
            yield from _of_charges(wanted, timed, piece.start, piece.end)
    # Amounts that no time makes are not added up by day.
    yield from _of_charges(wanted, rows.filter(fixed__isnull=False), start, end)


def _of_charges(wanted: Wanted, rows: QuerySet[Charge], start: int, end: int) -> Iterator[Part]:
    """The charges themselves within [start, end)."""
    columns = {f"by_{name}": column(name) for name in wanted.group_by if name not in TIMES}
    grouped = clipped(rows, start_us=start, end_us=end).annotate(**columns).order_by()
    by_time = next((name for name in wanted.group_by if name in TIMES), "")
    if not by_time:
        # The database adds up what is at one rate; it counts by a column of its index, and needs no cursor,
        # for which PostgreSQL would plan as if only the first rows were wanted.
        sums = grouped.values_list(*columns, *_RATE).annotate(told=Sum("time"), rows=Count("started_us"))
        for values in sums:
            fixed, time, count = values[-3:]
            if not time and fixed is None:
                # Days that are added up do not tell of what took no time either.
                continue
            yield _part(values[: len(columns)], values[len(columns) : -2], time, count)
        return
    edges, labels = buckets(by_time, wanted, start, end)
    yield from _levelled(wanted, edges, labels, _swept(grouped, columns, edges, start=start))


def _summed_days(wanted: Wanted, rows: QuerySet[ChargeDay]) -> Iterator[Part]:
    """Days that are added up already."""
    columns = {f"by_{name}": F(name) if name in TIMES else column(name) for name in wanted.group_by}
    rate = [name for name in _RATE if name != "fixed"]
    sums = rows.annotate(**columns).order_by().values_list(*columns, *rate).annotate(told=Sum("time"))
    for *values, time in sums:
        yield _part(values[: len(columns)], (*values[len(columns) :], None), int(time), 1)


def _hourly(wanted: Wanted, rows: QuerySet[Charge], now: datetime) -> Iterator[Part]:
    """By the hour, all of which are equally long wherever it is: the database puts starts and ends into them,
    so that what is fetched is bounded by hours and rates, not by charges."""
    start, end = us(wanted.period.start), wanted.end_us(now)
    if start >= end:
        return
    edges, labels = buckets("hour", wanted, start, end)
    base = edges[1] - HOUR if len(edges) > 2 else start - start % HOUR
    timed = rows.filter(fixed=None)
    # An index knows the months.
    if (near := months_within(start, end, wanted.zone, billed=wanted.billed)) is not None:
        timed = timed.filter(month__in=near)
    columns = {f"by_{name}": column(name) for name in wanted.group_by if name not in TIMES}
    grouped = clipped(timed, start_us=start, end_us=end).filter(ended_us__gt=F("started_us"))
    grouped = grouped.annotate(
        **columns,
        begins=Greatest("started_us", Value(start)) - Value(base),
        ends=Least("ended_us", Value(end)) - Value(base),
    ).order_by()
    steps: dict[Any, dict[int, tuple[int, int]]] = defaultdict(dict)
    rate = [name for name in _RATE if name != "fixed"]
    for at, by in (("begins", 1), ("ends", -1)):
        sums = (
            grouped.annotate(bucket=F(at) / Value(HOUR), after=F(at) % Value(HOUR))
            .values_list(*columns, *rate, "bucket")
            .annotate(count=Count("started_us"), gone=Sum("after"))
        )
        for *values, bucket, count, gone in sums:
            key = tuple(values[: len(columns)]), (*values[len(columns) :], None)
            # What ends with the period ends in its last hour.
            index = min(bucket, len(edges) - 2)
            left = count * (edges[index + 1] - base - bucket * HOUR) - int(gone)
            within, level = steps[key].get(index, (0, 0))
            steps[key][index] = within + by * left, level + by * count
    yield from _levelled(wanted, edges, labels, ((key, found, {}) for key, found in steps.items()))
    yield from _of_charges(wanted, rows.filter(fixed__isnull=False), start, end)


def _levelled(
    wanted: Wanted,
    edges: Sequence[int],
    labels: Sequence[str],
    swept: Iterable[tuple[tuple[Any, Any], dict[int, tuple[int, int]], dict[int, int]]],
) -> Iterator[Part]:
    place = next(index for index, name in enumerate(wanted.group_by) if name in TIMES)
    for (values, rate), steps, fixed in swept:
        level = 0
        for index, (begin, end) in enumerate(pairwise(edges)):
            within, change = steps.get(index, (0, 0))
            time, level = level * (end - begin) + within, level + change
            count = fixed.get(index, 0)
            if time or count:
                groups = (*values[:place], labels[index], *values[place:])
                yield _part(groups, rate, time, count)


def _part(groups: Sequence[Any], rate: Sequence[Any], time: int, count: int) -> Part:
    unit, per, currency, listed, discount, quantity, fixed = rate
    exact = amount(
        fixed=fixed * count if fixed is not None else None,
        list_micros=listed,
        discount_micros=discount,
        quantity=quantity,
        microseconds=time,
    )
    key = Key(tuple(groups), unit, per, currency if exact is not None else "")
    return key, Fraction(0) if fixed is not None else quantity * time, exact


def column(name: str) -> Any:
    return F("who") if name == "person" else Coalesce(F(DIMENSIONS[name]), Value(""))


def _swept(
    rows: QuerySet[Charge], columns: Mapping[str, Any], edges: Sequence[int], *, start: int
) -> Iterator[tuple[tuple[Any, Any], dict[int, tuple[int, int]], dict[int, int]]]:
    """Per group and rate: by bucket (microseconds within it, change of the level after it), and how many
    fixed amounts begin in it. Each charge is looked at once, however many buckets it runs through."""
    steps: dict[Any, dict[int, tuple[int, int]]] = defaultdict(dict)
    fixed: dict[Any, dict[int, int]] = defaultdict(dict)

    def change(of: dict[int, tuple[int, int]], at: int, by: int) -> None:
        index = min(bisect_right(edges, at) - 1, len(edges) - 2)
        within, level = of.get(index, (0, 0))
        of[index] = within + by * (edges[index + 1] - at), level + by

    values = rows.values_list(*columns, *_RATE, "started_us", "ended_us")
    for *told, begin, end in values.iterator(chunk_size=5_000):
        key = tuple(told[: len(columns)]), tuple(told[len(columns) :])
        if told[-1] is not None:
            index = min(bisect_right(edges, begin) - 1, len(edges) - 2)
            fixed[key][index] = fixed[key].get(index, 0) + 1
            steps.setdefault(key, {})
        elif (first := max(begin, start)) < (last := min(end, edges[-1])):
            change(steps[key], first, 1)
            change(steps[key], last, -1)
    for key, found in steps.items():
        yield key, found, fixed.get(key, {})


def buckets(name: str, wanted: Wanted, first: int, last: int) -> tuple[list[int], list[str]]:
    """Edges of the hours, days or months in the organisation's time zone, and what they are called.
    A day is as long as it is there: 23 or 25 hours where the clocks change."""
    start, end, zone = _moment(first), _moment(last), wanted.zone
    begins: list[datetime] = []
    if name == "month":
        begins = [month.start(zone) for month in months(start, end, zone)]
        labels = [str(month) for month in months(start, end, zone)]
    elif name == "day":
        day = start.astimezone(zone).date()
        while (at := datetime(day.year, day.month, day.day, tzinfo=zone)) < end:
            begins.append(at)
            day += timedelta(days=1)
        labels = [f"{at:%Y-%m-%d}" for at in begins]
    else:
        there = start.astimezone(zone)
        at = start - timedelta(minutes=there.minute, seconds=there.second, microseconds=there.microsecond)
        while at < end:
            begins.append(at)
            at += timedelta(hours=1)
        labels = [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in begins]
    if not begins:
        return [us(start), us(start)], [""]
    return [us(start), *(us(at) for at in begins[1:]), us(end)], labels


def _text(value: str | None) -> str:
    return str(value or "").replace("\x00", "").strip()[:MAX_TEXT]
