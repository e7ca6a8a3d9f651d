"""The objects of one resource in memory, in the order in which lists give them."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from portal.demo.history import Change, ChangeType, History
from portal.demo.records import Key, Record, at_revision
from portal.demo.resources import Resource
from portal.demo.selectors import Selector

_KEPT_SNAPSHOTS = 4


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, all of one revision. ``next_key`` is where the next page starts, if there is one."""

    records: list[Record]
    revision: int
    next_key: Key | None
    remaining: int | None


class Table:
    """Current records of one resource plus its recent past."""

    def __init__(self, resource: Resource, *, history_limit: int, oldest_revision: int) -> None:
        self.resource = resource
        self.records: dict[Key, Record] = {}
        self.history = History(limit=history_limit, oldest_revision=oldest_revision)
        self._keys: list[Key] = []
        self._snapshots: OrderedDict[int, tuple[list[Key], dict[Key, Record]]] = OrderedDict()

    def fill(self, records: Iterable[Record]) -> None:
        """Set the first contents, without history."""
        self.records = {record.key: record for record in records}
        self._keys = sorted(self.records)

    def apply(self, changes: list[Change]) -> None:
        """Take changes over into the current state and the history."""
        many = len(changes) > 64
        for change in changes:
            key = change.record.key
            if change.type == "DELETED":
                del self.records[key]
                del self._keys[bisect_left(self._keys, key)]
            else:
                if key not in self.records:
                    if many:
                        self._keys.append(key)
                    else:
                        insort(self._keys, key)
                self.records[key] = change.record
        if many:
            self._keys.sort()
        for change in changes:
            self.history.append(change)

    def select(self, selector: Selector) -> list[Record]:
        """The current records that the selector lets through, in order."""
        return self._pick(self._keys, self.records, selector, start=None, limit=0)[0]

    def page(self, selector: Selector, *, limit: int, start: Key | None, revision: int, current: int) -> Page:
        """Up to ``limit`` records (0: all) from ``start`` on, as of ``revision``; 410 when too old."""
        keys, records = (self._keys, self.records) if revision == current else self._at(revision)
        found, next_key, remaining = self._pick(keys, records, selector, start=start, limit=limit)
        return Page(found, revision, next_key, None if selector.narrowed else remaining)

    def _at(self, revision: int) -> tuple[list[Key], dict[Key, Record]]:
        self.history.position_after(revision)
        if kept := self._snapshots.get(revision):
            self._snapshots.move_to_end(revision)
            return kept
        # Kept for the pages to come: pointers only.
        records = dict(self.records)
        self.history.undo(records, revision)
        self._snapshots[revision] = (sorted(records), records)
        while len(self._snapshots) > _KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return self._snapshots[revision]

    @staticmethod
    def _pick(
        keys: list[Key], records: dict[Key, Record], selector: Selector, *, start: Key | None, limit: int
    ) -> tuple[list[Record], Key | None, int]:
        """The chosen records, the key where the next page starts, and how many keys are left from there."""
        if start is None:
            start = (selector.namespace, "")
        first = bisect_left(keys, start)
        # Keys are ordered by namespace, so one namespace is one stretch.
        last = bisect_left(keys, (selector.namespace + "\0", "")) if selector.namespace else len(keys)
        if not selector.narrowed:
            end = min(first + limit, last) if limit else last
            chosen = [records[key] for key in keys[first:end]]
            return (chosen, keys[end], last - end) if end < last else (chosen, None, 0)
        chosen = []
        for index in range(first, last):
            record = records[keys[index]]
            if selector.matches(record.namespace, record.labels, record.fields):
                if limit and len(chosen) == limit:
                    return chosen, record.key, last - index
                chosen.append(record)
        return chosen, None, 0


def seen_through(change: Change, selector: Selector) -> tuple[ChangeType, Record] | None:
    """How a watch with ``selector`` sees a change.

    An object that stops matching is DELETED for it, shown as it last was when it matched.
    """
    record, previous = change.record, change.previous
    is_match = change.type != "DELETED" and selector.matches(record.namespace, record.labels, record.fields)
    was_match = previous is not None and selector.matches(
        previous.namespace, previous.labels, previous.fields
    )
    if is_match:
        return ("MODIFIED" if was_match else "ADDED"), record
    if previous is None or not was_match:
        return None
    return "DELETED", record if change.type == "DELETED" else at_revision(previous, change.revision)
