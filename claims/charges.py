"""What allocations cost: the ledger through `claims.pricing`, for a project, a request or everything.

A period of a whole organisation may be a million intervals. Their time is added up by the database, as
integer microseconds per kind of usage and stretch of one price book, which is exactly what
`pricing.statement` does with one usage after the other (`usages`); prices and rounding come after that, in
one place.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from claims.models import Allocation, Request
from claims.pricing import (
    MICROSECOND,
    Gathered,
    GatheredKey,
    PriceList,
    PriceSegment,
    Statement,
    Usage,
    conclude,
    price_list,
    share,
    statement,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KIND = ("project_id", "device_class", "product")
_COLUMNS = (
    "project_id",
    "device_class",
    "product",
    "started_at",
    "ended_at",
    "share_id",
    "consumed_capacity",
    "capacity",
)


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
    rows = Allocation.objects.filter(admin_access=False)
    if projects is not None:
        rows = rows.filter(project__in=projects)
    segments = list((prices or price_list()).segments(start, min(end, now)))
    gathered = _gather(rows, segments, up_to_now=now <= end)
    return conclude(gathered, segments, start=start, end=end)


def charges_of_request(*, request: Request, now: datetime, prices: PriceList | None = None) -> Statement:
    """What a request has cost so far."""
    return statement(
        usages(Allocation.objects.filter(request=request)),
        prices or price_list(),
        start=request.created_at,
        end=now,
        now=now,
    )


def usages(rows: QuerySet[Allocation]) -> Iterator[Usage]:
    """Billable intervals among `rows`. Admin access looks at devices without holding them: never billed."""
    values = rows.filter(admin_access=False).values_list(*_COLUMNS)
    for project, device_class, product, start, end, share_id, consumed, capacity in values.iterator(
        chunk_size=5_000
    ):
        yield Usage(
            project_id=project,
            device_class=device_class,
            product=product,
            start=start,
            end=end,
            quantity=share(consumed, capacity) if share_id else Fraction(1),
        )


def _gather(
    rows: QuerySet[Allocation], segments: list[PriceSegment], *, up_to_now: bool
) -> dict[GatheredKey, Gathered]:
    """Device time by kind of usage and segment, added up by the database."""
    gathered: dict[GatheredKey, Gathered] = defaultdict(Gathered)
    for index, (lower, upper, _book) in enumerate(segments):
        here = _within(rows, (lower - _EPOCH) // MICROSECOND, (upper - _EPOCH) // MICROSECOND)
        grows = up_to_now and index == len(segments) - 1
        whole = here.filter(share_id="").values_list(*_KIND)
        for project, device_class, product, time, count, running in _sums(whole):
            gathered[project, device_class, product, index].add(
                time, Fraction(1), running=running if grows else 0, count=count
            )
        shared = here.exclude(share_id="").values_list(*_KIND, "consumed_capacity", "capacity")
        for project, device_class, product, consumed, capacity, time, count, running in _sums(shared):
            gathered[project, device_class, product, index].add(
                time, share(consumed, capacity), running=running if grows else 0, count=count
            )
    return gathered


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
