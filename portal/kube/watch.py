"""One watch: a long answer of one JSON event per line, read as it comes.

The official client's loop hides what we need to see (see `errors`), so this is our own: lines are put
together from whatever pieces the network delivers; bookmarks come out as such; an ERROR event is raised as
the error it stands for; a line that does not parse is a ProtocolError; the server's own end of a watch is
simply the end of the iteration.
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

import msgspec
import urllib3
from django.utils.translation import gettext as _

from portal.kube import errors

# An object in etcd has at most 1.5 MB; a longer line comes from something else.
MAX_LINE_BYTES = 16 * 1024 * 1024
READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Event:
    """An object was ADDED, MODIFIED or DELETED; `object` is its raw JSON."""

    type: str
    object: msgspec.Raw


@dataclass(frozen=True)
class Bookmark:
    """Nothing changed up to `resource_version`: a later watch may continue from there."""

    resource_version: str


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Bookmarked(msgspec.Struct):
    metadata: _Metadata


CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_lines = msgspec.json.Decoder(_Line)
_bookmarks = msgspec.json.Decoder(_Bookmarked)


class Watch:
    """Iterate to get lists of events: all that one read delivered, so that bursts can be handled together.

    The iteration ends when the server closes the watch, when it was silent for too long, when the
    connection is cut (an unfinished line is dropped: it comes again from the last resourceVersion), or
    after `close`, which any thread may call. Raises Gone (and other ClusterErrors) for ERROR events,
    ProtocolError for a malformed line.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, *, date: datetime | None = None) -> None:
        self._response = response
        self._closed = threading.Event()
        # The server's clock when the watch began, from its Date header.
        self.date = date
        # Whether the server itself ended the watch, so that everything up to then was seen.
        self.ended_well = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        # Never back into the pool: the rest of this answer may still be on the wire.
        self._response.close()

    def close(self) -> None:
        """End the watch from any thread; a read that waits returns at once."""
        if self._closed.is_set():
            return
        self._closed.set()
        # Not `response.close()`, which would wait for the reading thread's buffer lock.
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._response.shutdown()

    def __iter__(self) -> Iterator[list[Event | Bookmark]]:
        rest = b""
        while not self._closed.is_set():
            try:
                data = self._response.read1(READ_BYTES)
            except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
                # Cut, silent for too long, or closed by us (the odd two come from a socket closed under a
                # read).
                return
            if not data:
                self.ended_well = not self._closed.is_set()
                return
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise errors.ProtocolError(_("The watch sent a line that is too long."))
            events = [_parse(line) for line in lines if line.strip()]
            if events:
                yield events


def _parse(line: bytes) -> Event | Bookmark:
    try:
        parsed = _lines.decode(line)
        if parsed.type == "BOOKMARK":
            return Bookmark(_bookmarks.decode(parsed.object).metadata.resource_version)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise errors.ProtocolError(
            _("The watch sent a line that does not parse: %(reason)s.") % {"reason": str(error)[:200]}
        ) from None
    if parsed.type == "ERROR":
        raise errors.from_watch(bytes(parsed.object))
    if parsed.type not in CHANGES:
        raise errors.ProtocolError(
            _("The watch sent an event of unknown type “%(type)s”.") % {"type": parsed.type[:40]}
        )
    return Event(parsed.type, parsed.object)
