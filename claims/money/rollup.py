"""Charges added up by day, month by month, by the database. What is added up is a copy: it may be thrown
away, it is used only while it is known to be what the charges come to, and whoever asks gets the same
without it.

Fixed amounts take no time and are few: they are never added up here.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import BigIntegerField, CharField, F, Q, Sum, Value
from django.db.models.functions import Greatest, Least

from claims.history.curves import moment, us
from claims.models import Charge, ChargeDay, ChargeMonth, Statement
from claims.money.months import Month, months

_COMMON = (
    *("kind", "project_id", "cost_centre", "person_id", "cluster_id", "device_class", "product"),
    *("profile_digest", "unit", "per", "currency", "list_micros", "discount_micros", "quantity"),
)


class Piece(NamedTuple):
    """A part of a period: whole days of a month that are added up (`first` to `last`, inclusive), or a
    stretch [start, end) of which the charges themselves are asked: those of some months."""

    start: int
    end: int
    months: Sequence[str]
    first: str = ""
    last: str = ""


def stale(month: Month) -> None:
    """Its charges become others; called in the transaction that writes them."""
    row, _new = ChargeMonth.objects.get_or_create(month=str(month))
    ChargeMonth.objects.filter(pk=row.pk).update(version=F("version") + 1, fresh=False)


def refresh(*, zone: tzinfo) -> list[str]:
    """Add up every month whose charges have become others; which they were."""
    rows = ChargeMonth.objects.filter(Q(fresh=False) | ~Q(zone=str(zone))).order_by("month")
    return [row.month for row in rows if _add_up(row, zone)]


def _add_up(row: ChargeMonth, zone: tzinfo) -> bool:
    """Whether it is added up now: not where somebody writes charges, or adds them up, meanwhile. A day at a
    time, so that nobody waits long who wants to write; until the last nobody reads them."""
    month, ours = Month.parse(row.month), row.version + 1
    months = ChargeMonth.objects.filter(pk=row.pk)
    if not months.filter(version=row.version).update(version=ours, fresh=False):
        return False
    start, end = (us(at) for at in month.bounds(zone))
    timed = Charge.objects.filter(month=row.month, fixed=None)
    if timed.filter(Q(started_us__lt=start) | Q(ended_us__gt=end)).exists():
        # Of another time zone, as it was before.
        return False
    days = list(days_of(month, zone))
    for day, since, until in days:
        with transaction.atomic():
            # Who bumps the version next waits for this day, or this day sees what they have written.
            if not months.filter(version=ours).update(version=ours):
                return False
            ChargeDay.objects.filter(month=row.month, day=day).delete()
            _add_up_day(row.month, day, since, until)
    with transaction.atomic():
        ChargeDay.objects.filter(month=row.month).exclude(day__in=[day for day, _, _ in days]).delete()
        return bool(months.filter(version=ours).update(fresh=True, zone=str(zone)))


def days_of(month: Month, zone: tzinfo) -> Iterator[tuple[str, int, int]]:
    """Its days with their bounds, in microseconds since 1970: 23 or 25 hours where the clocks change."""
    last = us(month.next().start(zone))
    at = datetime(month.year, month.number, 1, tzinfo=zone)
    while us(at) < last:
        after = at + timedelta(days=1)
        yield f"{at:%Y-%m-%d}", us(at), min(us(after), last)
        at = after


def _add_up_day(month: str, day: str, since: int, until: int) -> None:
    rows = (
        Charge.objects.filter(month=month, fixed=None, started_us__lt=until, ended_us__gt=since)
        .order_by()
        .annotate(
            in_month=Value(month, output_field=CharField()),
            on_day=Value(day, output_field=CharField()),
            within=Least("ended_us", Value(until, output_field=BigIntegerField()))
            - Greatest("started_us", Value(since, output_field=BigIntegerField())),
        )
        .filter(within__gt=0)
        .values_list("in_month", "on_day", *_COMMON)
        .annotate(together=Sum("within"))
    )
    query, values = rows.query.sql_with_params()
    quote = connection.ops.quote_name
    columns = ", ".join(quote(name) for name in ("month", "day", *_COMMON, "time"))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {quote(ChargeDay._meta.db_table)} ({columns}) {query}", values)


def months_within(start: int, end: int, zone: tzinfo, *, billed: str = "") -> list[str] | None:
    """The months in which timed charges of [start, end) are billed; None = any may be, since months were
    closed that were another time zone's."""
    closed = Statement.objects.filter(state=Statement.State.CLOSED)
    if closed.exclude(zone=str(zone)).exists():
        return None
    return [billed] if billed else [str(month) for month in months(moment(start), moment(end), zone)]


def pieces(*, start: int, end: int, zone: tzinfo, billed: str = "") -> list[Piece]:
    """The period [start, end), cut into days that are added up and the rest; nothing where nothing is."""
    wanted = months_within(start, end, zone, billed=billed)
    if wanted is None:
        return []
    found: list[Piece] = []
    rows = ChargeMonth.objects.filter(fresh=True, zone=str(zone), month__in=wanted)
    for name in rows.order_by("month").values_list("month", flat=True):
        days = list(days_of(Month.parse(name), zone))
        whole = [day for day in days if start <= day[1] and day[2] <= end]
        if not whole:
            continue
        wanted.remove(name)
        found.append(Piece(whole[0][1], whole[-1][2], [name], whole[0][0], whole[-1][0]))
        edges = ((max(start, days[0][1]), whole[0][1]), (whole[-1][2], min(end, days[-1][2])))
        found += [Piece(since, until, [name]) for since, until in edges if since < until]
    return [*found, Piece(start, end, wanted)] if found and wanted else found
