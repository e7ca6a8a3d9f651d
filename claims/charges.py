"""What allocations cost: the ledger through `claims.pricing`, for a project, a request or everything.

A period of a whole organisation may be a million intervals. Their time is added up by the database, as
integer microseconds per kind of usage and stretch of one price book, which is exactly what
`pricing.statement` does with one usage after the other (`usages`); prices and rounding come after that, in
one place.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from claims.books import Kind, PriceList, PriceSegment, price_list, share
from claims.models import Allocation, Request
from claims.pricing import MICROSECOND, Gathered, GatheredKey, Statement, Usage, conclude, statement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = Allocation.Kind.UNITS
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
    rows = Allocation.objects.filter(admin_access=False)
    if projects is not None:
        rows = rows.filter(project__in=projects)
    prices = prices or price_list()
    segments = list(prices.segments(start, min(end, now)))
    gathered = _gather(rows, segments, up_to_now=now <= end)
    return conclude(gathered, segments, prices, start=start, end=end)


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
    values = rows.filter(admin_access=False).values(*_COLUMNS)
    for row in values.iterator(chunk_size=5_000):
        kind = _kind(row, shared=bool(row["share_id"]))
        yield Usage(
            project_id=kind.project_id,
            device_class=kind.device_class,
            product=kind.product,
            start=row["started_at"],
            end=row["ended_at"],
            quantity=kind.share,
            profile=kind.profile,
            resource=kind.resource,
            consumed=kind.consumed,
            capacity=kind.capacity,
            counters=kind.counters,
        )


def _gather(
    rows: QuerySet[Allocation], segments: list[PriceSegment], *, up_to_now: bool
) -> dict[GatheredKey, Gathered]:
    """Time by kind of usage and segment, added up by the database."""
    gathered: dict[GatheredKey, Gathered] = {}
    # To leave out what is not there costs the sums their index.
    of_claims = {"kind": Allocation.Kind.CLAIM} if rows.filter(kind=UNITS).exists() else {}
    for index, (lower, upper, book) in enumerate(segments):
        here = _within(rows, (lower - _EPOCH) // MICROSECOND, (upper - _EPOCH) // MICROSECOND)
        grows = up_to_now and index == len(segments) - 1
        # What prices do not depend on is not told apart: whole devices are a matter of an index then.
        detailed = book is not None and book.detailed
        for shared, columns, part in (
            (False, _DETAILS if detailed else _KIND, here.filter(share_id="", **of_claims)),
            (True, _DETAILS if detailed else _SHARES, here.exclude(share_id="")),
            *(((False, _DETAILS, here.filter(kind=UNITS)),) if of_claims else ()),
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
