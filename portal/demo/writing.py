"""What the API server does on a write: identity, defaults, checks, admission, managed fields."""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as with_changes
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from portal.demo import admission, defaults, errors, managed_fields, rules, schema
from portal.demo.managed_fields import Applied
from portal.demo.records import Object, Record, as_object, copy_of
from portal.demo.resources import Resource

if TYPE_CHECKING:
    from portal.demo.store import Store

# Letters that the real server appends to a generateName: no vowels, so that no words come out.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED = 63 - 5
_CREATED_WITH_STATUS = ("nodes",)  # a kubelet registers its node with what it has
_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


@dataclass(frozen=True, slots=True)
class Write:
    """How a write is meant: by whom, to which subresource, for real or not."""

    manager: str
    dry_run: bool = False
    subresource: str = ""
    report: schema.FieldReport | None = None
    applied: Applied | None = None


def timestamp(moment: datetime) -> str:
    """A ``metav1.Time``: seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def create(
    store: "Store", resource: Resource, obj: Mapping[str, Any], namespace: str, write: Write
) -> Object:
    """Store a new object and return it."""
    _check_type(resource, obj)
    new = schema.clean(resource, dict(obj), store.features, write.report)
    new.update(apiVersion=resource.api_version, kind=resource.kind)
    _settle_identity(store, resource, new, namespace)
    if resource.status and resource.plural not in _CREATED_WITH_STATUS:
        new.pop("status", None)
    metadata = new["metadata"]
    admission.check_namespace(store, resource, metadata)
    defaults.set_defaults(resource, new, now=timestamp(store.now()), creating=True)
    admission.admit(store, resource, new)
    causes = rules.check_create(resource, new, features=store.features)
    if not causes:
        causes = admission.check_admin_access(store, resource, new)
    if causes:
        raise errors.invalid(resource.group, resource.kind, metadata.get("name", ""), causes)
    admission.check_quota(store, resource, new)
    if (metadata.get("namespace", ""), metadata["name"]) in store.tables[resource.key].records:
        raise errors.already_exists(resource.group, resource.plural, metadata["name"])
    _note_manager(store, resource, None, new, write)
    return store.put(resource, new, None, dry_run=write.dry_run)


def replace(
    store: "Store", resource: Resource, obj: Mapping[str, Any], namespace: str, write: Write
) -> Object:
    """Replace the part that ``write.subresource`` names; finish a deletion that waited for it."""
    _check_type(resource, obj)
    new = schema.clean(resource, copy_of(dict(obj)), store.features, write.report)
    metadata = new.setdefault("metadata", {})
    if not metadata.get("name"):
        raise errors.bad_request("name must be provided")
    if resource.namespaced:
        namespace = namespace or metadata.get("namespace") or ""
        if metadata.setdefault("namespace", namespace) != namespace:
            raise errors.bad_request(_OTHER_NAMESPACE)
    record = store.record(resource.key, metadata["name"], namespace=namespace)
    old = as_object(resource, record)
    _check_is_current(resource, old, metadata)
    defaults.keep_what_an_update_may_not_touch(resource, new, old, subresource=write.subresource)
    defaults.set_defaults(resource, new, now=timestamp(store.now()), creating=False)
    causes = rules.check_update(resource, new, old, subresource=write.subresource, features=store.features)
    if causes:
        raise errors.invalid(resource.group, resource.kind, record.name, causes)
    # Binding writes past the Pod's own strategy, so it does not count as a new generation.
    if resource.generation and write.subresource != "binding" and new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    _note_manager(store, resource, old, new, write)
    if _deletion_is_over(resource, new):
        return store.remove(resource, record, new, dry_run=write.dry_run)
    if new == old:
        return old
    return store.put(resource, new, record, dry_run=write.dry_run)


def apply(
    store: "Store", resource: Resource, intent: Any, write: Write, *, name: str, namespace: str, force: bool
) -> Object:
    """Server-side apply: create what is missing, else merge what the manager wants."""
    if not isinstance(intent, dict):
        raise errors.bad_request("error decoding patch: an object is expected")
    _check_type(resource, intent, required=True)
    intent = schema.clean(resource, intent, store.features, write.report)
    metadata = intent.setdefault("metadata", {})
    if metadata.setdefault("name", name) != name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if "managedFields" in metadata:
        raise errors.bad_request("metadata.managedFields must be nil")
    applied = Applied(intent=intent, manager=write.manager, force=force)
    write = with_changes(write, applied=applied)
    old = store.find(resource.key, name, namespace=namespace)
    if old is None:
        if write.subresource:
            raise errors.not_found(resource.group, resource.plural, name)
        return create(store, resource, managed_fields.merge_intent({}, applied), namespace, write)
    return replace(store, resource, managed_fields.merge_intent(old, applied), namespace, write)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a delete left: the object is ``gone``, or still there with a ``deletionTimestamp``."""

    object: Object
    gone: bool


def delete(
    store: "Store",
    resource: Resource,
    record: Record,
    *,
    propagation: str,
    grace_period_seconds: int | None,
    uid: str,
    resource_version: str,
    dry_run: bool,
) -> Deletion:
    """Remove an object, or mark it and leave it to its finalizers and its kubelet."""
    old = as_object(resource, record)
    admission.check_deletion(resource, record.name)
    check_preconditions(resource, old, uid, resource_version)
    new = copy_of(old)
    metadata = new["metadata"]
    finalizers = _finalizers_after(metadata.get("finalizers", []), propagation)
    grace = _grace_of(resource, old, grace_period_seconds)
    if not (finalizers or grace or admission.holds_deletion(resource, old)):
        return Deletion(store.remove(resource, record, old, dry_run=dry_run), gone=True)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = timestamp(store.now() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if resource.generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
    if resource.plural == "namespaces":
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    if new == old:
        return Deletion(old, gone=False)
    return Deletion(store.put(resource, new, record, dry_run=dry_run), gone=False)


def check_preconditions(resource: Resource, old: Object, uid: str, resource_version: str) -> None:
    """409 unless the stored object is the one that the client means."""
    metadata = old["metadata"]
    if uid and uid != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        raise errors.conflict(resource.group, resource.plural, metadata["name"], why)
    if resource_version and resource_version != metadata["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {resource_version}, "
            f"ResourceVersion in object meta: {metadata['resourceVersion']}"
        )
        raise errors.conflict(resource.group, resource.plural, metadata["name"], why)


def _check_type(resource: Resource, obj: Mapping[str, Any], *, required: bool = False) -> None:
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if required and not (version and kind):
        raise errors.bad_request("Object 'Kind' is missing in the applied object")
    if version and version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind and kind != resource.kind:
        raise errors.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"the kind in the data does not match the expected kind"
        )


def _settle_identity(store: "Store", resource: Resource, new: Object, namespace: str) -> None:
    """Name, namespace, uid and times of a new object; what a client may not set is dropped."""
    metadata: dict[str, Any] = new.setdefault("metadata", {})
    given = metadata.get("namespace") or ""
    if resource.namespaced:
        metadata["namespace"] = namespace or given
        if not metadata["namespace"]:
            raise errors.bad_request("an empty namespace may not be set during creation")
    else:
        metadata.pop("namespace", None)
    if given and given != metadata.get("namespace"):
        raise errors.bad_request(_OTHER_NAMESPACE)
    if metadata.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    if not metadata.get("name") and metadata.get("generateName"):
        base = metadata["generateName"][:_LONGEST_GENERATED]
        metadata["name"] = base + "".join(secrets.choice(_LETTERS) for _ in range(5))
    for name in (
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
        "generation",
    ):
        metadata.pop(name, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(store.now())
    if resource.generation:
        metadata["generation"] = 1


def _check_is_current(resource: Resource, old: Object, metadata: Object) -> None:
    if metadata.get("uid"):
        check_preconditions(resource, old, metadata["uid"], "")
    version = metadata.get("resourceVersion", "")
    if version and not version.isdecimal():
        why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise errors.bad_request(f'metadata.resourceVersion: Invalid value: "{version}": {why}')
    if (
        metadata.get("resourceVersion", old["metadata"]["resourceVersion"])
        != old["metadata"]["resourceVersion"]
    ):
        raise errors.modified_meanwhile(resource.group, resource.plural, old["metadata"]["name"])


def _note_manager(store: "Store", resource: Resource, old: Object | None, new: Object, write: Write) -> None:
    managed_fields.record_update(
        old,
        new,
        manager=write.manager,
        api_version=resource.api_version,
        subresource=write.subresource,
        time=timestamp(store.now()),
        applied=write.applied,
    )


def _deletion_is_over(resource: Resource, obj: Object) -> bool:
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not waits and not admission.holds_deletion(resource, obj)


def _finalizers_after(present: list[str], propagation: str) -> list[str]:
    """The finalizers after a delete request: ``propagation`` adds or removes the garbage collector's."""
    if not propagation:
        return present
    kept = [name for name in present if name not in ("foregroundDeletion", "orphan")]
    wanted = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
    return [*kept, wanted] if wanted else kept


def _grace_of(resource: Resource, old: Object, asked: int | None) -> int:
    """Seconds that a kubelet has for a Pod; everything else goes at once."""
    if resource.plural != "pods":
        return 0
    spec, status = old.get("spec", {}), old.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if asked is not None:
        # A negative period means one second, since zero would take the Pod from its kubelet.
        return asked if asked >= 0 else 1
    return int(spec.get("terminationGracePeriodSeconds", 30))
