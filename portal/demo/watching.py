"""Watches over HTTP: a line of JSON for each change, bookmarks, and 410 as an event."""

import asyncio
import json
import random

from aiohttp import web

from portal.demo import errors
from portal.demo.faults import Faults
from portal.demo.history import Change
from portal.demo.records import Record
from portal.demo.requests import Query
from portal.demo.resources import Resource
from portal.demo.selectors import Selector
from portal.demo.store import Store
from portal.demo.table import seen_through
from portal.demo.views import single

_BATCH = 500


def line(kind: str, obj: bytes) -> bytes:
    """One event of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"


def _bookmark(resource: Resource, revision: int, *, initial_end: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return line("BOOKMARK", json.dumps(obj).encode())


class Watch:
    """One watch request, from its parameters to its last line."""

    def __init__(
        self, store: Store, resource: Resource, selector: Selector, query: Query, *, bookmark_seconds: float
    ) -> None:
        self._store = store
        self._resource = resource
        self._selector = selector
        self._table = store.tables[resource.key]
        self._bookmarks = query.flag("allowWatchBookmarks")
        # Bookmarks come from the watch cache, and API servers have none of Events.
        self._regular_bookmarks = self._bookmarks and resource.plural != "events"
        self._bookmark_seconds = bookmark_seconds
        self._initial = query.flag("sendInitialEvents")
        self._since = query.revision() or 0
        self._seconds = query.number("timeoutSeconds") or random.randint(1800, 3600)  # noqa: S311 - spreads load
        self._check(query)

    def _check(self, query: Query) -> None:
        match = query.text("resourceVersionMatch")
        if not self._initial and "sendInitialEvents" not in query.values:
            if match:
                raise errors.invalid("meta.k8s.io", "ListOptions", "", [errors.Cause(
                    "resourceVersionMatch", "FieldValueForbidden",
                    "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                    "provided",
                )])  # fmt: skip
            return
        if match != "NotOlderThan":
            raise errors.invalid("meta.k8s.io", "ListOptions", "", [errors.Cause(
                "resourceVersionMatch", "FieldValueForbidden",
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )])  # fmt: skip

    async def stream(self, response: web.StreamResponse, faults: Faults) -> None:
        """Write events until the time is over, the past is lost (410) or the client has gone."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._seconds
        with self._table.history.waker() as woken:
            try:
                position = await self._begin(response)
                next_bookmark = self._next_bookmark(loop.time())
                while loop.time() < ends_at:
                    woken.clear()
                    changes = self._table.history.read(position, _BATCH)
                    position += len(changes)
                    lines = b"".join(filter(None, (self._line(change) for change in changes)))
                    if lines:
                        await faults.write(response, lines)
                    if position < self._table.history.end:
                        continue
                    if loop.time() >= next_bookmark:
                        await response.write(_bookmark(self._resource, self._store.revision))
                        next_bookmark = self._next_bookmark(loop.time())
                    await _wait(woken, min(ends_at, next_bookmark) - loop.time())
                if self._regular_bookmarks:
                    # A client that comes back later need not start from its last change.
                    position = await self._catch_up(response, position)
                    await response.write(_bookmark(self._resource, self._store.revision))
            except errors.ApiError as error:
                await response.write(line("ERROR", json.dumps(error.as_status()).encode()))

    def _next_bookmark(self, now: float) -> float:
        return now + self._bookmark_seconds if self._regular_bookmarks else float("inf")

    async def _catch_up(self, response: web.StreamResponse, position: int) -> int:
        """Send what came in last, so that the closing bookmark promises nothing that was not sent."""
        while changes := self._table.history.read(position, _BATCH):
            position += len(changes)
            await response.write(b"".join(filter(None, (self._line(change) for change in changes))))
        return position

    async def _begin(self, response: web.StreamResponse) -> int:
        """Send the current objects if asked to, and give the position of the first change."""
        if self._since and not self._initial:
            return self._table.history.position_after(self._since)
        position, revision = self._table.history.end, self._store.revision
        present = self._table.select(self._selector)
        for start in range(0, len(present), _BATCH):
            batch = present[start : start + _BATCH]
            await response.write(b"".join(line("ADDED", self._object(record)) for record in batch))
        if self._initial and self._bookmarks:
            await response.write(_bookmark(self._resource, revision, initial_end=True))
        return position

    def _line(self, change: Change) -> bytes:
        seen = seen_through(change, self._selector)
        return line(seen[0], self._object(seen[1])) if seen else b""

    def _object(self, record: Record) -> bytes:
        return single(self._resource, record)


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await woken.wait()
    except TimeoutError:
        pass
