"""Checks of a write that need other objects: the namespace that it goes to, and the quotas there."""

from typing import TYPE_CHECKING, Any

from portal.demo import errors, quota
from portal.demo.resources import Resource

if TYPE_CHECKING:
    from portal.demo.store import Store

Object = dict[str, Any]
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
