"""What touches a period of time, found by indexes however long the ledger is.

Whatever is held at an instant has begun before it: without a bound, all of the past would have to be looked
through for the few that lasted until then. So the past is divided by how long ago something began: what
began days ago and is still held lasts for days, and of those there is an index, as there is of what lasts for
months.
"""

from datetime import datetime
from itertools import chain

from django.db.models import QuerySet

from claims.models import Allocation
from claims.models.ledger import DAYS, MONTHS, lasting


def newest_first(rows: QuerySet[Allocation], *, start: datetime | None) -> list[QuerySet[Allocation]]:
    """The same rows in parts: everything in one has begun later than anything in the next. `start` is the
    beginning of the period that they touch (None: it has none); they are filtered by it already."""
    if start is None:
        return [rows]
    days, months = start - DAYS, start - MONTHS
    return [
        rows.filter(started_at__gt=days),
        rows.filter(lasting(DAYS), started_at__gt=months, started_at__lte=days),
        rows.filter(lasting(MONTHS), started_at__lte=months),
    ]


def each(parts: list[QuerySet[Allocation]], *, chunk_size: int) -> "chain[Allocation]":
    """All rows, part after part, fetched by and by."""
    return chain.from_iterable(part.iterator(chunk_size=chunk_size) for part in parts)
