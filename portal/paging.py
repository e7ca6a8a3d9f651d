"""Pages of long lists for Django's Paginator: rows are counted off from whichever end is nearer, and by their
keys alone where there are many, so that the last page costs what the first one does, and only those rows are
read whole that are shown.

Counting all rows of a list that grows for years takes longer each year. Such a list is counted up to a
number; of what comes after that only is told that there is more, and the order turned round leads to it.
"""

from functools import cached_property
from typing import Any, Generic, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)
# So many rows are skipped, and sorted, as they are: another query costs as much.
SHALLOW = 500
MANY = 1_000


def paged(rows: "QuerySet[M]", *, size: int, at_most: int | None = None) -> "Paginator[M]":
    """Pages of ordered rows; of the first `at_most` of them where that is given, see `has_more`."""
    counted: Any = NearerEnd(rows, at_most=at_most)
    return Paginator(counted, size)


def has_more(page: "Page[Any]") -> bool:
    """Whether there are more rows than the pages have: their number is not known then."""
    rows = page.paginator.object_list
    return isinstance(rows, NearerEnd) and rows.has_more


class NearerEnd(Generic[M]):
    """Ordered rows, counted once; no more of them than `at_most`. A slice is a list: one query, or two far
    from both ends."""

    def __init__(self, rows: "QuerySet[M]", *, at_most: int | None = None) -> None:
        self._rows = rows
        self._at_most = at_most

    @cached_property
    def _found(self) -> int:
        """All of them, or one more than `at_most`."""
        if self._at_most is None:
            return self._rows.count()
        return self._rows.order_by().values("pk")[: self._at_most + 1].count()

    @property
    def has_more(self) -> bool:
        return self._at_most is not None and self._found > self._at_most

    @property
    def _count(self) -> int:
        return self._found if self._at_most is None else min(self._found, self._at_most)

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
        # The far end is one only where all rows are counted.
        rows, backwards = self._rows, not self.has_more and start > self._count - stop
        if backwards:
            rows, start, stop = rows.reverse(), self._count - stop, self._count - start
        found = self._far(rows, start, stop)
        return found[::-1] if backwards else found

    def _far(self, rows: "QuerySet[M]", start: int, stop: int) -> list[M]:
        keys: Any = list(rows.values_list("pk", flat=True)[start:stop])
        there = {row.pk: row for row in rows.order_by().filter(pk__in=keys)}
        # What went away since its key was read is left out.
        return [there[key] for key in keys if key in there]
