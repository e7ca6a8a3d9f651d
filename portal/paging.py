"""Pages of long lists for Django's Paginator: rows are counted off from whichever end is nearer, and by their
keys alone where there are many, so that the last page costs what the first one does, and only those rows are
read whole that are shown.

Counting all rows of a list that grows for years takes longer each year. Such a list is counted up to a
number; of what comes after that only is told that there is more, and the order turned round leads to it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)
# So many rows are skipped, and sorted, as they are: another query costs as much.
SHALLOW = 500
MANY = 1_000


def paged(
    rows: "QuerySet[M] | Sequence[QuerySet[M]]", *, size: int, at_most: int | None = None
) -> "Paginator[M]":
    """Pages of ordered rows, or of several querysets one after the other; of the first `at_most` rows where
    that is given, see `has_more`."""
    parts = [rows] if isinstance(rows, QuerySet) else rows
    counted: Any = OneAfterAnother(parts, at_most=at_most)
    return Paginator(counted, size)


def has_more(page: "Page[Any]") -> bool:
    """Whether there are more rows than the pages have: their number is not known then."""
    rows = page.paginator.object_list
    return isinstance(rows, OneAfterAnother) and rows.has_more


class OneAfterAnother(Generic[M]):
    """The rows of several querysets, in their order."""

    def __init__(self, parts: "Sequence[QuerySet[M]]", *, at_most: int | None = None) -> None:
        self._querysets = parts
        self._at_most = at_most

    @cached_property
    def _parts(self) -> "list[NearerEnd[M]]":
        """Those that have rows among the first."""
        found: list[NearerEnd[M]] = []
        left = self._at_most
        for rows in self._querysets:
            part = NearerEnd(rows, at_most=left)
            found.append(part)
            if part.has_more:
                break
            if left is not None:
                left -= len(part)
        return found

    @property
    def has_more(self) -> bool:
        return self._parts[-1].has_more

    def count(self) -> int:
        return sum(len(part) for part in self._parts)

    def __len__(self) -> int:
        return self.count()

    def __getitem__(self, wanted: slice) -> list[M]:
        start, stop, _step = wanted.indices(self.count())
        found: list[M] = []
        for part in self._parts:
            size = len(part)
            found += part[max(start, 0) : max(min(stop, size), 0)]
            start, stop = start - size, stop - size
        return found


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
