"""The heart of the embedded cluster: objects, their versions, and what the API server does on each write.

Controllers in the same process call the methods of :class:`Store` with plain dicts and get plain dicts back
(with ``apiVersion`` and ``kind``), always copies. Every method runs to its end without awaiting, so a
read followed by a write in one step of the event loop is atomic; across ``await`` use ``resourceVersion`` and
expect :class:`ApiError` 409. Resources are named by their plural: ``"pods"``, ``"resourceclaims"``; those of
installed definitions with their group: ``"clusterqueues.kueue.x-k8s.io"``.

As on a real API server, the store does defaulting, validation, quota, managed fields, finalizers and graceful
deletion. It does *not* collect garbage: dependents of a deleted owner are the garbage collector's work
(``foregroundDeletion`` and ``orphan`` finalizers are set here and removed there).
"""

import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from portal.demo import defaults, errors, patches, writing
from portal.demo.catalog import DEFAULT_VERSION
from portal.demo.history import Change, ChangeType
from portal.demo.journal import Journal, NoJournal
from portal.demo.records import Key, Object, Record, as_object, copy_of, new_record, read_record
from portal.demo.resources import BY_KIND, STORED, Resource
from portal.demo.schema import FieldReport
from portal.demo.selectors import Selector, parse
from portal.demo.table import Page, Table, seen_through
from portal.demo.writing import Deletion, Write, timestamp
from portal.dra.features import Features

__all__ = ["DEFAULT_MANAGER", "Deletion", "Object", "Store", "WatchEvent", "timestamp"]

HISTORY_LIMIT = 30_000  # five minutes, as etcd keeps, of a hundred changes a second
DEFAULT_MANAGER = "claimdesk-embedded-cluster"
# ``Store.list`` hides the builtin inside the class, hence the names.
Objects = list[Object]
Changes = dict[str, list[Change]]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED or DELETED; ``object`` the state after it (or the last one)."""

    type: ChangeType
    object: Object
    revision: int


class Store:
    """All objects of one embedded cluster."""

    def __init__(
        self,
        *,
        journal: Journal | None = None,
        history_limit: int = HISTORY_LIMIT,
        features: Features | None = None,
        installed: Collection[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read what ``journal`` kept.

        ``history_limit`` bounds the changes kept per resource for watches; ``features`` are the gates that
        are on (default: those of the version served); ``installed`` are the optional parts of
        :mod:`portal.demo.catalog` that write along.
        """
        self.journal: Journal = journal or NoJournal()
        self.now = clock
        self.features = features or Features.for_version(DEFAULT_VERSION)
        self.installed = frozenset(installed)
        self.revision = int(self.journal.setting("revision", "1"))
        self.tables: dict[str, Table] = {
            plural: Table(resource, history_limit=history_limit, oldest_revision=self.revision)
            for plural, resource in STORED.items()
        }
        kept: dict[str, list[Record]] = {plural: [] for plural in self.tables}
        for plural, _namespace, _name, raw in self.journal.objects():
            kept[plural].append(read_record(STORED[plural], raw))
        for plural, records in kept.items():
            self.tables[plural].fill(records)

    # Reading

    def get(self, plural: str, name: str, *, namespace: str = "") -> Object:
        """The object, or ApiError 404."""
        return as_object(STORED[plural], self.record(plural, name, namespace=namespace))

    def find(self, plural: str, name: str, *, namespace: str = "") -> Object | None:
        """The object, or None."""
        record = self.tables[plural].records.get((namespace, name))
        return None if record is None else as_object(STORED[plural], record)

    def exists(self, plural: str, name: str, *, namespace: str = "") -> bool:
        """Whether there is such an object."""
        return (namespace, name) in self.tables[plural].records

    def record(self, plural: str, name: str, *, namespace: str = "") -> Record:
        """The stored form of an object, or ApiError 404."""
        record = self.tables[plural].records.get((namespace, name))
        if record is None:
            raise errors.not_found(STORED[plural].group, STORED[plural].plural, name)
        return record

    def list(self, plural: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Objects:
        """The current objects by name, narrowed by selectors in their usual text form."""
        table = self.tables[plural]
        selector = parse(table.resource, namespace=namespace, labels=labels, fields=fields)
        return [as_object(table.resource, record) for record in table.select(selector)]

    def page(self, plural: str, selector: Selector, *, limit: int, start: Key | None, revision: int) -> Page:
        """Part of a list as it was at ``revision`` (0: now); ApiError 410 when that is no longer known."""
        return self.tables[plural].page(
            selector, limit=limit, start=start, revision=revision or self.revision, current=self.revision
        )

    async def watch(
        self,
        plural: str,
        *,
        since: int | None = None,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Changes after revision ``since``; without it, first every current object as ADDED.

        Never ends by itself. Raises ApiError 410 when ``since`` is too old or the reader fell too far behind.
        """
        table = self.tables[plural]
        selector = parse(table.resource, namespace=namespace, labels=labels, fields=fields)
        with table.history.waker() as woken:
            if since is None:
                position, present = table.history.end, table.select(selector)
                for record in present:
                    yield WatchEvent("ADDED", as_object(table.resource, record), record.revision)
            else:
                position = table.history.position_after(since)
            while True:
                woken.clear()
                for change in table.history.read(position, 500):
                    position += 1
                    if (seen := seen_through(change, selector)) is not None:
                        yield WatchEvent(seen[0], as_object(table.resource, seen[1]), change.revision)
                if position >= table.history.end:
                    await woken.wait()

    # Writing

    def create(
        self,
        plural: str,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = DEFAULT_MANAGER,
        dry_run: bool = False,
        report: FieldReport | None = None,
    ) -> Object:
        """Store a new object and return it as stored. ``report`` collects unknown fields."""
        write = Write(manager, dry_run, report=report)
        return writing.create(self, STORED[plural], obj, namespace, write)

    def update(
        self,
        plural: str,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        manager: str = DEFAULT_MANAGER,
        dry_run: bool = False,
        report: FieldReport | None = None,
    ) -> Object:
        """Replace all but the status, or only what ``subresource`` (status, binding, finalize) covers.

        With a ``resourceVersion`` that is not the current one: 409.
        """
        write = Write(manager, dry_run, subresource, report)
        return writing.replace(self, STORED[plural], obj, namespace, write)

    def update_status(
        self,
        plural: str,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = DEFAULT_MANAGER,
        dry_run: bool = False,
    ) -> Object:
        """Replace the status and nothing else."""
        return self.update(
            plural, obj, namespace=namespace, subresource="status", manager=manager, dry_run=dry_run
        )

    def patch(
        self,
        plural: str,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        kind: patches.PatchKind = "merge",
        subresource: str = "",
        manager: str = DEFAULT_MANAGER,
        force: bool = False,
        dry_run: bool = False,
        report: FieldReport | None = None,
    ) -> Object:
        """Change an object by a patch: ``merge`` (RFC 7386), ``json`` (RFC 6902), ``strategic`` or ``apply``.

        ``apply`` is server-side apply: it creates what is missing, and takes over fields of other managers
        only with ``force`` (else 409).
        """
        resource = STORED[plural]
        write = Write(manager, dry_run, subresource, report)
        if kind == "apply":
            return writing.apply(self, resource, patch, write, name=name, namespace=namespace, force=force)
        changed = patches.changed(self.get(plural, name, namespace=namespace), patch, kind=kind)
        metadata = changed.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("name") != name:
            raise errors.bad_request("the name of the object cannot be changed by a patch")
        return writing.replace(self, resource, changed, namespace, write)

    def bind(
        self, name: str, node: str, *, namespace: str, manager: str = DEFAULT_MANAGER, dry_run: bool = False
    ) -> None:
        """Assign a Pod to a node, as the binding subresource does; 409 when it already has one."""
        pod = self.get("pods", name, namespace=namespace)
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise errors.conflict("", "pods/binding", name, why)
        if holder := pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{holder}"'
            raise errors.conflict("", "pods/binding", name, why)
        pod["spec"]["nodeName"] = node
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": timestamp(self.now()),
        }
        status = pod.setdefault("status", {})
        kept = [item for item in status.get("conditions", ()) if item.get("type") != "PodScheduled"]
        status["conditions"] = [*kept, condition]
        write = Write(manager, dry_run, "binding")
        writing.replace(self, STORED["pods"], pod, namespace, write)

    def delete(
        self,
        plural: str,
        name: str,
        *,
        namespace: str = "",
        propagation: str = "",
        grace_period_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Deletion:
        """Delete, or begin to: finalizers and a bound Pod's grace period keep the object, marked.

        ``propagation`` is Background (default), Foreground or Orphan. ``uid`` and ``resource_version`` are
        preconditions (409). A kubelet completes a Pod's deletion with ``grace_period_seconds=0``.
        """
        return writing.delete(
            self,
            STORED[plural],
            self.record(plural, name, namespace=namespace),
            propagation=propagation,
            grace_period_seconds=grace_period_seconds,
            uid=uid,
            resource_version=resource_version,
            dry_run=dry_run,
        )

    def load(self, objects: Iterable[Object]) -> int:
        """Store many new objects in one step, as if restored from a backup; returns how many.

        Objects are defaulted but not validated, get no managed fields unless they bring some, and must not
        exist yet. A given ``uid`` or ``creationTimestamp`` stays. Namespaces are taken on trust.
        """
        moment = timestamp(self.now())
        changes: Changes = {}
        revision = self.revision
        for obj in objects:
            resource = BY_KIND[obj["apiVersion"], obj["kind"]]
            new = copy_of(obj)
            metadata = new["metadata"]
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", moment)
            if resource.generation:
                metadata.setdefault("generation", 1)
            defaults.set_defaults(resource, new, now=moment, creating=False)
            revision += 1
            record = new_record(resource, new, revision)
            if record.key in self.tables[resource.key].records:
                raise errors.already_exists(resource.group, resource.plural, record.name)
            changes.setdefault(resource.key, []).append(Change("ADDED", revision, record, None))
        self._commit(changes, revision)
        return sum(len(items) for items in changes.values())

    def close(self) -> None:
        """Let go of the data directory."""
        self.journal.close()

    # What writes end in

    def put(self, resource: Resource, new: Object, previous: Record | None, *, dry_run: bool) -> Object:
        """Store ``new``, which passed all checks, in place of ``previous``."""
        if dry_run:
            if previous is not None:
                new["metadata"]["resourceVersion"] = str(previous.revision)
            return new
        revision = self.revision + 1
        record = new_record(resource, new, revision)
        kind: ChangeType = "ADDED" if previous is None else "MODIFIED"
        self._commit({resource.key: [Change(kind, revision, record, previous)]}, revision)
        return as_object(resource, record)

    def remove(self, resource: Resource, record: Record, last: Object, *, dry_run: bool) -> Object:
        """Take an object out of the store; watchers see its ``last`` state."""
        if dry_run:
            return last
        revision = self.revision + 1
        gone = new_record(resource, last, revision)
        self._commit({resource.key: [Change("DELETED", revision, gone, record)]}, revision)
        return as_object(resource, gone)

    def _commit(self, changes: Changes, revision: int) -> None:
        """Disk first, then memory and watchers: what a client has seen is kept."""
        puts, deletes = [], []
        for plural, items in changes.items():
            for change in items:
                record = change.record
                if change.type == "DELETED":
                    deletes.append((plural, record.namespace, record.name))
                else:
                    puts.append((plural, record.namespace, record.name, record.raw))
        self.journal.write(revision, puts, deletes)
        self.revision = revision
        for plural, items in changes.items():
            self.tables[plural].apply(items)
