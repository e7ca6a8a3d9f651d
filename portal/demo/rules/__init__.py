"""The rules that the API server checks before it stores an object. All functions are pure."""

from collections.abc import Callable
from typing import Any

from portal.demo.errors import Cause
from portal.demo.resources import Resource
from portal.demo.rules import core, devices, groups, metadata, pods, queues, slices
from portal.demo.rules.report import Report
from portal.dra.features import Features

Object = dict[str, Any]

_SPECS: dict[str, Callable[[Report, Object], None]] = {
    "clusterqueues.kueue.x-k8s.io": queues.check_cluster_queue,
    "devicetaintrules": slices.check_taint_rule,
    "events": core.check_event,
    "jobs": pods.check_job,
    "leases": core.check_lease,
    "localqueues.kueue.x-k8s.io": queues.check_local_queue,
    "podgroups": groups.check_pod_group,
    "resourceflavors.kueue.x-k8s.io": queues.check_flavor,
    "resourcequotas": core.check_quota,
    "resourceslices": slices.check_slice,
    "runtimeclasses": groups.check_runtime_class,
    "workloads": groups.check_workload,
    "workloads.kueue.x-k8s.io": queues.check_workload,
}
_SPECS_WITH_FEATURES: dict[str, Callable[[Report, Object, Features], None]] = {
    "deviceclasses": devices.check_class,
    "resourceclaims": devices.check_claim,
    "resourceclaimtemplates": devices.check_template,
}
_CHANGES: dict[str, Callable[[Report, Object, Object], None]] = {
    "jobs": pods.check_job_update,
    "localqueues.kueue.x-k8s.io": queues.check_local_queue_update,
    "podgroups": groups.check_fixed_spec,
    "pods": pods.check_pod_update,
    "resourceclaims": devices.check_claim_update,
    "resourceclaimtemplates": devices.check_claim_update,
    "resourceslices": slices.check_slice_update,
    "runtimeclasses": groups.check_runtime_class_update,
    "workloads": groups.check_fixed_spec,
    "workloads.kueue.x-k8s.io": queues.check_workload_update,
}


def check_create(resource: Resource, obj: Object, *, features: Features) -> list[Cause]:
    """The rules that a new object breaks."""
    report = Report()
    metadata.check(report, resource, obj["metadata"])
    if resource.plural == "pods":
        pods.check_pod(report, obj)
    _check_spec(report, resource, obj, features)
    return report.causes


def check_update(
    resource: Resource, obj: Object, old: Object, *, subresource: str, features: Features
) -> list[Cause]:
    """The rules that a change breaks."""
    report = Report()
    metadata.check(report, resource, obj["metadata"])
    metadata.check_update(report, obj["metadata"], old["metadata"])
    if subresource == "status" and resource.plural == "resourceclaims":
        devices.check_claim_status(report, obj, old)
    if not subresource:
        if (change := _CHANGES.get(resource.key)) is not None:
            change(report, obj, old)
        # What is stored already is not judged again: rules may have become stricter meanwhile.
        if obj.get("spec") != old.get("spec") and not report.causes:
            _check_spec(report, resource, obj, features)
    return report.causes


def _check_spec(report: Report, resource: Resource, obj: Object, features: Features) -> None:
    if (check := _SPECS.get(resource.key)) is not None:
        check(report, obj)
    if (check_with_features := _SPECS_WITH_FEATURES.get(resource.key)) is not None:
        check_with_features(report, obj, features)
