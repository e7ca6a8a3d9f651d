"""Pages of a list by cursor: where the last row stood, by everything that the list is ordered by.

A cursor holds the values of the row that its page begins after, so that a deep page costs what the first
does, and rows that share a time are told apart, be there a million of them. What comes or goes meanwhile
neither hides nor doubles other rows.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import BooleanField, F, Func, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler
from rest_framework import exceptions
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param


class _Place(msgspec.Struct, array_like=True, frozen=True):
    """What a cursor says: begin after this row, going backwards or not."""

    backwards: bool
    values: list[str]


class CursorPages(CursorPagination):
    """Cursor paging, newest first unless the view's `ordering` says otherwise: names of fields that are never
    null, the last of them unique, all of them ascending or all descending."""

    page_size = 100
    max_page_size = 1000
    page_size_query_param = "limit"
    ordering = "-id"

    def get_ordering(
        self,
        request: Request,  # noqa: ARG002 - DRF's signature
        queryset: Any,  # noqa: ARG002 - DRF's signature
        view: Any,
    ) -> tuple[str, ...]:
        ordering = getattr(view, "ordering", self.ordering)
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        self._here, self._columns = request.build_absolute_uri(), self.get_ordering(request, queryset, view)
        self.page_size = self.get_page_size(request) or self.page_size
        place = self._place(request.query_params.get(self.cursor_query_param))
        # A view may know how its rows fall into parts, each wholly before the next.
        parts = view.in_parts(queryset) if hasattr(view, "in_parts") else [queryset]
        try:
            self._rows, more = self._fetched(parts, place)
        except (ValidationError, ValueError, OverflowError, DataError) as error:
            if place is None:
                raise
            # Well-formed on its outside; the position within is none that this list could have given out.
            raise exceptions.NotFound(self.invalid_cursor_message) from error
        backwards = place is not None and place.backwards
        self.has_next = backwards or more
        self.has_previous = more if backwards else place is not None
        self._asked = place
        return self._rows

    def get_next_link(self) -> str | None:
        return self._link(self._rows[-1:], backwards=False) if self.has_next else None

    def get_previous_link(self) -> str | None:
        return self._link(self._rows[:1], backwards=True) if self.has_previous else None

    # --- places ------------------------------------------------------------------------------------

    def _fetched(self, parts: Sequence[QuerySet[Any]], place: _Place | None) -> tuple[list[Any], bool]:
        """The page in order, and whether there is more beyond it, in the direction that was gone."""
        backwards = place is not None and place.backwards
        found: list[Any] = []
        for part in reversed(parts) if backwards else parts:
            found += self._beyond(part, place)[: self.page_size + 1 - len(found)]
            if len(found) > self.page_size:
                break
        page = found[: self.page_size]
        return page[::-1] if backwards else page, len(found) > self.page_size

    def _beyond(self, queryset: QuerySet[Any], place: _Place | None) -> QuerySet[Any]:
        """The rows beyond a place, in the direction that is gone."""
        backwards = place is not None and place.backwards
        names = [name.removeprefix("-") for name in self._columns]
        descending = self._columns[0].startswith("-") != backwards
        rows = queryset.order_by(*(f"-{name}" if descending else name for name in names))
        if place is not None:
            fields = [queryset.model._meta.get_field(name) for name in names]
            values = [_value(field, told) for field, told in zip(fields, place.values, strict=True)]
            rows = rows.filter(_Beyond(names, fields, values, descending=descending))
        return rows

    def _link(self, at: Sequence[Any], *, backwards: bool) -> str:
        """Beyond that row; where the page is empty, beyond what it was asked to be beyond."""
        values = [_told(at[0], name.removeprefix("-")) for name in self._columns] if at else []
        place = _Place(backwards, values or (self._asked.values if self._asked else []))
        told = base64.urlsafe_b64encode(msgspec.msgpack.encode(place)).decode()
        return replace_query_param(self._here, self.cursor_query_param, told)

    def _place(self, cursor: str | None) -> _Place | None:
        """What a cursor says; nothing for none. Raises NotFound for what is no cursor of such a list."""
        if not cursor:
            return None
        try:
            place = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor.encode()), type=_Place)
        except ValueError:
            place = None
        if place is None or len(place.values) != len(self._columns):
            raise exceptions.NotFound(self.invalid_cursor_message)
        return place


class _Beyond(Func):
    """Whether a row comes after the values, compared as one: an index on the columns begins right there."""

    output_field = BooleanField()

    def __init__(
        self, names: Sequence[str], fields: Sequence[Any], values: Sequence[Any], *, descending: bool
    ) -> None:
        told = (Value(value, output_field=field) for value, field in zip(values, fields, strict=True))
        super().__init__(*map(F, names), *told)
        self.sign = "<" if descending else ">"

    def as_sql(self, compiler: SQLCompiler, connection: Any, *_args: Any, **_context: Any) -> Any:  # noqa: ARG002 - Django's signature
        told = [compiler.compile(part) for part in self.get_source_expressions()]
        half = len(told) // 2
        sides = (", ".join(text for text, _values in side) for side in (told[:half], told[half:]))
        return f" {self.sign} ".join(f"({side})" for side in sides), [v for _, vs in told for v in vs]


def _value(field: Any, told: str) -> Any:
    value = field.to_python(told)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(told)
    return value


def _told(row: Any, name: str) -> str:
    value = row[name] if isinstance(row, Mapping) else getattr(row, name)
    return value.isoformat() if isinstance(value, datetime) else str(value)
