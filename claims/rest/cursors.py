"""Pages of rows that no table holds: a cursor is the key that the page before ended with."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

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


def _read(cursor: str) -> list[str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
        raise exceptions.NotFound(CursorPages.invalid_cursor_message)
    return found
