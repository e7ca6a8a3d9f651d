"""Read-only pictures of the store, as structs, kept current by reading what changed.

A controller never acts on an old picture: :meth:`View.refresh` is synchronous and cheap when nothing
changed, so that "look, decide, write" happens within one step of the event loop.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from portal.demo.errors import ApiError
from portal.demo.history import Change
from portal.demo.records import Key, Record
from portal.demo.store import Store
from portal.dra.model import Base, ObjectMeta

T = TypeVar("T")
log = logging.getLogger(__name__)
BATCH = 1000


class Described(Base, frozen=True, kw_only=True):
    """Any object, as far as its metadata goes."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """How one object changed: ``old`` is None for a new one, ``new`` for one that is gone."""

    key: Key
    old: T | None
    new: T | None


Handler = Callable[[Delta[T]], None]


class View(Generic[T]):
    """The current objects of one resource by (namespace, name)."""

    def __init__(self, store: Store, plural: str, decode: Callable[[bytes], T]) -> None:
        self._table = store.tables[plural]
        self._decode = decode
        self._handlers: list[Handler[T]] = []
        self._position = -1
        self._revisions: dict[Key, int] = {}
        self.plural = plural
        self.objects: dict[Key, T] = {}
        self.version = 0

    def subscribe(self, handler: Handler[T]) -> None:
        """Tell ``handler`` of every change; what is there already comes as new."""
        for key, present in self.objects.items():
            handler(Delta(key, None, present))
        self._handlers.append(handler)

    def get(self, namespace: str, name: str) -> T | None:
        """The object as of the last refresh."""
        return self.objects.get((namespace, name))

    def refresh(self) -> None:
        """Catch up with the store and tell the subscribers."""
        if not self._read_changes():
            self._compare()

    async def follow(self) -> None:
        """Stay current until cancelled."""
        with self._table.history.waker() as woken:
            while True:
                woken.clear()
                self.refresh()
                await woken.wait()

    def _read_changes(self) -> bool:
        """Take over what changed; False if the store does not remember all of it, or at first."""
        if self._position < 0:
            return False
        try:
            while changes := self._table.history.read(self._position, BATCH):
                self._position += len(changes)
                for change in changes:
                    self._take(change)
        except ApiError:
            return False
        return True

    def _take(self, change: Change) -> None:
        record = change.record
        if change.type == "DELETED":
            self._forget(record.key)
        elif self._revisions.get(record.key, -1) < record.revision:
            self._put(record)

    def _compare(self) -> None:
        self._position = self._table.history.end
        records = self._table.records
        for key in [key for key in self.objects if key not in records]:
            self._forget(key)
        for key, record in list(records.items()):
            if self._revisions.get(key) != record.revision:
                self._put(record)

    def _put(self, record: Record) -> None:
        key = record.key
        try:
            new = self._decode(record.raw)
        except msgspec.ValidationError as error:
            # A real controller would not have decoded it either: the object is not there for us.
            log.warning("%s %s/%s cannot be read: %s", self.plural, *key, error)
            self._forget(key)
            return
        old = self.objects.get(key)
        self.objects[key] = new
        self._revisions[key] = record.revision
        self._tell(Delta(key, old, new))

    def _forget(self, key: Key) -> None:
        self._revisions.pop(key, None)
        if (old := self.objects.pop(key, None)) is not None:
            self._tell(Delta(key, old, None))

    def _tell(self, delta: Delta[T]) -> None:
        self.version += 1
        for handler in self._handlers:
            try:
                handler(delta)
            except Exception:
                log.exception("%s %s/%s: a controller stumbled over this change", self.plural, *delta.key)


class Index(Generic[T]):
    """Which objects of a view belong to something: ``keys_of`` names the groups that an object is in."""

    def __init__(self, view: View[T], keys_of: Callable[[T], list[Any]]) -> None:
        self._keys_of = keys_of
        self._members: dict[Any, set[Key]] = defaultdict(set)
        view.subscribe(self._update)

    def __getitem__(self, group: object) -> frozenset[Key]:
        return frozenset(self._members.get(group, ()))

    def _update(self, delta: Delta[T]) -> None:
        if delta.old is not None:
            for group in self._keys_of(delta.old):
                self._members[group].discard(delta.key)
                if not self._members[group]:
                    del self._members[group]
        if delta.new is not None:
            for group in self._keys_of(delta.new):
                self._members[group].add(delta.key)


def decoder(struct: type[T]) -> Callable[[bytes], T]:
    """Raw JSON to a struct (or, for ``dict``, to plain values)."""
    return msgspec.json.Decoder(struct).decode
