"""Pages of rows that no table holds: a cursor is the key that the page before ended with. And pages of what
grows: all of them count up to the same moment, which the first one's `next` carries."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from claims.history.intervals import MAX_TEXT, parse_moment
from claims.rest.streams import utc
from portal.api import CursorPages

T = TypeVar("T")


def page_of(
    request: Request, rows: Sequence[T], *, key: Callable[[T], list[str]]
) -> tuple[Sequence[T], str | None]:
    """A page, and the address of the next (None = it is the last). `rows` are in order of their keys. Raises
    NotFound for a cursor that nobody gave out."""
    size = CursorPages().get_page_size(request) or CursorPages.page_size
    if cursor := request.query_params.get("cursor", ""):
        after = _read(cursor)
        rows = [row for row in rows if key(row) > after]
    page = rows[:size]
    if len(rows) <= size:
        return page, None
    written = base64.urlsafe_b64encode(json.dumps(key(page[-1])).encode()).decode()
    return page, replace_query_param(request.build_absolute_uri(), "cursor", written)


AS_OF = OpenApiParameter(
    "as_of",
    OpenApiTypes.DATETIME,
    description="What still runs is counted up to then, and not up to now: as `next` has it, so that pages "
    "add up to their totals.",
)


def counted_until(request: Request) -> datetime:
    """Now, or `as_of`. Raises ValidationError."""
    now = timezone.now()
    try:
        return min(parse_moment(request.query_params.get("as_of", "").strip()[:MAX_TEXT]) or now, now)
    except ValueError as error:
        raise exceptions.ValidationError({"as_of": [str(error)]}) from None


def carried(link: str | None, now: datetime) -> str | None:
    """The address of another page, as of the same moment."""
    return replace_query_param(link, "as_of", utc(now)) if link else None


def _read(cursor: str) -> list[str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
        raise exceptions.NotFound(CursorPages.invalid_cursor_message)
    return found
