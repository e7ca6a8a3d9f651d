"""What allocations cost: the ledger through `claims.pricing`, for a project, a request or everything."""

from collections.abc import Collection, Iterator
from datetime import datetime
from fractions import Fraction

from django.db.models import Q, QuerySet

from claims.models import Allocation, Request
from claims.pricing import PriceList, Statement, Usage, price_list, share, statement

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
    rows = Allocation.objects.filter(started_at__lt=end).filter(Q(ended_at=None) | Q(ended_at__gt=start))
    if projects is not None:
        rows = rows.filter(project__in=projects)
    return statement(usages(rows), prices or price_list(), start=start, end=end, now=now)


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
