"""What allocations cost: the ledger through `claims.money.pricing`, for a project, a request or everything.

A period of a whole organisation may be a million intervals. Their time is added up by the database, as
integer microseconds per kind of usage and stretch of one price book, which is exactly what
`pricing.statement` does with one usage after the other (`usages`); prices and rounding come after that, in
one place.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from claims.history.curves import us
from claims.models import Allocation, Request
from claims.money.books import Kind, PriceList, PriceSegment, price_list, share
from claims.money.ownership import Owners
from claims.money.pricing import (
    MICROSECOND,
    Gathered,
    GatheredKey,
    Statement,
    Usage,
    conclude,
    gather,
    statement,
)
from claims.money.rated import stays_of
from claims.money.rating import COLUMNS, Rater, Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KIND = ("project_id", "device_class", "product")
_SHARES = (*_KIND, "consumed_capacity", "capacity")
_DETAILS = (*_SHARES, "profile_digest", "extended_resource", "counters", "units", "replicas")
# Stretches of one price book that are asked for in one go.
AT_ONCE = 6
_COLUMNS = (*_DETAILS, "started_at", "ended_at", "share_id")


def charges(
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    projects: Collection[int] | None = None,
    prices: PriceList | None = None,
) -> Statement:
    """What was used in [start, end): of some projects (primary keys), or of all and of nobody known.
    Open intervals are rated up to `now`."""
    prices = prices or price_list()
    segments = list(prices.segments(start, min(end, now)))
    grows = now <= end
    gathered: dict[GatheredKey, Gathered] = {}
    summed, single = _sorted(segments, projects, start=start, end=end)
    for rows in summed:
        gathered |= _gather(rows, segments, up_to_now=grows)
    parts = parts_of(single, prices, start=start, end=end)
    wanted = (part for _row, part in parts if projects is None or part.project_id in projects)
    gathered |= gather(wanted, segments, up_to_now=grows)
    return conclude(gathered, segments, prices, start=start, end=end)


def _sorted(
    segments: Sequence[PriceSegment],
    projects: Collection[int] | None,
    *,
    start: datetime,
    end: datetime,
) -> tuple[list[QuerySet[Allocation]], QuerySet[Allocation]]:
    """Rows that the database may add up, and those that are rated one by one: what has several payers, since
    its namespace changes hands, and everything where time without use has a price of its own."""
    touching = Q(ended_us=None) | Q(ended_us__gt=(start - _EPOCH) // MICROSECOND)
    # As a comparison, which SQLite looks up in an index, and then what began before the end.
    rows = Allocation.objects.filter(admin_access=Value(value=False))
    if any(book.tells_unused for _since, _until, book in segments if book):
        return [], rows.filter(touching, started_at__lt=end)
    owners = Owners()
    moved = Q(request=None, namespace__in=owners.moving(before=end), project__isnull=False)
    found = Q(request=None, namespace__in=owners.bound(), project=None)
    # What is left out is told only where there is any: the sums are a matter of an index then.
    within, nothing = rows.filter(touching, started_at__lt=end), Q(pk__in=[])
    moved, found = (some if within.filter(some).exists() else nothing for some in (moved, found))
    if projects is None and moved is nothing and found is nothing:
        return [rows], within.none()
    known = rows.filter(project__isnull=False) if projects is None else rows.filter(project__in=projects)
    summed = [known if moved is nothing else known.exclude(moved)]
    if projects is None:
        nobodys = rows.filter(project=None)
        summed.append(nobodys if found is nothing else nobodys.exclude(found))
    return summed, within.filter(moved | found)


def parts_of(
    rows: QuerySet[Allocation], prices: PriceList, *, start: datetime, end: datetime
) -> Iterator[tuple[Row, Usage]]:
    """Rows cut as their charges are: where the price, the payer or the use changes."""
    iterator = rows.order_by().values(*COLUMNS).iterator(chunk_size=1_000)
    owners: Owners | None = None
    while chunk := list(islice(iterator, 1_000)):
        owners = owners or Owners()
        rater = Rater(prices=prices, zone=UTC, owners=owners, stays=stays_of(chunk, prices))
        for row in chunk:
            kind, last = _kind(row, shared=bool(row["share_id"])), row["ended_at"]
            for part in rater.parts(row, max(row["started_at"], start), min(last or end, end)):
                runs = last is None and part.end == end
                yield (
                    row,
                    _usage(
                        replace(kind, project_id=part.project_id, use=part.use),
                        part.start,
                        None if runs else part.end,
                    ),
                )


def charges_of_request(*, request: Request, now: datetime, prices: PriceList | None = None) -> Statement:
    """What a request has cost so far."""
    rows = Allocation.objects.filter(request=request, admin_access=False)
    parts = parts_of(rows, prices := prices or price_list(), start=request.created_at, end=now)
    used = (part for _row, part in parts)
    return statement(used, prices, start=request.created_at, end=now, now=now)


def usages(rows: QuerySet[Allocation]) -> Iterator[Usage]:
    """Billable intervals among `rows`, as if all that is held were used. Admin access looks at devices
    without holding them: never billed."""
    values = rows.filter(admin_access=False).values(*_COLUMNS)
    for row in values.iterator(chunk_size=5_000):
        kind = _kind(row, shared=bool(row["share_id"]))
        yield _usage(kind, row["started_at"], row["ended_at"])


def _usage(kind: Kind, start: datetime, end: datetime | None) -> Usage:
    return Usage(
        project_id=kind.project_id,
        device_class=kind.device_class,
        product=kind.product,
        start=start,
        end=end,
        quantity=kind.share,
        profile=kind.profile,
        resource=kind.resource,
        use=kind.use,
        consumed=kind.consumed,
        capacity=kind.capacity,
        counters=kind.counters,
    )


def _gather(
    rows: QuerySet[Allocation], segments: list[PriceSegment], *, up_to_now: bool
) -> dict[GatheredKey, Gathered]:
    """Time by kind of usage and segment, added up by the database."""
    gathered: dict[GatheredKey, Gathered] = {}
    spans = [_Span(at, us(lower), us(upper)) for at, (lower, upper, _book) in enumerate(segments)]
    detailed = [bool(book and book.detailed) for _lower, _upper, book in segments]
    whole, shares = rows.filter(share_id=""), rows.exclude(share_id="")
    for wanted in (False, True):
        # What prices do not depend on is not told apart: whole devices are a matter of an index then.
        alike = [span for span in spans if detailed[span.at] is wanted]
        # All that is asked for at once is gone through once.
        for first in range(0, len(alike), AT_ONCE):
            asked = alike[first : first + AT_ONCE]
            told = _told(whole, shares, asked, detailed=wanted)
            for shared, kind, values, sums in told:
                for span, (time, count, running) in zip(asked, sums, strict=True):
                    if not count:
                        continue
                    grows = up_to_now and span.at == len(segments) - 1
                    key = (shared, repr(values)), span.at
                    if key not in gathered:
                        gathered[key] = Gathered(kind)
                    gathered[key].add(time, running=running if grows else 0, count=count)
    return gathered


_Sums = list[tuple[int, int, int]]


def _told(
    whole: QuerySet[Allocation],
    shares: QuerySet[Allocation],
    asked: Sequence["_Span"],
    *,
    detailed: bool,
) -> Iterator[tuple[bool, Kind, list[Any], _Sums]]:
    """Each kind of usage: whether it is one of shares, what it is, what tells it apart, its sums."""
    units = False
    columns: Sequence[str] = _DETAILS if detailed else _KIND
    for values, sums in _sums(whole, columns, asked):
        kind = _kind(dict(zip(columns, values, strict=True)), shared=False)
        # Units of Device Plugins are of no class, and several of them may be of one piece.
        if kind.device_class or detailed:
            yield False, kind, values, sums
        else:
            units = True
    if units:
        for values, sums in _sums(whole.filter(device_class=""), _DETAILS, asked):
            yield False, _kind(dict(zip(_DETAILS, values, strict=True)), shared=False), values, sums
    columns = _DETAILS if detailed else _SHARES
    for values, sums in _sums(shares, columns, asked):
        yield True, _kind(dict(zip(columns, values, strict=True)), shared=True), values, sums


def _kind(values: Mapping[str, Any], *, shared: bool) -> Kind:
    """What is priced, from columns of the ledger."""
    consumed, capacity = values.get("consumed_capacity") or {}, values.get("capacity") or {}
    return Kind(
        project_id=values["project_id"],
        device_class=values["device_class"],
        product=values["product"],
        profile=values.get("profile_digest", ""),
        resource=values.get("extended_resource", ""),
        # Units of a Device Plugin count as the pieces of hardware that they are.
        share=share(consumed, capacity)
        if shared
        else Fraction(values.get("units", 1), values.get("replicas", 1)),
        consumed=consumed,
        capacity=capacity,
        counters=values.get("counters") or {},
    )


class _Span(NamedTuple):
    """[lower, upper) in microseconds since 1970, of the segment with that index."""

    at: int
    lower: int
    upper: int


def _sums(
    rows: QuerySet[Allocation], columns: Sequence[str], spans: Sequence[_Span]
) -> Iterator[tuple[list[Any], _Sums]]:
    """Each kind of usage with, for every span: its time within it, how many rows have any, and how many of
    them have no end."""
    first, last = min(span.lower for span in spans), max(span.upper for span in spans)
    touching = Q(ended_us=None) | (Q(ended_us__gt=first) & Q(ended_us__gt=F("started_us")))
    grouped = rows.filter(touching, started_us__lt=last).order_by().values_list(*columns)
    told: dict[str, Any] = {}
    for number, span in enumerate(spans):
        begins, ends = (Value(bound, output_field=BigIntegerField()) for bound in span[1:])
        # What holds for all rows is not asked of each.
        before = Q() if span.upper == last else Q(started_us__lt=span.upper)
        after = Q() if span.lower == first else Q(ended_us=None) | Q(ended_us__gt=span.lower)
        within = (before & after) or None
        open_ = Q(ended_us=None) if within is None else within & Q(ended_us=None)
        time = Least(Coalesce("ended_us", ends), ends) - Greatest("started_us", begins)
        # Counted by a column of the index that has all the others.
        told |= {
            f"time_{number}": Sum(time, filter=within),
            f"rows_{number}": Count("started_us", filter=within),
            f"open_{number}": Count("started_us", filter=open_),
        }
    # Few rows, so no cursor: PostgreSQL plans that for the first ones of many, and by one process.
    for row in grouped.annotate(**told):
        parts = row[len(columns) :]
        yield list(row[: len(columns)]), list(zip(*[iter(parts)] * 3, strict=True))
