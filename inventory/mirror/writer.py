"""The one writer of a cluster: applies batches in order, each round of them in one transaction with its
checkpoint.

The transaction also proves that we still hold the lease: a follower that was overtaken cannot write any
more, even if it does not know yet.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F

from inventory import signals
from inventory.mirror import counted, departures, matching, states, twins
from inventory.mirror.batches import Batch, Item, Key
from inventory.mirror.claims import Claims
from inventory.mirror.classes import DeviceClasses
from inventory.mirror.events import PodEvents
from inventory.mirror.groups import PodGroups, SchedulingWorkloads
from inventory.mirror.jobs import Jobs
from inventory.mirror.kind import Change, MirroredKind, Unusable
from inventory.mirror.namespaces import Namespaces
from inventory.mirror.nodes import Nodes
from inventory.mirror.pods import Pods
from inventory.mirror.queues import ClusterQueues, LocalQueues, QueuedWorkloads, ResourceFlavors
from inventory.mirror.quotas import ResourceQuotas
from inventory.mirror.runtimes import RuntimeClasses
from inventory.mirror.slices import ResourceSlices
from inventory.mirror.taint_rules import DeviceTaintRules
from inventory.mirror.templates import ClaimTemplates
from inventory.mirror.turn import Kind, Moment, Source, Turn
from inventory.models import Cluster, Observation, Stream, SyncProblem
from portal import bulk
from portal.dra.features import DEVICE_TAINT_RULES, DEVICE_TAINTS, LATEST, Features, UnknownFeature
from portal.garbage import uncollected
from portal.sql import chunks

log = logging.getLogger(__name__)

_GATES_OF = {"devicetaintrules": (DEVICE_TAINTS, DEVICE_TAINT_RULES)}


class LeaseLost(Exception):
    """Another follower writes for this cluster now; nothing of the transaction was stored."""


def features_of(server_version: str, *, served: Collection[str] = ()) -> Features:
    """The gates that a cluster of this version presumably has on, and those without which it would not serve
    what it does serve (plural names)."""
    try:
        preset = Features.for_version(server_version)
    except UnknownFeature:
        preset = Features.for_version(LATEST)
    return preset.with_gates(*(gate for plural in served for gate in _GATES_OF.get(plural, ())))


class Writer:
    """Applies batches to the mirror of one cluster. Not thread-safe: there is one."""

    def __init__(self, *, cluster_id: int, holder: str, features: Features) -> None:
        self.cluster_id = cluster_id
        self.holder = holder
        self.features = features
        self.skew = timedelta(0)
        kinds: list[MirroredKind[Any, Any]] = [
            *(Nodes(), ResourceSlices(), DeviceClasses(), Claims(), ClaimTemplates(), Pods(), PodEvents()),
            *(Namespaces(), DeviceTaintRules(), RuntimeClasses(), ResourceQuotas(), Jobs()),
            *(PodGroups(), SchedulingWorkloads()),
            *(ClusterQueues(), LocalQueues(), ResourceFlavors(), QueuedWorkloads()),
        ]
        self._kinds: Mapping[str, MirroredKind[Any, Any]] = {kind.plural: kind for kind in kinds}

    @property
    def resources(self) -> Sequence[str]:
        """Plural names of what can be mirrored."""
        return list(self._kinds)

    def apply(self, batches: Sequence[Batch]) -> int:
        """Store these batches and their checkpoints; the number of observations appended.

        An object that cannot be stored becomes a SyncProblem and the others go on. Raises LeaseLost, and
        database errors that have nothing to do with the objects (the database is gone).
        """
        try:
            return self._transact(lambda turn: self._apply_all(turn, batches, careful=False))
        except (LeaseLost, OperationalError, InterfaceError):
            self._forget()
            raise
        except Exception:
            # Some object breaks the whole: find it by storing one at a time.
            log.warning("a batch failed as a whole and is stored object by object", exc_info=True)
            self._forget()
        return self._transact(lambda turn: self._apply_all(turn, batches, careful=True))

    def _transact(self, work: Callable[[Turn], None]) -> int:
        turn = Turn(cluster_id=self.cluster_id, features=self.features, skew=self.skew)
        try:
            with uncollected(), transaction.atomic():
                self._claim_lease()
                work(turn)
                appended = self._append(turn)
                if turn.changed or appended:
                    Cluster.objects.filter(pk=self.cluster_id).update(
                        mirror_version=F("mirror_version") + 1,
                        fleet_version=F("fleet_version") + int(turn.fleet_changed or bool(turn.dirty_nodes)),
                    )
        except Exception:
            self._forget()
            raise
        if appended:
            signals.observed.send(sender=Observation, cluster_id=self.cluster_id)
        return appended

    def _claim_lease(self) -> None:
        # An update and not a read: it holds the row until the commit, so nobody takes over in between.
        mine = Cluster.objects.filter(pk=self.cluster_id, lease_holder=self.holder)
        if not mine.update(lease_holder=self.holder):
            raise LeaseLost

    def _append(self, turn: Turn) -> int:
        if not turn.observations:
            return 0
        bulk.append(turn.observations, model=Observation, ignore_conflicts=True)
        return len(turn.observations)

    def _forget(self) -> None:
        for kind in self._kinds.values():
            kind.forget()

    # --- one transaction ------------------------------------------------------------------------------

    def _apply_all(self, turn: Turn, batches: Sequence[Batch], *, careful: bool) -> None:
        for batch in batches:
            turn.begin(received_at=batch.received_at, since=batch.since)
            kind = self._kinds[batch.resource.stream]
            self._apply(turn, kind, batch, careful=careful)
            kind.settle(turn)
            if batch.present is not None:
                self._complete_list(turn, kind, batch)
            if batch.gap is not None and kind.notes_gaps:
                _note_gap(turn, batch)
            self._save_checkpoint(turn, kind, batch)
        departures.settle(turn)
        if any(batch.resource.stream == "pods" for batch in batches):
            # Events that came before their Pod.
            self._kinds["events"].settle(turn)
        matching.match_new(turn)
        states.refresh(turn)
        twins.refresh(turn)
        turn.pods_listed = any(b.resource.stream == "pods" and b.present is not None for b in batches)
        counted.refresh(turn)

    def _apply(self, turn: Turn, kind: MirroredKind[Any, Any], batch: Batch, *, careful: bool) -> None:
        for index, unreadable in enumerate(batch.unreadable):
            self._note_problem(turn, kind, ("", f"(object {index + 1})"), "", unreadable.reason)
        for items in [[item] for item in batch.items] if careful else _rounds(batch.items):
            if not careful:
                self._apply_round(turn, kind, items, batch)
                continue
            try:
                with transaction.atomic():
                    before = len(turn.observations)
                    self._apply_round(turn, kind, items, batch)
                    kind.settle(turn)
            except (OperationalError, InterfaceError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever one object does, the others go on
                kind.forget()
                del turn.observations[before:]
                reason = f"{type(error).__name__}: {error}"
                self._note_problem(turn, kind, items[0].key, "", reason)

    def _apply_round(
        self, turn: Turn, kind: MirroredKind[Any, Any], items: Sequence[Item], batch: Batch
    ) -> None:
        """Items with different keys, so that they can be stored in bulk."""
        rows = kind.rows(turn, [item.key for item in items])
        changes: list[Change[Any, Any]] = []
        deleted: list[Key] = []
        lost: list[Any] = []
        solved: list[Key] = []
        for item in items:
            row = rows.get(item.key)
            if row is not None and _is_past(kind, item, row, batch):
                continue
            if row is not None and row.uid != item.uid and kind.has_history:
                lost.append(row)
                row = None
            if item.deleted:
                deleted.append(item.key)
            try:
                obj = kind.decode(item)
            except Unusable as error:
                if not item.deleted:
                    self._note_problem(turn, kind, item.key, error.path, error.reason)
            else:
                solved.append(item.key)
                if not item.deleted or row is not None:
                    changes.append(Change(item, obj, row))
        if lost:
            turn.changed = True
            kind.lose(turn, lost)
        if changes:
            turn.changed = turn.changed or not kind.notes_changes
            kind.store(turn, changes)
        if deleted:
            self._lose(turn, kind, deleted)
        self._solve_problems(kind, [*solved, *deleted])

    def _lose(self, turn: Turn, kind: MirroredKind[Any, Any], keys: Iterable[Key]) -> None:
        rows = list(kind.rows(turn, list(keys)).values())
        if rows:
            turn.changed = True
            kind.lose(turn, rows)

    def _complete_list(self, turn: Turn, kind: MirroredKind[Any, Any], batch: Batch) -> None:
        """Only now is it known what is gone."""
        present = batch.present or {}
        gone = [key for key in kind.versions(turn) if key not in present]
        for keys in chunks(gone):
            self._lose(turn, kind, keys)
        kind.settle(turn)
        problems = SyncProblem.objects.filter(cluster_id=self.cluster_id, resource=kind.plural)
        over = [
            pk
            for pk, ns, name in problems.values_list("pk", "namespace", "name")
            if (ns, name) not in present
        ]
        if over and not batch.unreadable:
            problems.filter(pk__in=over).delete()

    def _save_checkpoint(self, turn: Turn, kind: MirroredKind[Any, Any], batch: Batch) -> None:
        fields: dict[str, Any] = {"heard_at": batch.received_at, "api_version": batch.resource.api_version}
        if batch.checkpoint:
            fields |= {"resource_version": batch.checkpoint, "state": Stream.State.WATCHING, "message": ""}
        if batch.present is not None:
            fields["listed_at"] = batch.received_at
        if batch.items:
            lag = time.monotonic() - batch.came
            fields |= {"event_at": batch.received_at, "lag_us": round(lag * 1_000_000)}
        if turn.changed or batch.present is not None:
            # Events are about Pods; how many there are says nothing.
            fields["object_count"] = kind.count(turn)
        Stream.objects.filter(cluster_id=self.cluster_id, resource=kind.plural).update(**fields)

    def _note_problem(
        self, turn: Turn, kind: MirroredKind[Any, Any], key: Key, path: str, reason: str
    ) -> None:
        SyncProblem.objects.update_or_create(
            cluster_id=self.cluster_id,
            resource=kind.plural,
            namespace=key[0],
            name=key[1],
            defaults={
                "path": _clean(path)[:500],
                "reason": _clean(reason)[:2000],
                "seen_at": turn.now,
            },
        )

    def _solve_problems(self, kind: MirroredKind[Any, Any], keys: Sequence[Key]) -> None:
        problems = SyncProblem.objects.filter(cluster_id=self.cluster_id, resource=kind.plural)
        known = {(ns, name): pk for pk, ns, name in problems.values_list("pk", "namespace", "name")}
        solved = [known[key] for key in keys if key in known]
        if solved:
            problems.filter(pk__in=solved).delete()

    # --- between batches ------------------------------------------------------------------------------

    def settle(self, *, now: datetime) -> int:
        """Note what became a fact by time alone: consumers that stayed away. The number of observations
        appended. Raises LeaseLost."""
        if not departures.any_due(self.cluster_id):
            return 0

        def work(turn: Turn) -> None:
            turn.begin(received_at=now, since=None)
            departures.settle(turn)

        return self._transact(work)

    def save_checkpoints(self, batches: Iterable[Batch]) -> None:
        """Save how far bookmarks have brought each stream, without anything else. Raises LeaseLost."""
        with transaction.atomic():
            self._claim_lease()
            for batch in batches:
                streams = Stream.objects.filter(cluster_id=self.cluster_id, resource=batch.resource.stream)
                streams.update(heard_at=batch.received_at, resource_version=batch.checkpoint)


def _is_past(kind: MirroredKind[Any, Any], item: Item, row: Any, batch: Batch) -> bool:
    """Whether an item says nothing new: it is stored, it tells of the end of an older namesake, or a watch
    told it after what came later (lists are taken as they are: they correct whatever we believe)."""
    if item.deleted:
        return bool(row.uid != item.uid)
    if batch.force or not item.resource_version or (row.uid != item.uid and kind.has_history):
        return False
    if row.resource_version == item.resource_version:
        return True
    from_watch = batch.present is None and bool(batch.checkpoint)
    return from_watch and row.uid == item.uid and _earlier(item.resource_version, row.resource_version)


def _earlier(one: str, other: str) -> bool:
    """Whether a resourceVersion is before another; servers may give them any form, of which we know one."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)


def _rounds(items: Sequence[Item]) -> list[list[Item]]:
    """The items in rounds without a repeated key, so that each change of an object is seen, in order."""
    rounds: list[list[Item]] = []
    count: dict[Key, int] = {}
    for item in items:
        number = count.get(item.key, 0)
        count[item.key] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(item)
    return rounds


def _note_gap(turn: Turn, batch: Batch) -> None:
    assert batch.gap is not None
    since = batch.gap.since
    resource = batch.resource.stream
    turn.observe(
        Kind.GAP,
        # The same time may first be gone through, and then turn out to be lost.
        key=f"gap/{resource}/{since.isoformat()}{'/lost' if batch.gap.lost else ''}",
        moment=Moment(turn.now, Source.OBSERVED),
        name=resource,
        facts={"resource": resource, "from": since.isoformat(), "lost": batch.gap.lost},
    )


def _clean(text: str) -> str:
    # PostgreSQL stores no NUL.
    return text.replace("\0", "�")
