"""Pages of long lists for Django's Paginator: rows are counted off from whichever end is nearer, and by their
keys alone where there are many, so that the last page costs what the first one does, and only those rows are
read whole that are shown.
"""

from functools import cached_property
from typing import Any, Generic, TypeVar

from django.core.paginator import Paginator
from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)
# So many rows are skipped, and sorted, as they are: another query costs as much.
SHALLOW = 500
MANY = 1_000


def paged(rows: "QuerySet[M]", *, size: int) -> "Paginator[M]":
    """Pages of ordered rows."""
    counted: Any = NearerEnd(rows)
    return Paginator(counted, size)


class NearerEnd(Generic[M]):
    """Ordered rows, counted once. A slice is a list: one query, or two far from both ends."""

    def __init__(self, rows: "QuerySet[M]") -> None:
        self._rows = rows

    @cached_property
    def _count(self) -> int:
        return self._rows.count()

    def count(self) -> int:
        return self._count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, wanted: slice) -> list[M]:
        start, stop, _step = wanted.indices(self._count)
        if start >= stop:
            return []
        if start <= SHALLOW and self._count <= MANY:
            return list(self._rows[start:stop])
        rows, backwards = self._rows, start > self._count - stop
        if backwards:
            rows, start, stop = rows.reverse(), self._count - stop, self._count - start
        found = self._far(rows, start, stop)
        return found[::-1] if backwards else found

    def _far(self, rows: "QuerySet[M]", start: int, stop: int) -> list[M]:
        keys: Any = list(rows.values_list("pk", flat=True)[start:stop])
        there = {row.pk: row for row in rows.order_by().filter(pk__in=keys)}
        # What went away since its key was read is left out.
        return [there[key] for key in keys if key in there]
