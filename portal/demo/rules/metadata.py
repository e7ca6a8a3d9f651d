"""Rules for the metadata of every object."""

from collections.abc import Callable
from typing import Any

from portal.demo.resources import Resource
from portal.demo.rules import names
from portal.demo.rules.report import Report

_ANNOTATIONS_LIMIT = 256 * 1024
# Names that are DNS labels; all others are subdomains.
_LABEL_NAMES = frozenset({"namespaces"})


def check(report: Report, resource: Resource, metadata: dict[str, Any]) -> None:
    """The rules for new and changed objects alike."""
    name = metadata.get("name", "")
    longest = 63 if resource.plural in _LABEL_NAMES else 253
    problem: Callable[[str], str] = (
        names.label_problem if resource.plural in _LABEL_NAMES else names.subdomain_problem
    )
    if not name:
        report.required("metadata.name", "name or generateName is required")
    elif len(name) > longest or problem(name):
        report.invalid("metadata.name", name, problem(name))
    prefix = metadata.get("generateName", "")
    if prefix and (why := problem(prefix.rstrip("-.") or "-")):
        report.invalid("metadata.generateName", prefix, why)
    check_labels(report, "metadata", metadata)
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        path = f"metadata.finalizers[{index}]"
        if why := names.qualified_problem(finalizer):
            report.invalid(path, finalizer, why)
        elif "/" not in finalizer and finalizer not in ("foregroundDeletion", "orphan", "kubernetes"):
            report.invalid(
                path, finalizer, "name is neither a standard finalizer name nor is it fully qualified"
            )
    _check_owners(report, metadata.get("ownerReferences", ()))


def check_labels(report: Report, path: str, metadata: dict[str, Any]) -> None:
    """Labels and annotations, also those inside templates."""
    for key, value in metadata.get("labels", {}).items():
        if why := names.qualified_problem(key):
            report.invalid(f"{path}.labels", key, why)
        if why := names.label_value_problem(value):
            report.invalid(f"{path}.labels", value, why)
    annotations = metadata.get("annotations", {})
    for key in annotations:
        if why := names.qualified_problem(key.lower()):
            report.invalid(f"{path}.annotations", key, why)
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        report.too_long(f"{path}.annotations", _ANNOTATIONS_LIMIT)


def check_update(report: Report, metadata: dict[str, Any], old: dict[str, Any]) -> None:
    """What may not change."""
    if "deletionTimestamp" in old:
        added = [name for name in metadata.get("finalizers", ()) if name not in old.get("finalizers", ())]
        if added:
            listed = " ".join(f'"{name}"' for name in added)
            report.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
            )


def _check_owners(report: Report, owners: Any) -> None:
    controllers = 0
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                report.invalid(f"metadata.ownerReferences.{field}", "", f"{field} must not be empty")
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        report.invalid(
            "metadata.ownerReferences", len(owners), "Only one reference can have Controller set to true"
        )
