"""What the desk does on a cluster for a request: try, create, hold, remove. Every call may be repeated.

Nothing here touches the database, and nothing here may be called inside a transaction: a cluster call can
take seconds. Objects have deterministic names, so "already exists" under our label is success.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from django.utils.translation import gettext as _

from claims import manifests
from claims.manifests import Manifest
from portal.kube import errors
from portal.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

# Fields that a server without the gate drops silently (facts/kubernetes.md: dry-run).
GATES = {
    "firstAvailable": "DRAPrioritizedList",
    "adminAccess": "DRAAdminAccess",
    "tolerations": "DRADeviceTaints",
    "capacity": "DRAConsumableCapacity",
    "distinctAttribute": "DRAConsumableCapacity",
    "derivedAttributes": "DRADerivedAttributes",
}


class Writer(Protocol):
    """What of `portal.kube.client.Client` is used here."""

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]: ...

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> dict[str, Any]: ...

    def replace(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]: ...

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...


class FieldsDropped(errors.ClusterError):
    """The server accepted the object but would store it without some of its fields. `paths` name them."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        super().__init__(
            _("The cluster would silently drop %(fields)s.")
            % {"fields": ", ".join(_with_gate(path) for path in paths)}
        )


class ClassMissing(errors.ClusterError):
    """The DeviceClass is not on the cluster; the server accepts such claims without a word."""


class NameTaken(errors.ClusterError):
    """An object of the deterministic name is there, and it is not the request's."""


class StillGoing(errors.ClusterError):
    """The request's own object of that name is still being deleted; later the name is free."""


def rehearse(client: Writer, manifest: Manifest, *, device_class: str) -> None:
    """Let the server judge an object without storing it.

    Raises ClassMissing, FieldsDropped, NameTaken, or what the server answered as a ClusterError.
    """
    try:
        client.get(_class_resource(manifest), device_class)
    except errors.NotFound as error:
        raise ClassMissing(
            _("The cluster has no DeviceClass “%(name)s”.") % {"name": device_class}
        ) from error
    namespace = manifest["metadata"]["namespace"]
    try:
        answer = client.create(resource_of(manifest), manifest, namespace=namespace, dry_run=True)
    except errors.AlreadyExists as error:
        existing = client.get(resource_of(manifest), manifest["metadata"]["name"], namespace=namespace)
        _require_ours(existing, manifest, error)
        return
    dropped = list(dropped_fields(manifest, answer))
    if dropped:
        raise FieldsDropped(dropped)


def rehearse_pod(client: Writer, manifest: Manifest) -> None:
    """Let the server judge a Pod without storing it: quotas, policies, limits of the namespace. Raises what
    it answered as a ClusterError."""
    try:
        client.create(PODS, manifest, namespace=manifest["metadata"]["namespace"], dry_run=True)
    except errors.AlreadyExists:
        # Judged far enough: only its name is taken.
        return


def create(client: Writer, manifest: Manifest) -> dict[str, Any]:
    """Create the object, or find that an earlier attempt did. Returns it as stored.

    Raises NameTaken when somebody else's object has the name, StillGoing, or another ClusterError.
    """
    resource = resource_of(manifest)
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    try:
        return client.create(resource, manifest, namespace=namespace)
    except errors.AlreadyExists as error:
        existing = client.get(resource, name, namespace=namespace)
        _require_ours(existing, manifest, error)
        if existing["metadata"].get("deletionTimestamp"):
            raise StillGoing(
                _("The %(kind)s “%(name)s” is still being deleted.")
                % {"kind": manifest["kind"], "name": name}
            ) from error
        return existing


def remove(client: Writer, resource: Resource, *, name: str, namespace: str, request_key: str) -> bool:
    """Ask for the deletion of an object that is the request's. Returns whether it is gone already.

    An object of the same name that is not the request's is left alone and counts as gone.
    """
    try:
        existing = client.get(resource, name, namespace=namespace)
    except errors.NotFound:
        return True
    metadata = existing.get("metadata") or {}
    if (metadata.get("labels") or {}).get(manifests.REQUEST_LABEL) != request_key:
        return True
    if metadata.get("deletionTimestamp"):
        return False
    try:
        client.delete(resource, name, namespace=namespace, uid=str(metadata.get("uid", "")))
    except errors.NotFound:
        return True
    except errors.Conflict:
        # Replaced between our look and the deletion: look again next time.
        return False
    return False


def resource_of(manifest: Manifest) -> Resource:
    """The collection that an object belongs to, in the version that its manifest is written for."""
    kinds = {
        "ResourceClaim": RESOURCE_CLAIMS,
        "ResourceClaimTemplate": RESOURCE_CLAIM_TEMPLATES,
        "Pod": PODS,
    }
    known = kinds[manifest["kind"]]
    return Resource(manifest["apiVersion"], known.plural, namespaced=known.namespaced, kind=manifest["kind"])


def dropped_fields(sent: Any, answered: Any, path: str = "") -> Iterator[str]:
    """Paths of fields that were sent and are missing in the answer. What the server added is no concern."""
    if isinstance(sent, dict):
        if not isinstance(answered, dict):
            yield path
            return
        for key, value in sent.items():
            below = f"{path}.{key}" if path else key
            if key not in answered:
                # An empty value may be left out by the encoding alone.
                if value not in ("", [], {}, None, False, 0):
                    yield below
            else:
                yield from dropped_fields(value, answered[key], below)
    elif isinstance(sent, list):
        if not isinstance(answered, list) or len(answered) < len(sent):
            yield path
            return
        for index, value in enumerate(sent):
            yield from dropped_fields(value, answered[index], f"{path}[{index}]")


def is_retryable(error: errors.ClusterError) -> bool:
    """Whether the same call may succeed later without anybody changing the request."""
    return isinstance(
        error,
        errors.Unreachable | errors.TooManyRequests | errors.ServerError | errors.ProtocolError | errors.Gone
        | errors.Unauthorized | errors.BadCredentials | StillGoing,
    ) or (isinstance(error, errors.Conflict) and not isinstance(error, errors.AlreadyExists))  # fmt: skip


def _require_ours(existing: Mapping[str, Any], manifest: Manifest, error: errors.ClusterError) -> None:
    metadata = existing.get("metadata") or {}
    wanted = manifest["metadata"]["labels"][manifests.REQUEST_LABEL]
    if (metadata.get("labels") or {}).get(manifests.REQUEST_LABEL) != wanted:
        raise NameTaken(
            _("The cluster has a %(kind)s “%(name)s” that belongs to somebody else.")
            % {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
        ) from error


def _class_resource(manifest: Manifest) -> Resource:
    return Resource(manifest["apiVersion"], DEVICE_CLASSES.plural, namespaced=False, kind="DeviceClass")


def _with_gate(path: str) -> str:
    field = path.rsplit(".", 1)[-1].partition("[")[0]
    gate = GATES.get(field)
    return _("%(path)s (feature gate %(gate)s)") % {"path": path, "gate": gate} if gate else path
