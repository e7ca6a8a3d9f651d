"""Answers of any size: CSV and NDJSON, row by row, in memory that does not grow with them.

A view that gives its rows this way as well lists `STREAMED` among its renderers, so that both ``?format=csv``
and ``Accept: text/csv`` are understood, and asks `streamed` first. Numbers and times are the same in every
format and every language: times are UTC as in JSON, quantities as in the Kubernetes API.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.http import StreamingHttpResponse
from django.utils.http import parse_etags
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from portal import csvs

# Lines that are sent together.
BATCH = 200


class _Streamed(BaseRenderer):
    """Only for the negotiation; an error in a stream's place is JSON."""

    charset = "utf-8"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        told: bytes = JSONRenderer().render(data, accepted_media_type, renderer_context)
        return told


class CsvRenderer(_Streamed):
    media_type, format = "text/csv", "csv"


class NdjsonRenderer(_Streamed):
    media_type, format = "application/x-ndjson", "ndjson"


RENDERERS = (JSONRenderer, CsvRenderer, NdjsonRenderer)


class Formats(DefaultContentNegotiation):
    """A `format` that there is not is named; else it would look as if there were no such address."""

    def filter_renderers(self, renderers: Iterable[BaseRenderer], format: str) -> list[BaseRenderer]:  # noqa: A002 # as it is called there
        offered = list(renderers)
        found = [renderer for renderer in offered if renderer.format == format]
        if not found:
            choices = ", ".join(str(renderer.format) for renderer in offered)
            said = _("Choose one of: %(choices)s.") % {"choices": choices}
            raise exceptions.ValidationError({"format": [said]})
        return found


def is_streamed(request: Request) -> bool:
    """Whether the caller asks for a format that is streamed."""
    return isinstance(request.accepted_renderer, _Streamed)


def streamed(
    request: Request, rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str], name: str
) -> StreamingHttpResponse:
    """The rows, in the format that was asked for. `columns` is the order of the columns of CSV; values are as
    they stand in JSON."""
    renderer = request.accepted_renderer
    lines = _csv(rows, columns) if renderer.format == "csv" else _ndjson(rows)
    response = StreamingHttpResponse(_together(lines), content_type=f"{renderer.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.{renderer.format}"'
    return response


def utc(at: datetime | None) -> str | None:
    """A time as JSON has it everywhere here."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at is not None else None


def etag_of(*parts: object) -> str:
    """A weak ETag that changes when any of the parts does."""
    told = json.dumps(parts, default=str, sort_keys=True)
    return f'W/"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'


def not_modified(request: Request, etag: str) -> Response | None:
    """The empty answer to a caller who has this version already."""
    known: Collection[str] = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in known or etag in known or etag.removeprefix("W/") in known:
        return Response(status=304, headers={"ETag": etag})
    return None


def _csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    return csvs.lines(columns, ([_cell(row[name]) for name in columns] for row in rows))


def _cell(value: Any) -> Any:
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, list) and not any(isinstance(one, dict) for one in value):
        return "; ".join(str(one) for one in value)
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, order="sorted").decode() if value else ""
    return value


def _ndjson(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def _together(lines: Iterator[str]) -> Iterator[bytes]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            yield "".join(batch).encode("utf-8", "backslashreplace")
            batch.clear()
    if batch:
        yield "".join(batch).encode("utf-8", "backslashreplace")
