"""Events about Pods that use devices: the latest of each reason, because that is what tells people why
they wait."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

import msgspec
from django.db import transaction

from inventory.mirror.batches import Item, Key
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change, MirroredKind
from inventory.mirror.turn import Turn, parse_time
from inventory.models import Pod, PodEvent
from portal.sql import chunks

# Which Events are asked for.
FIELD_SELECTOR = "involvedObject.kind=Pod,type=Warning"
# An Event can come before the Pod that it is about: the two are followed separately.
MAX_WAITING = 5000


class _Reference(msgspec.Struct):
    kind: str = ""
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class _Series(msgspec.Struct, rename="camel"):
    count: int | None = None
    last_observed_time: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class EventObject(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    involved_object: _Reference = msgspec.field(default_factory=_Reference)
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    type: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


class PodEvents(MirroredKind[PodEvent, EventObject]):
    plural = "events"
    model = PodEvent
    namespaced = True
    has_history = False
    notes_changes = True
    # API servers keep no watch cache of Events, so quiet watches of them get no bookmarks, and are soon told
    # that their version is gone. What was said meanwhile is in the list that follows.
    notes_gaps = False

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, str], PodEvent] = OrderedDict()

    def rows(self, turn: Turn, keys: Collection[Key]) -> dict[Key, PodEvent]:
        # Events are not kept as objects, so none has a row of its own.
        return {}

    def versions(self, turn: Turn) -> Mapping[Key, str]:
        # Event objects expire within the hour; what they said about a Pod stays as long as the Pod.
        return {}

    def decode(self, item: Item) -> EventObject:
        return decode_core(item, EventObject)

    def store(self, turn: Turn, changes: Sequence[Change[PodEvent, EventObject]]) -> None:
        for change in changes:
            row = _row(turn, change)
            if row is not None:
                self._wait(row)

    def _wait(self, row: PodEvent) -> None:
        key = (row.pod_uid, row.reason)
        earlier = self._waiting.get(key)
        if earlier is None or earlier.last_at <= row.last_at:
            self._waiting[key] = row
            self._waiting.move_to_end(key)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    def settle(self, turn: Turn) -> None:
        """Store what is waiting and whose Pod is mirrored by now."""
        if not self._waiting:
            return
        uids = {uid for uid, _ in self._waiting}
        known: set[str] = set()
        for some in chunks(uids):
            pods = Pod.objects.filter(cluster_id=turn.cluster_id, uid__in=some)
            known |= set(pods.values_list("uid", flat=True))
        ready = {key: row for key, row in self._waiting.items() if key[0] in known}
        self._store(turn, list(ready.values()))
        # Only then: a transaction that is rolled back must not lose them.
        transaction.on_commit(lambda: self._drop(ready))

    def _drop(self, stored: Mapping[tuple[str, str], PodEvent]) -> None:
        for key, row in stored.items():
            if self._waiting.get(key) is row:
                del self._waiting[key]

    def _store(self, turn: Turn, rows: Sequence[PodEvent]) -> None:
        stored: dict[tuple[str, str], datetime] = {}
        for uids in chunks({row.pod_uid for row in rows}):
            found = PodEvent.objects.filter(cluster_id=turn.cluster_id, pod_uid__in=uids)
            stored |= {
                (uid, reason): at for uid, reason, at in found.values_list("pod_uid", "reason", "last_at")
            }
        fresh = [
            row for row in rows if (at := stored.get((row.pod_uid, row.reason))) is None or at < row.last_at
        ]
        if fresh:
            turn.changed = True
        PodEvent.objects.bulk_create(
            fresh,
            batch_size=100,
            update_conflicts=True,
            unique_fields=["cluster", "pod_uid", "reason"],
            update_fields=["namespace", "pod_name", "message", "count", "last_at"],
        )

    def lose(self, turn: Turn, rows: Sequence[PodEvent]) -> NoReturn:
        raise AssertionError("events have no rows of their own")


def _row(turn: Turn, change: Change[PodEvent, EventObject]) -> PodEvent | None:
    event = change.obj
    about = event.involved_object
    if about.kind != "Pod" or not about.uid or not event.reason:
        return None
    series = event.series or _Series()
    at = next(
        (
            time
            for text in (
                series.last_observed_time,
                event.last_timestamp,
                event.event_time,
                event.metadata.creation_timestamp,
            )
            if (time := parse_time(text)) is not None
        ),
        turn.now,
    )
    return PodEvent(
        cluster_id=turn.cluster_id,
        namespace=(about.namespace or change.item.namespace)[:63],
        pod_name=(about.name or "")[:253],
        pod_uid=about.uid[:64],
        reason=event.reason[:128],
        message=event.message or "",
        count=max(1, min(series.count or event.count or 1, 2**31 - 1)),
        last_at=at,
    )
