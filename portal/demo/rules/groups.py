"""Rules for what groups Pods (``scheduling.k8s.io``) and for the runtimes that they may ask for."""

from typing import Any

from portal.demo.rules import names
from portal.demo.rules.report import Report

Object = dict[str, Any]
_ONE_POLICY = "must specify one of: `basic`, `gang`"
_ONE_MODE = "must specify one of: `all`, `single`"
_MOST_TEMPLATES = 8


def check_pod_group(report: Report, group: Object) -> None:
    """A PodGroup has one policy; claims are named directly or by template."""
    _check_template(report, "spec", group.get("spec", {}))
    if reference := group.get("spec", {}).get("workloadRef"):
        names.check_subdomain(report, "spec.workloadRef.workloadName", reference.get("workloadName", ""))
        names.check_label(report, "spec.workloadRef.templateName", reference.get("templateName", ""))


def check_workload(report: Report, workload: Object) -> None:
    """A Workload is made of one to eight templates of PodGroups."""
    spec = workload.get("spec", {})
    templates = spec.get("podGroupTemplates", [])
    if not templates:
        report.required("spec.podGroupTemplates", "must have at least one item")
    elif len(templates) > _MOST_TEMPLATES:
        report.too_many("spec.podGroupTemplates", len(templates), _MOST_TEMPLATES)
    seen: set[str] = set()
    for index, template in enumerate(templates):
        path, name = f"spec.podGroupTemplates[{index}]", template.get("name", "")
        names.check_label(report, f"{path}.name", name)
        if name in seen:
            report.duplicate(path, name)
        seen.add(name)
        _check_template(report, path, template)
    if (controller := spec.get("controllerRef")) is not None:
        for name in ("kind", "name"):
            if not controller.get(name):
                report.required(f"spec.controllerRef.{name}")


def check_fixed_spec(report: Report, new: Object, old: Object) -> None:
    """Neither a Workload nor a PodGroup changes its mind."""
    report.immutable("spec", new.get("spec"), old.get("spec"))


def _check_template(report: Report, path: str, template: Object) -> None:
    policy, where = template.get("schedulingPolicy", {}), f"{path}.schedulingPolicy"
    chosen = [name for name in ("basic", "gang") if name in policy]
    if not chosen:
        report.required(where, _ONE_POLICY)
    elif len(chosen) > 1:
        report.invalid(where, ", ".join(chosen), _ONE_POLICY)
    elif "gang" in policy and policy["gang"].get("minCount", 0) <= 0:
        report.invalid(
            f"{where}.gang.minCount", policy["gang"].get("minCount", 0), "must be greater than zero"
        )
    mode = template.get("disruptionMode")
    if mode is not None and len(mode) != 1:
        report.invalid(f"{path}.disruptionMode", ", ".join(sorted(mode)), _ONE_MODE)
    for index, claim in enumerate(template.get("resourceClaims", ())):
        entry = f"{path}.resourceClaims[{index}]"
        names.check_label(report, f"{entry}.name", claim.get("name", ""))
        sources = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name)]
        if len(sources) != 1:
            report.invalid(
                entry,
                ", ".join(sources),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )


def check_runtime_class(report: Report, runtime: Object) -> None:
    """The handler is what the runtime on the node knows it by."""
    names.check_label(report, "handler", runtime.get("handler", ""))


def check_runtime_class_update(report: Report, new: Object, old: Object) -> None:
    """A RuntimeClass keeps its handler."""
    report.immutable("handler", new.get("handler"), old.get("handler"))
