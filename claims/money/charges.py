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
from typing import Any

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

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
    rows = Allocation.objects.filter(admin_access=False)
    if any(book.tells_unused for _since, _until, book in segments if book):
        return [], rows.filter(touching, started_at__lt=end)
    owners = Owners()
    moving, bound = owners.moving(before=end), owners.bound()
    moved = Q(request=None, namespace__in=moving, project__isnull=False)
    found = Q(request=None, namespace__in=bound, project=None)
    known = rows.filter(project__isnull=False) if projects is None else rows.filter(project__in=projects)
    # What is left out is told only where there is any: the sums are a matter of an index then.
    summed = [known.exclude(moved) if moving else known]
    if projects is None:
        summed.append(rows.filter(project=None).exclude(found))
    return summed, rows.filter(moved | found, touching, started_at__lt=end)


def parts_of(
    rows: QuerySet[Allocation], prices: PriceList, *, start: datetime, end: datetime
) -> Iterator[tuple[Row, Usage]]:
    """Rows cut as their charges are: where the price, the payer or the use changes."""
    iterator = rows.order_by("pk").values(*COLUMNS).iterator(chunk_size=1_000)
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
    for index, (lower, upper, book) in enumerate(segments):
        here = _within(rows, (lower - _EPOCH) // MICROSECOND, (upper - _EPOCH) // MICROSECOND)
        grows = up_to_now and index == len(segments) - 1
        # What prices do not depend on is not told apart: whole devices are a matter of an index then.
        detailed = book is not None and book.detailed
        whole = here.filter(share_id="")
        for shared, columns, part in (
            (False, _DETAILS if detailed else _KIND, whole.exclude(device_class="")),
            # Units of Device Plugins are of no class, and several of them may be of one piece.
            (False, _DETAILS, whole.filter(device_class="")),
            (True, _DETAILS if detailed else _SHARES, here.exclude(share_id="")),
        ):
            for *values, time, count, running in _sums(part.values_list(*columns)):
                kind = _kind(dict(zip(columns, values, strict=True)), shared=shared)
                key = (shared, repr(values)), index
                if key not in gathered:
                    gathered[key] = Gathered(kind)
                gathered[key].add(time, running=running if grows else 0, count=count)
    return gathered


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


def _within(rows: QuerySet[Allocation], lower: int, upper: int) -> QuerySet[Allocation]:
    """Rows with time within [lower, upper), in microseconds since 1970, and `time`: how much of it."""
    begins, ends = (Value(bound, output_field=BigIntegerField()) for bound in (lower, upper))
    return (
        rows.filter(started_us__lt=upper)
        .filter(Q(ended_us=None) | (Q(ended_us__gt=lower) & Q(ended_us__gt=F("started_us"))))
        .annotate(time=Least(Coalesce("ended_us", ends), ends) - Greatest("started_us", begins))
    )


def _sums(kinds: QuerySet[Allocation, tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Each kind with its time, how many rows, and how many of them have no end."""
    running = Count("pk", filter=Q(ended_us=None))
    return kinds.order_by().annotate(told=Sum("time"), rows=Count("pk"), running=running).iterator()
