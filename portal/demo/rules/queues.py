"""Rules for Kueue's objects, after the schema of its definitions and its webhooks; quotas must add up."""

from typing import Any

from portal.demo.rules import names
from portal.demo.rules.report import Report
from portal.dra.quantity import Quantity

Object = dict[str, Any]
_STOP_POLICIES = ("Hold", "HoldAndDrain", "None")
_STRATEGIES = ("BestEffortFIFO", "StrictFIFO")
_RECLAIM = ("Any", "LowerPriority", "Never")
_PREEMPT = ("LowerOrNewerEqualPriority", "LowerPriority", "Never")
_MOST_GROUPS, _MOST_POD_SETS, _MOST_LABELS = 16, 8, 8


def check_cluster_queue(report: Report, queue: Object) -> None:
    """Every flavor of a group gives a quota for every resource that the group covers, and for no other."""
    spec = queue.get("spec", {})
    report.choice("spec.queueingStrategy", spec.get("queueingStrategy"), _STRATEGIES)
    report.choice("spec.stopPolicy", spec.get("stopPolicy"), _STOP_POLICIES)
    preemption = spec.get("preemption", {})
    report.choice("spec.preemption.reclaimWithinCohort", preemption.get("reclaimWithinCohort"), _RECLAIM)
    report.choice("spec.preemption.withinClusterQueue", preemption.get("withinClusterQueue"), _PREEMPT)
    cohort = spec.get("cohortName", "")
    if cohort:
        names.check_subdomain(report, "spec.cohortName", cohort)
    groups = spec.get("resourceGroups", [])
    if len(groups) > _MOST_GROUPS:
        report.too_many("spec.resourceGroups", len(groups), _MOST_GROUPS)
        return
    seen: dict[str, set[str]] = {"resource": set(), "flavor": set()}
    for index, group in enumerate(groups):
        _check_group(report, f"spec.resourceGroups[{index}]", group, cohort, seen)


def _check_group(report: Report, path: str, group: Object, cohort: str, seen: dict[str, set[str]]) -> None:
    covered, flavors = group.get("coveredResources", []), group.get("flavors", [])
    if not covered:
        report.required(f"{path}.coveredResources")
    if not flavors:
        report.required(f"{path}.flavors")
    for index, name in enumerate(covered):
        where = f"{path}.coveredResources[{index}]"
        if problem := names.qualified_problem(name):
            report.invalid(where, name, problem)
        _note(report, where, name, seen["resource"])
    for index, flavor in enumerate(flavors):
        where = f"{path}.flavors[{index}]"
        names.check_subdomain(report, f"{where}.name", flavor.get("name", ""))
        _note(report, f"{where}.name", flavor.get("name", ""), seen["flavor"])
        quotas = flavor.get("resources", [])
        if len(quotas) != len(covered):
            report.invalid(
                path, "object", "flavors must have the same number of resources as the coveredResources"
            )
            continue
        for number, quota in enumerate(quotas):
            _check_quota(report, f"{where}.resources[{number}]", quota, covered[number], cohort)


def _check_quota(report: Report, path: str, quota: Object, covered: str, cohort: str) -> None:
    if quota.get("name") != covered:
        report.invalid(f"{path}.name", quota.get("name", ""), "must match the name in coveredResources")
    if "nominalQuota" not in quota:
        report.required(f"{path}.nominalQuota")
    for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        if name in quota and Quantity.parse(str(quota[name])).sign() < 0:
            report.invalid(f"{path}.{name}", str(quota[name]), "must be greater than or equal to 0")
    if not cohort:
        for name in ("borrowingLimit", "lendingLimit"):
            if name in quota:
                report.invalid("spec", "object", f"{name} must be nil when cohort is empty")


def _note(report: Report, path: str, name: str, seen: set[str]) -> None:
    if name in seen:
        report.duplicate(path, name)
    seen.add(name)


def check_local_queue(report: Report, queue: Object) -> None:
    """A LocalQueue leads to one ClusterQueue."""
    spec = queue.get("spec", {})
    report.choice("spec.stopPolicy", spec.get("stopPolicy"), _STOP_POLICIES)
    if name := spec.get("clusterQueue"):
        names.check_subdomain(report, "spec.clusterQueue", name)


def check_local_queue_update(report: Report, new: Object, old: Object) -> None:
    """Which ClusterQueue a LocalQueue leads to is settled once it exists."""
    report.immutable(
        "spec.clusterQueue", new.get("spec", {}).get("clusterQueue"), old.get("spec", {}).get("clusterQueue")
    )


def check_flavor(report: Report, flavor: Object) -> None:
    """The labels of the nodes that a flavor stands for."""
    labels = flavor.get("spec", {}).get("nodeLabels", {})
    if len(labels) > _MOST_LABELS:
        report.too_many("spec.nodeLabels", len(labels), _MOST_LABELS)
    for key, value in labels.items():
        if problem := names.qualified_problem(key):
            report.invalid("spec.nodeLabels", key, problem)
        if problem := names.label_value_problem(value):
            report.invalid("spec.nodeLabels", value, problem)


def check_workload(report: Report, workload: Object) -> None:
    """A Workload is made of one to eight sets of like Pods."""
    spec = workload.get("spec", {})
    pod_sets = spec.get("podSets", [])
    if not pod_sets:
        report.invalid("spec.podSets", 0, "spec.podSets in body should have at least 1 items")
    elif len(pod_sets) > _MOST_POD_SETS:
        report.too_many("spec.podSets", len(pod_sets), _MOST_POD_SETS)
    seen: set[str] = set()
    for index, pod_set in enumerate(pod_sets):
        path = f"spec.podSets[{index}]"
        names.check_label(report, f"{path}.name", pod_set.get("name", ""))
        _note(report, f"{path}.name", pod_set.get("name", ""), seen)
        if pod_set.get("count", 0) < 0:
            report.invalid(f"{path}.count", pod_set["count"], "should be greater than or equal to 0")
        if not pod_set.get("template", {}).get("spec", {}).get("containers"):
            report.required(f"{path}.template.spec.containers")
    if "priorityClassRef" in spec and "priority" not in spec:
        report.invalid("spec", "object", "priority should not be nil when priorityClassRef is set")


def check_workload_update(report: Report, new: Object, old: Object) -> None:
    """What quota is reserved for may not change under the reservation."""
    if not (old.get("status") or {}).get("admission"):
        return
    for name in ("podSets", "queueName"):
        report.immutable(f"spec.{name}", new.get("spec", {}).get(name), old.get("spec", {}).get(name))
