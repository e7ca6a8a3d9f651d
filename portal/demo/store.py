"""The heart of the embedded cluster: objects, their versions, and what the API server does on each write.

Controllers in the same process call the methods of :class:`Store` with plain dicts (``apiVersion`` and
``kind`` included) and get plain dicts back, always copies. Every method runs to its end without awaiting, so a
read followed by a write in one step of the event loop is atomic; across ``await`` use ``resourceVersion`` and
expect :class:`ApiError` 409. Resources are named by their plural: ``"pods"``, ``"resourceclaims"``.

As on a real API server, the store does defaulting, validation, quota, managed fields, finalizers and graceful
deletion. It does *not* collect garbage: dependents of a deleted owner are the garbage collector's work
(``foregroundDeletion`` and ``orphan`` finalizers are set here and removed there).
"""

import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from portal.demo import admission, errors, managed_fields, patches, rules
from portal.demo.history import Change, ChangeType, Key, Record
from portal.demo.journal import Journal, NoJournal
from portal.demo.resources import BY_KIND, STORED, Resource
from portal.demo.selectors import Selector, field_values, parse
from portal.demo.table import Page, Table, seen_through

DEFAULT_MANAGER = "claimdesk-embedded-cluster"
Object = dict[str, Any]
# ``Store.list`` hides the builtin inside the class, hence the names.
Objects = list[Object]
Changes = dict[str, list[Change]]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED or DELETED; ``object`` the state after it (or the last one)."""

    type: ChangeType
    object: Object
    revision: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a delete left: the object is ``gone``, or still there with a ``deletionTimestamp``."""

    object: Object
    gone: bool


def timestamp(moment: datetime) -> str:
    """A ``metav1.Time``: seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """All objects of one embedded cluster."""

    def __init__(
        self,
        *,
        journal: Journal | None = None,
        history_limit: int = 10_000,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read what ``journal`` kept. ``history_limit`` bounds the changes kept per resource for watches."""
        self.journal: Journal = journal or NoJournal()
        self.now = clock
        self.revision = int(self.journal.setting("revision", "1"))
        self.tables: dict[str, Table] = {
            plural: Table(resource, history_limit=history_limit, oldest_revision=self.revision)
            for plural, resource in STORED.items()
        }
        kept: dict[str, list[Record]] = {plural: [] for plural in self.tables}
        for plural, _namespace, _name, raw in self.journal.objects():
            kept[plural].append(_as_record(STORED[plural], msgspec.json.decode(raw), raw))
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

    def record(self, plural: str, name: str, *, namespace: str = "") -> Record:
        """The stored form of an object, or ApiError 404."""
        record = self.tables[plural].records.get((namespace, name))
        if record is None:
            raise errors.not_found(STORED[plural].group, plural, name)
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
        self, plural: str, *, since: int | None = None, namespace: str = "", labels: str = "", fields: str = ""
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
        self, plural: str, obj: Object, *, namespace: str = "", manager: str = DEFAULT_MANAGER, dry_run: bool = False
    ) -> Object:
        """Store a new object and return it as stored."""
        return self._create(plural, obj, namespace=namespace, manager=manager, dry_run=dry_run)

    def update(
        self, plural: str, obj: Object, *, namespace: str = "", manager: str = DEFAULT_MANAGER, dry_run: bool = False
    ) -> Object:
        """Replace all but the status. With a ``resourceVersion`` that is not the current one: 409."""
        return self._replace(plural, obj, namespace=namespace, subresource="", manager=manager, dry_run=dry_run)

    def update_status(
        self, plural: str, obj: Object, *, namespace: str = "", manager: str = DEFAULT_MANAGER, dry_run: bool = False
    ) -> Object:
        """Replace the status and nothing else."""
        return self._replace(
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
    ) -> Object:
        """Change an object by a patch: ``merge`` (RFC 7386), ``json`` (RFC 6902), ``strategic`` or ``apply``.

        ``apply`` is server-side apply: it creates what is missing, and takes over fields of other managers only
        with ``force`` (else 409).
        """
        resource = STORED[plural]
        if kind == "apply":
            return self._apply(resource, name, patch, namespace, subresource, manager, force=force, dry_run=dry_run)
        current = self.get(plural, name, namespace=namespace)
        changed = patches.changed(current, patch, kind=kind)
        if not isinstance(changed.get("metadata"), dict) or changed["metadata"].get("name") != name:
            raise errors.bad_request("the name of the object cannot be changed by a patch")
        return self._replace(
            plural, changed, namespace=namespace, subresource=subresource, manager=manager, dry_run=dry_run
        )

    def bind(self, name: str, node: str, *, namespace: str, manager: str = DEFAULT_MANAGER, dry_run: bool = False) -> None:
        """Assign a Pod to a node, as the binding subresource does; 409 when it already has one."""
        pod = self.get("pods", name, namespace=namespace)
        if pod["metadata"].get("deletionTimestamp"):
            raise errors.conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if holder := pod["spec"].get("nodeName"):
            raise errors.conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{holder}"')
        pod["spec"]["nodeName"] = node
        condition = {
            "type": "PodScheduled", "status": "True", "lastProbeTime": None,
            "lastTransitionTime": timestamp(self.now()),
        }  # fmt: skip
        status = pod.setdefault("status", {})
        kept = [item for item in status.get("conditions", ()) if item.get("type") != "PodScheduled"]
        status["conditions"] = [*kept, condition]
        self._replace(
            "pods", pod, namespace=namespace, subresource="binding", manager=manager, dry_run=dry_run
        )

    def finalize(self, namespace: Object, *, manager: str = DEFAULT_MANAGER, dry_run: bool = False) -> Object:
        """Change the finalizers in a Namespace's spec, as the finalize subresource does."""
        return self._replace(
            "namespaces", namespace, namespace="", subresource="finalize", manager=manager, dry_run=dry_run
        )

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
        """Delete, or begin to: finalizers and a bound Pod's grace period keep the object with a deletionTimestamp.

        ``propagation`` is Background (default), Foreground or Orphan. ``uid`` and ``resource_version`` are
        preconditions (409). A kubelet completes a Pod's deletion with ``grace_period_seconds=0``.
        """
        resource = STORED[plural]
        record = self.record(plural, name, namespace=namespace)
        old = as_object(resource, record)
        _check_preconditions(resource, old, uid, resource_version)
        new = _copy(old)
        metadata = new["metadata"]
        finalizers = _finalizers_for(metadata.get("finalizers", []), propagation)
        grace = _grace_of(resource, old, grace_period_seconds)
        waits = bool(finalizers) or grace > 0 or admission.holds_deletion(resource, old)
        if not waits:
            return Deletion(self._remove(resource, record, dry_run=dry_run), gone=True)
        if finalizers:
            metadata["finalizers"] = finalizers
        already = metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" not in metadata or (already is not None and grace < already):
            metadata["deletionTimestamp"] = timestamp(self.now() + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
            if resource.generation:
                metadata["generation"] = metadata.get("generation", 0) + 1
        if plural == "namespaces":
            new.setdefault("status", {})["phase"] = "Terminating"
        if new == old:
            return Deletion(old, gone=False)
        return Deletion(self._put(resource, new, record, dry_run=dry_run), gone=False)

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
            new = _copy(obj)
            metadata = new["metadata"]
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", moment)
            if resource.generation:
                metadata.setdefault("generation", 1)
            rules.set_defaults(resource, new, creating=False)
            revision += 1
            record = _new_record(resource, new, revision)
            if record.key in self.tables[resource.plural].records:
                raise errors.already_exists(resource.group, resource.plural, record.name)
            changes.setdefault(resource.plural, []).append(Change("ADDED", revision, record, None))
        self._commit(changes, revision)
        return sum(len(items) for items in changes.values())

    def close(self) -> None:
        """Let go of the data directory."""
        self.journal.close()

    # How writes come about

    def _settle_identity(self, resource: Resource, new: Object, namespace: str) -> None:
        """Name, namespace, uid and times of a new object; what a client may not set is dropped."""
        metadata = new.get("metadata")
        if not isinstance(metadata, dict):
            metadata = {}
        given = metadata.get("namespace") or ""
        if resource.namespaced:
            if namespace and given and given != namespace:
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = namespace or given
            if not metadata["namespace"]:
                raise errors.bad_request("an empty namespace may not be set during creation")
        elif given:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        else:
            metadata.pop("namespace", None)
        if metadata.get("resourceVersion"):
            raise errors.ApiError(
                400, "BadRequest", "resourceVersion should not be set on objects to be created"
            )
        if not metadata.get("name") and metadata.get("generateName"):
            # Five letters without vowels, as the real server appends.
            letters = "bcdfghjklmnpqrstvwxz2456789"
            base = str(metadata["generateName"])[:58]
            metadata["name"] = base + "".join(secrets.choice(letters) for _ in range(5))
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation"):
            metadata.pop(name, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = timestamp(self.now())
        if resource.generation:
            metadata["generation"] = 1
        new["metadata"] = metadata
        if resource.status:
            new.pop("status", None)

    def _create(
        self,
        plural: str,
        obj: Object,
        *,
        namespace: str,
        manager: str,
        dry_run: bool,
        applied: managed_fields.Applied | None = None,
    ) -> Object:
        resource = STORED[plural]
        new = _copy(obj)
        self._settle_identity(resource, new, namespace)
        rules.set_defaults(resource, new, creating=True)
        metadata = new["metadata"]
        admission.check_namespace(self, resource, metadata)
        if causes := rules.check_create(resource, new):
            raise errors.invalid(resource.group, resource.kind, metadata.get("name", ""), causes)
        admission.check_quota(self, resource, new, None)
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self.tables[plural].records:
            raise errors.already_exists(resource.group, plural, metadata["name"])
        managed_fields.record_update(
            None, new, manager=manager, api_version=resource.api_version, subresource="",
            time=timestamp(self.now()), applied=applied,
        )  # fmt: skip
        return self._put(resource, new, None, dry_run=dry_run)

    def _replace(
        self,
        plural: str,
        obj: Object,
        *,
        namespace: str,
        subresource: str,
        manager: str,
        dry_run: bool,
        applied: managed_fields.Applied | None = None,
    ) -> Object:
        resource = STORED[plural]
        new = _copy(obj)
        metadata = new.get("metadata")
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise errors.bad_request("name must be provided")
        if resource.namespaced:
            namespace = namespace or metadata.get("namespace") or ""
            if metadata.setdefault("namespace", namespace) != namespace:
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
        record = self.record(plural, metadata["name"], namespace=namespace)
        old = as_object(resource, record)
        _check_update_identity(resource, old, metadata)
        rules.keep_what_an_update_may_not_touch(resource, new, old, subresource=subresource)
        rules.set_defaults(resource, new, creating=False)
        causes = rules.check_update(resource, new, old, subresource=subresource)
        if causes:
            raise errors.invalid(resource.group, resource.kind, record.name, causes)
        admission.check_quota(self, resource, new, old)
        if resource.generation and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        managed_fields.record_update(
            old, new, manager=manager, api_version=resource.api_version, subresource=subresource,
            time=timestamp(self.now()), applied=applied,
        )  # fmt: skip
        if new["metadata"].get("deletionTimestamp") and not (
            new["metadata"].get("finalizers")
            or new["metadata"].get("deletionGracePeriodSeconds")
            or admission.holds_deletion(resource, new)
        ):
            return self._remove(resource, record, dry_run=dry_run)
        if new == old:
            return old
        return self._put(resource, new, record, dry_run=dry_run)

    def _apply(
        self,
        resource: Resource,
        name: str,
        intent: Any,
        namespace: str,
        subresource: str,
        manager: str,
        *,
        force: bool,
        dry_run: bool,
    ) -> Object:
        old = self.find(resource.plural, name, namespace=namespace)
        applied = managed_fields.Applied(intent=intent, manager=manager, force=force)
        if old is None:
            if subresource:
                raise errors.not_found(resource.group, resource.plural, name)
            created = managed_fields.merge_intent({}, applied, resource)
            created.update(apiVersion=resource.api_version, kind=resource.kind)
            created.setdefault("metadata", {})["name"] = name
            return self._create(
                resource.plural, created, namespace=namespace, manager=manager, dry_run=dry_run, applied=applied
            )
        merged = managed_fields.merge_intent(old, applied, resource)
        return self._replace(
            resource.plural, merged, namespace=namespace, subresource=subresource, manager=manager,
            dry_run=dry_run, applied=applied,
        )  # fmt: skip

    def _put(self, resource: Resource, new: Object, previous: Record | None, *, dry_run: bool) -> Object:
        revision = self.revision + 1
        if dry_run:
            if previous is not None:
                new["metadata"]["resourceVersion"] = str(previous.revision)
            return new
        record = _new_record(resource, new, revision)
        kind: ChangeType = "ADDED" if previous is None else "MODIFIED"
        self._commit({resource.plural: [Change(kind, revision, record, previous)]}, revision)
        return as_object(resource, record)

    def _remove(self, resource: Resource, record: Record, *, dry_run: bool) -> Object:
        last = as_object(resource, record)
        if dry_run:
            return last
        revision = self.revision + 1
        gone = _new_record(resource, last, revision)
        self._commit({resource.plural: [Change("DELETED", revision, gone, record)]}, revision)
        return as_object(resource, gone)

    def _commit(self, changes: Changes, revision: int) -> None:
        """Disk first, then memory and watchers: what a client has seen is kept."""
        everything = [(plural, change) for plural, items in changes.items() for change in items]
        self.journal.write(
            revision,
            [
                (plural, change.record.namespace, change.record.name, change.record.raw)
                for plural, change in everything
                if change.type != "DELETED"
            ],
            [
                (plural, change.record.namespace, change.record.name)
                for plural, change in everything
                if change.type == "DELETED"
            ],
        )
        self.revision = revision
        for plural, items in changes.items():
            self.tables[plural].apply(items)


def as_object(resource: Resource, record: Record) -> Object:
    """A record as the plain dict that controllers see: always a fresh copy."""
    obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    obj.update(msgspec.json.decode(record.raw))
    return obj


def _copy(obj: Object) -> Object:
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def _new_record(resource: Resource, obj: Object, revision: int) -> Record:
    obj["metadata"]["resourceVersion"] = str(revision)
    body = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    return _as_record(resource, body, msgspec.json.encode(body))


def _as_record(resource: Resource, body: Object, raw: bytes) -> Record:
    metadata = body["metadata"]
    return Record(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        revision=int(metadata["resourceVersion"]),
        raw=raw,
        labels=metadata.get("labels") or {},
        fields=field_values(resource, body),
    )


def _check_preconditions(resource: Resource, old: Object, uid: str, resource_version: str) -> None:
    metadata = old["metadata"]
    if uid and uid != metadata["uid"]:
        raise errors.conflict(
            resource.group, resource.plural, metadata["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}",
        )  # fmt: skip
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise errors.conflict(
            resource.group, resource.plural, metadata["name"],
            f"Precondition failed: ResourceVersion in precondition: {resource_version}, "
            f"ResourceVersion in object meta: {metadata['resourceVersion']}",
        )  # fmt: skip


def _check_update_identity(resource: Resource, old: Object, metadata: Object) -> None:
    current = old["metadata"]
    if metadata.get("uid") and metadata["uid"] != current["uid"]:
        _check_preconditions(resource, old, metadata["uid"], "")
    if metadata.get("resourceVersion") and metadata["resourceVersion"] != current["resourceVersion"]:
        raise errors.modified_meanwhile(resource.group, resource.plural, current["name"])


def _finalizers_for(present: list[str], propagation: str) -> list[str]:
    """The finalizers after a delete request: ``propagation`` adds or removes the garbage collector's."""
    if not propagation:
        return present
    wanted = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
    kept = [name for name in present if name not in ("foregroundDeletion", "orphan")]
    return [*kept, wanted] if wanted else kept


def _grace_of(resource: Resource, old: Object, asked: int | None) -> int:
    """Seconds that a kubelet has for a Pod; everything else goes at once."""
    if resource.plural != "pods":
        return 0
    spec, status = old.get("spec", {}), old.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked is not None:
        return max(asked, 0)
    return int(spec.get("terminationGracePeriodSeconds", 30))
