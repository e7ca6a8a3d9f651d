"""What the desk does on a cluster for a request: try, create, hold, remove. Every call may be repeated.

Nothing here touches the database, and nothing here may be called inside a transaction: a cluster call can
take seconds. Objects have deterministic names, so "already exists" under our label is success.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from django.utils.translation import gettext as _

from claims.requests import manifests
from claims.requests.manifests import Manifest
from portal.kube import errors
from portal.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

# Fields that a server without the gate drops silently (a dry run shows it).
GATES = {
    "firstAvailable": "DRAPrioritizedList",
    "adminAccess": "DRAAdminAccess",
    "tolerations": "DRADeviceTaints",
    "capacity": "DRAConsumableCapacity",
    "distinctAttribute": "DRAConsumableCapacity",
    "derivedAttributes": "DRADerivedAttributes",
}

# What of a container decides what runs in it.
_RUNS = (
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)


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
    """A DeviceClass is not on the cluster; the server accepts such claims without a word."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(_("The cluster has no DeviceClass “%(name)s”.") % {"name": name})


class NameTaken(errors.ClusterError):
    """An object of the deterministic name is there, and it is not the request's."""


class StillGoing(errors.ClusterError):
    """The request's own object of that name is still being deleted; later the name is free."""


def rehearse(client: Writer, manifest: Manifest) -> None:
    """Let the server judge an object without storing it.

    Raises ClassMissing, FieldsDropped, NameTaken, or what the server answered as a ClusterError.
    """
    for name in dict.fromkeys(_values(manifest, "deviceClassName")):
        try:
            client.get(_class_resource(manifest), name)
        except errors.NotFound as error:
            raise ClassMissing(name) from error
    namespace = manifest["metadata"]["namespace"]
    try:
        answer = client.create(resource_of(manifest), manifest, namespace=namespace, dry_run=True)
    except errors.AlreadyExists as error:
        existing = client.get(resource_of(manifest), manifest["metadata"]["name"], namespace=namespace)
        _require_ours(existing, manifest, error)
        return
    except errors.Invalid as error:
        # Without the dropped field nothing valid is left: what the server says of the rest would mislead.
        if emptied := [path for path in _gated(manifest) if _left_empty(path, error)]:
            raise FieldsDropped(emptied) from error
        raise
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


def create(client: Writer, manifest: Manifest, *, uid: str = "") -> dict[str, Any]:
    """Create the object, or find that an earlier attempt did (by its label, or by the `uid` that it got).
    Returns it as stored.

    Raises NameTaken when somebody else's object has the name, StillGoing, or another ClusterError.
    """
    return create_or_find(client, manifest, uid=uid)[0]


def create_or_find(client: Writer, manifest: Manifest, *, uid: str = "") -> tuple[dict[str, Any], bool]:
    """As `create`, and whether it was created just now: what was found may be anybody's under our label."""
    resource = resource_of(manifest)
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    try:
        return client.create(resource, manifest, namespace=namespace), True
    except errors.AlreadyExists as error:
        existing = client.get(resource, name, namespace=namespace)
        if not uid or existing["metadata"].get("uid") != uid:
            _require_ours(existing, manifest, error)
        if existing["metadata"].get("deletionTimestamp"):
            raise StillGoing(
                _("The %(kind)s “%(name)s” is still being deleted.")
                % {"kind": manifest["kind"], "name": name}
            ) from error
        return existing, False
    except (errors.Forbidden, errors.Invalid):
        # Admission comes before the look at names: what an earlier attempt made may be what is over a quota.
        try:
            existing = client.get(resource, name, namespace=namespace)
        except errors.ClusterError:
            existing = {}
        metadata = existing.get("metadata") or {}
        if not _is_ours(metadata, manifest) or metadata.get("deletionTimestamp"):
            raise
        return existing, False


def runs_the_same(found: Mapping[str, Any], sent: Manifest) -> bool:
    """Whether a Pod runs what was sent and nothing else, whoever created it."""
    spec, own = found.get("spec") or {}, sent["spec"]
    if spec.get("initContainers") or spec.get("ephemeralContainers"):
        return False
    containers = [[one.get(key) for key in _RUNS] for one in spec.get("containers") or ()]
    return containers == [[one.get(key) for key in _RUNS] for one in own["containers"]]


def remove(
    client: Writer, resource: Resource, *, name: str, namespace: str, request_key: str, uid: str = ""
) -> bool:
    """Ask for the deletion of an object that is the request's. Returns whether it is gone already.

    It is the request's by its label, or by the uid that it had when it was made, whatever became of the
    label. Another object of the same name is left alone and counts as gone.
    """
    try:
        existing = client.get(resource, name, namespace=namespace)
    except errors.NotFound:
        return True
    metadata = existing.get("metadata") or {}
    labelled = (metadata.get("labels") or {}).get(manifests.REQUEST_LABEL) == request_key
    if not labelled and (not uid or metadata.get("uid") != uid):
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


def _values(manifest: Any, name: str) -> Iterator[str]:
    """Every value of a field of that name, at any depth."""
    if isinstance(manifest, dict):
        for key, value in manifest.items():
            if key == name:
                yield str(value)
            else:
                yield from _values(value, name)
    elif isinstance(manifest, list):
        for value in manifest:
            yield from _values(value, name)


def _gated(manifest: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields that hang on a gate."""
    if isinstance(manifest, dict):
        for key, value in manifest.items():
            below = f"{path}.{key}" if path else key
            if key in GATES:
                yield below
            else:
                yield from _gated(value, below)
    elif isinstance(manifest, list):
        for index, value in enumerate(manifest):
            yield from _gated(value, f"{path}[{index}]")


def _left_empty(path: str, error: errors.Invalid) -> bool:
    """Whether the server complains about what holds the field, and not about the field."""
    holder = path.rpartition(".")[0]
    named = [cause.field for cause in error.causes]
    return holder in named and not any(field.startswith(path) for field in named)


def is_retryable(error: errors.ClusterError) -> bool:
    """Whether the same call may succeed later without anybody changing the request."""
    if isinstance(error, errors.Forbidden) and "status unknown for quota" in error.message:
        # A quota that has just been made: nothing is admitted until it has been counted for the first time.
        return True
    return isinstance(
        error,
        errors.Unreachable | errors.TooManyRequests | errors.ServerError | errors.ProtocolError | errors.Gone
        | errors.Unauthorized | errors.BadCredentials | StillGoing,
    ) or (isinstance(error, errors.Conflict) and not isinstance(error, errors.AlreadyExists))  # fmt: skip


def _require_ours(existing: Mapping[str, Any], manifest: Manifest, error: errors.ClusterError) -> None:
    if not _is_ours(existing.get("metadata") or {}, manifest):
        raise NameTaken(
            _("The cluster has a %(kind)s “%(name)s” that belongs to somebody else.")
            % {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
        ) from error


def _is_ours(metadata: Mapping[str, Any], manifest: Manifest) -> bool:
    wanted = manifest["metadata"]["labels"][manifests.REQUEST_LABEL]
    return bool((metadata.get("labels") or {}).get(manifests.REQUEST_LABEL) == wanted)


def _class_resource(manifest: Manifest) -> Resource:
    return Resource(manifest["apiVersion"], DEVICE_CLASSES.plural, namespaced=False, kind="DeviceClass")


def _with_gate(path: str) -> str:
    field = path.rsplit(".", 1)[-1].partition("[")[0]
    gate = GATES.get(field)
    return _("%(path)s (feature gate %(gate)s)") % {"path": path, "gate": gate} if gate else path
