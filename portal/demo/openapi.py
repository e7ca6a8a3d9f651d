"""The little of OpenAPI v3 that ``kubectl`` needs before it lets the server check a manifest."""

from typing import Any

from portal.demo.catalog import Catalog
from portal.demo.resources import Resource

_PREFIX = "/openapi/v3/"


def document(path: str, catalog: Catalog) -> dict[str, Any] | None:
    """``/openapi/v3`` or one of the documents it lists; None for another path."""
    groups = {_root(resource): resource for resource in catalog.resources}
    if path == _PREFIX.rstrip("/"):
        return {"paths": {root: {"serverRelativeURL": f"{_PREFIX}{root}?hash=1"} for root in groups}}
    found = groups.get(path.removeprefix(_PREFIX)) if path.startswith(_PREFIX) else None
    if found is None:
        return None
    served = [item for item in catalog.resources if _root(item) == _root(found)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "embedded cluster", "version": "v1"},
        "paths": {_path(resource): {"patch": _patch(resource)} for resource in served},
    }


def _root(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _path(resource: Resource) -> str:
    place = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{_root(resource)}/{place}{resource.plural}/{{name}}"


def _patch(resource: Resource) -> dict[str, Any]:
    """The operation, with the parameter by which clients see that the server validates fields."""
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "kind": resource.kind,
            "version": resource.version,
        },
    }
