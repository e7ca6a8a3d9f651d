"""Checks of a write that need other objects: the namespace it goes to, and quotas."""

from typing import TYPE_CHECKING, Any

from portal.demo import errors
from portal.demo.resources import Resource

if TYPE_CHECKING:
    from portal.demo.store import Store


def check_namespace(store: "Store", resource: Resource, metadata: dict[str, Any]) -> None:
    """A namespaced object needs a namespace that exists (404) and is not going away (403)."""
    if not resource.namespaced:
        return
    name = metadata["namespace"]
    namespace = store.find("namespaces", name)
    if namespace is None:
        raise errors.not_found("", "namespaces", name)
    if namespace["metadata"].get("deletionTimestamp"):
        why = (
            f"unable to create new content in namespace {name} because it is being terminated"
        )
        error = errors.forbidden(resource.group, resource.plural, metadata.get("name", ""), why)
        error.details["causes"] = [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        raise error


def holds_deletion(resource: Resource, obj: dict[str, Any]) -> bool:
    """Whether the object has a finalizer outside its metadata (a namespace has, in its spec)."""
    return resource.plural == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))


def check_quota(store: "Store", resource: Resource, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    """403 when a namespace's ResourceQuota does not admit the object."""
