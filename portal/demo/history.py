"""What changed lately in one resource: the bounded past that watches and consistent pages are served from."""

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Literal

from portal.demo import errors
from portal.demo.records import Key, Record

__all__ = ["Change", "ChangeType", "History", "Key", "Record"]

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One write. ``record`` is the new state (for DELETED the last one, at the revision of the deletion)."""

    type: ChangeType
    revision: int
    record: Record
    previous: Record | None


class History:
    """The last changes of one resource, numbered without gaps so that each watcher keeps only a position.

    A watcher that falls behind the kept past is told 410, so a slow one costs no memory.
    """

    def __init__(self, *, limit: int, oldest_revision: int = 0) -> None:
        self._limit = limit
        self._changes: list[Change] = []
        self._revisions: list[int] = []
        self._dropped = 0
        self._wakers: set[asyncio.Event] = set()
        self.oldest_revision = oldest_revision

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._dropped + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)
        self._revisions.append(change.revision)
        # Trimming by a quarter at a time keeps appending cheap.
        if len(self._changes) > self._limit * 5 // 4 + 1:
            self._drop(len(self._changes) - self._limit)
        for waker in self._wakers:
            waker.set()

    def compact(self) -> None:
        """Forget the past, as etcd's compaction does."""
        self._drop(len(self._changes))
        for waker in self._wakers:
            waker.set()

    def _drop(self, count: int) -> None:
        if count <= 0:
            return
        self.oldest_revision = self._revisions[count - 1]
        self._dropped += count
        del self._changes[:count]
        del self._revisions[:count]

    def position_after(self, revision: int) -> int:
        """Where a watch from ``revision`` starts; raises 410 when that is no longer known."""
        if revision < self.oldest_revision:
            raise errors.too_old(revision, self.oldest_revision)
        return self._dropped + bisect_right(self._revisions, revision)

    def read(self, position: int, count: int) -> list[Change]:
        """Up to ``count`` changes from ``position`` on; raises 410 when they are no longer known."""
        if position < self._dropped:
            raise errors.too_old(self.oldest_revision - 1, self.oldest_revision)
        start = position - self._dropped
        return self._changes[start : start + count]

    def undo(self, records: dict[Key, Record], revision: int) -> None:
        """Turn ``records`` from the current state into that of ``revision``; raises 410 when too old."""
        start = self.position_after(revision) - self._dropped
        for change in reversed(self._changes[start:]):
            if change.previous is None:
                records.pop(change.record.key, None)
            else:
                records[change.previous.key] = change.previous

    def waker(self) -> "Waker":
        """A context in which an event is set at every change."""
        return Waker(self._wakers)


class Waker:
    """Registers an event for as long as a watch lives."""

    def __init__(self, wakers: set[asyncio.Event]) -> None:
        self._wakers = wakers
        self._event = asyncio.Event()

    def __enter__(self) -> asyncio.Event:
        self._wakers.add(self._event)
        return self._event

    def __exit__(self, *_: Any) -> None:
        self._wakers.discard(self._event)
