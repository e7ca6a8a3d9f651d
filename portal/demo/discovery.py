"""What the server says about itself: version, groups and resources."""

from collections.abc import Iterable
from typing import Any

from portal.demo.catalog import Catalog
from portal.demo.resources import Resource


def version(catalog: Catalog) -> dict[str, str]:
    """``/version``. ``gitVersion`` says that this is not a release of Kubernetes."""
    return {
        "major": "1",
        "minor": catalog.minor,
        "gitVersion": f"{catalog.release}+embedded",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "python",
    }


def core_versions() -> dict[str, Any]:
    """``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _groups(catalog: Catalog) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for resource in catalog.resources:
        if resource.group and resource.version not in groups.setdefault(resource.group, []):
            groups[resource.group].append(resource.version)
    groups["authorization.k8s.io"] = ["v1"]
    return groups


def group(catalog: Catalog, name: str) -> dict[str, Any] | None:
    """``/apis/GROUP``, or None when there is no such group."""
    return next((item for item in groups(catalog)["groups"] if item["name"] == name), None)


def groups(catalog: Catalog) -> dict[str, Any]:
    """``/apis``."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": name,
                "versions": [{"groupVersion": f"{name}/{item}", "version": item} for item in versions],
                "preferredVersion": {"groupVersion": f"{name}/{versions[0]}", "version": versions[0]},
            }
            for name, versions in _groups(catalog).items()
        ],
    }


def resources(catalog: Catalog, group_name: str, version_name: str) -> dict[str, Any] | None:
    """``/api/v1`` or ``/apis/GROUP/VERSION``, or None when it is not served."""
    served = [item for item in catalog.resources if (item.group, item.version) == (group_name, version_name)]
    entries = list(_entries(served))
    if (group_name, version_name) == ("authorization.k8s.io", "v1"):
        entries = [
            {
                "name": "selfsubjectaccessreviews",
                "singularName": "selfsubjectaccessreview",
                "namespaced": False,
                "kind": "SelfSubjectAccessReview",
                "verbs": ["create"],
            }
        ]
    if not entries:
        return None
    group_version = f"{group_name}/{version_name}" if group_name else version_name
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }


def _entries(served: Iterable[Resource]) -> Iterable[dict[str, Any]]:
    for resource in served:
        entry: dict[str, Any] = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        yield entry
        common = {"singularName": "", "namespaced": resource.namespaced}
        if resource.status:
            yield {
                "name": f"{resource.plural}/status", **common, "kind": resource.kind,
                "verbs": ["get", "patch", "update"],
            }  # fmt: skip
        if resource.plural == "pods":
            yield {"name": "pods/binding", **common, "kind": "Binding", "verbs": ["create"]}
        if resource.plural == "namespaces":
            yield {"name": "namespaces/finalize", **common, "kind": "Namespace", "verbs": ["update"]}
