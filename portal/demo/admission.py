"""What the API server does on a write for the sake of other objects: namespaces, quotas, queues, runtimes."""

from typing import TYPE_CHECKING, Any

from portal.demo import errors, quota
from portal.demo.catalog import KUEUE
from portal.demo.resources import Resource

if TYPE_CHECKING:
    from portal.demo.store import Store

Object = dict[str, Any]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
_UNDELETABLE = ("default", "kube-system", "kube-public")


def check_namespace(store: "Store", resource: Resource, metadata: Object) -> None:
    """A namespaced object needs a namespace that exists (404) and is not going away (403)."""
    if not resource.namespaced:
        return
    name = metadata["namespace"]
    namespace = store.find("namespaces", name)
    if namespace is None:
        raise errors.not_found("", "namespaces", name)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        error = errors.forbidden(resource.group, resource.plural, metadata.get("name", ""), why)
        error.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise error


def check_admin_access(store: "Store", resource: Resource, obj: Object) -> list[errors.Cause]:
    """Access to devices that others hold is for namespaces that are labelled for it."""
    spec = obj.get("spec", {})
    if resource.plural == "resourceclaimtemplates":
        spec = spec.get("spec", {})
    elif resource.plural != "resourceclaims":
        return []
    requests = spec.get("devices", {}).get("requests", ())
    if not any((request.get("exactly") or {}).get("adminAccess") for request in requests):
        return []
    namespace = store.get("namespaces", obj["metadata"]["namespace"])
    if namespace["metadata"].get("labels", {}).get(_ADMIN_ACCESS_LABEL) == "true":
        return []
    why = (
        f"Forbidden: admin access to devices requires the `{_ADMIN_ACCESS_LABEL}: true` label on the "
        "containing namespace"
    )
    return [errors.Cause("", "FieldValueForbidden", why)]


def admit(store: "Store", resource: Resource, new: Object) -> None:
    """What admission plugins and webhooks change in a new object, or refuse about it (403)."""
    if resource.key == "pods":
        _apply_runtime_class(store, resource, new)
    elif resource.key == "jobs" and KUEUE in store.installed:
        # Kueue's webhook: a Job in a queue waits until it is admitted.
        if (new["metadata"].get("labels") or {}).get(QUEUE_LABEL):
            new["spec"]["suspend"] = True
    elif resource.key == "podgroups":
        _check_workload_of_group(store, resource, new)


def _apply_runtime_class(store: "Store", resource: Resource, pod: Object) -> None:
    """A Pod's RuntimeClass has to exist, and brings its overhead and where its Pods may go."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        return
    runtime = store.find("runtimeclasses", name)
    if runtime is None:
        why = f'pod rejected: RuntimeClass "{name}" not found'
        raise errors.forbidden("", resource.plural, pod["metadata"].get("name", ""), why)
    if overhead := (runtime.get("overhead") or {}).get("podFixed"):
        spec["overhead"] = overhead
    scheduling = runtime.get("scheduling") or {}
    if selector := scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **selector}
    known = spec.setdefault("tolerations", [])
    known += [item for item in scheduling.get("tolerations", ()) if item not in known]


def _check_workload_of_group(store: "Store", resource: Resource, group: Object) -> None:
    """The Workload whose template a PodGroup names exists before it."""
    name = (group.get("spec", {}).get("workloadRef") or {}).get("workloadName")
    metadata = group["metadata"]
    if name and store.find("workloads", name, namespace=metadata["namespace"]) is None:
        why = f'workload "{name}" not found'
        raise errors.forbidden(resource.group, resource.plural, metadata.get("name", ""), why)


def check_quota(store: "Store", resource: Resource, new: Object) -> None:
    """403 when a quota of the namespace does not admit a new object."""
    quota.check(store, resource, new)


def check_deletion(resource: Resource, name: str) -> None:
    """403 for what no cluster can do without."""
    if resource.plural == "namespaces" and name in _UNDELETABLE:
        raise errors.forbidden(resource.group, resource.plural, name, "this namespace may not be deleted")


def holds_deletion(resource: Resource, obj: Object) -> bool:
    """Whether the object has a finalizer outside its metadata (a namespace has, in its spec)."""
    return resource.plural == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))
