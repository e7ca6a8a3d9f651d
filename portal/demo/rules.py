"""What the API server does to an object before it is stored: defaults, then checks."""

from typing import Any

from portal.demo.errors import Cause
from portal.demo.resources import Resource

_SET_BY_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName")


def set_defaults(resource: Resource, obj: dict[str, Any], *, creating: bool) -> None:
    """Fill in what the API server fills in."""
    if creating and resource.plural == "namespaces":
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    if creating and resource.plural == "pods":
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    if creating and resource.plural in ("resourceclaims", "jobs", "resourcequotas"):
        obj["status"] = {}


def keep_what_an_update_may_not_touch(
    resource: Resource, new: dict[str, Any], old: dict[str, Any], *, subresource: str
) -> None:
    """Put back the parts of ``old`` that this kind of write does not change."""
    for name in _SET_BY_SERVER:
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
    if subresource == "status":
        kept = {name: value for name, value in old.items() if name not in ("status", "metadata")}
        status = new.get("status")
        metadata = new["metadata"]
        new.clear()
        new.update(kept, metadata=metadata)
        if status is not None:
            new["status"] = status
    elif not subresource and resource.status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]


def check_create(resource: Resource, obj: dict[str, Any]) -> list[Cause]:
    """The rules that a new object breaks."""
    return []


def check_update(resource: Resource, obj: dict[str, Any], old: dict[str, Any], *, subresource: str) -> list[Cause]:
    """The rules that a change breaks."""
    return []
