"""Rules for the small objects around: Events, Leases and ResourceQuotas."""

from typing import Any

from portal.demo.rules import names
from portal.demo.rules.report import Report
from portal.dra.quantity import Quantity

Object = dict[str, Any]


def check_event(report: Report, obj: Object) -> None:
    """An Event belongs to the namespace of what it is about; cluster-wide ones to ``default``."""
    namespace = obj["metadata"].get("namespace", "")
    about = obj.get("involvedObject", {}).get("namespace", "")
    if (about or "default") != namespace and (about or namespace not in ("default", "kube-system")):
        report.invalid("involvedObject.namespace", about, "does not match event.namespace")


def check_lease(report: Report, obj: Object) -> None:
    """A Lease's durations count forwards."""
    spec = obj.get("spec", {})
    if spec.get("leaseDurationSeconds", 1) <= 0:
        report.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        report.invalid(
            "spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0"
        )


def check_quota(report: Report, obj: Object) -> None:
    """The limits of a ResourceQuota."""
    for name, text in obj.get("spec", {}).get("hard", {}).items():
        path, amount = f"spec.hard[{name}]", Quantity.parse(text)
        if problem := names.qualified_problem(name):
            report.invalid(path, name, problem)
        if amount.sign() < 0:
            report.invalid(path, text, "must be greater than or equal to 0")
        elif not amount.is_integer() and ("/" in name or name.startswith("count/") or name == "pods"):
            report.invalid(path, text, "must be an integer")
