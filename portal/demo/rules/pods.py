"""Rules for Pods and Jobs, as far as accelerators and a Pod's life are concerned."""

from typing import Any

from portal.demo.records import copy_of
from portal.demo.rules import metadata as metadata_rules
from portal.demo.rules import names
from portal.demo.rules.report import Report
from portal.dra.quantity import Quantity

Object = dict[str, Any]
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_LABELLING = ("labels", "annotations")
_DIRECTIVES = ("affinity", "nodeSelector", "schedulingGates", "tolerations")
_STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def check_pod(report: Report, obj: Object) -> None:
    """A new Pod."""
    check_pod_spec(report, obj.get("spec", {}), "spec")


def check_pod_spec(report: Report, spec: Object, path: str) -> None:
    """The spec of a Pod, wherever it stands."""
    containers = spec.get("containers", [])
    if not containers:
        report.required(f"{path}.containers")
    claims = _check_claims(report, f"{path}.resourceClaims", spec.get("resourceClaims", []))
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, ())):
            _check_container(report, f"{path}.{group}[{index}]", container, claims, seen)
    report.choice(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    if spec.get("nodeName") and (problem := names.subdomain_problem(spec["nodeName"])):
        report.invalid(f"{path}.nodeName", spec["nodeName"], problem)
    if spec.get("activeDeadlineSeconds", 1) <= 0:
        report.invalid(
            f"{path}.activeDeadlineSeconds",
            spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        )


def check_pod_update(report: Report, obj: Object, old: Object) -> None:
    """A Pod's spec stays as it is, but for images, deadlines, more tolerations and lifted gates."""
    new, before = obj["spec"], old["spec"]
    if len(new.get("containers", ())) != len(before.get("containers", ())):
        report.forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    allowed = copy_of(new)
    for group in ("containers", "initContainers"):
        for container, was in zip(allowed.get(group, ()), before.get(group, ()), strict=False):
            container["image"], container["imagePullPolicy"] = was.get("image"), was.get("imagePullPolicy")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"):
        allowed.pop(field, None)
        if field in before:
            allowed[field] = before[field]
    if not all(item in new.get("tolerations", ()) for item in before.get("tolerations", ())):
        report.forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    added = [gate for gate in new.get("schedulingGates", ()) if gate not in before.get("schedulingGates", ())]
    if added:
        report.forbidden(
            "spec.schedulingGates", f"only deletion is allowed, but found new scheduling gate {added[0]}"
        )
    if allowed != before:
        report.forbidden("spec", _UPDATE_TEXT)


def check_job(report: Report, obj: Object) -> None:
    """A new Job."""
    spec = obj.get("spec", {})
    for field in (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        if spec.get(field, 0) < 0:
            report.invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    template = spec.get("template", {})
    metadata_rules.check_labels(report, "spec.template.metadata", template.get("metadata", {}))
    pod = template.get("spec", {})
    check_pod_spec(report, {"restartPolicy": "Always", **pod}, "spec.template.spec")
    if pod.get("restartPolicy", "Always") == "Always":
        report.required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def check_job_update(report: Report, obj: Object, old: Object) -> None:
    """A Job's template and selector are settled once it exists.

    While it is suspended and has not started, whoever queues it may still say where its Pods go.
    """
    new, before = obj["spec"], old["spec"]
    for field in ("completions", "selector", "completionMode"):
        report.immutable(f"spec.{field}", new.get(field), before.get(field))
    template, template_before = new.get("template"), before.get("template")
    if before.get("suspend") and not old.get("status", {}).get("startTime"):
        template, template_before = _without_directives(template), _without_directives(template_before)
    report.immutable("spec.template", template, template_before)


def _without_directives(template: Object | None) -> Object:
    """A Job's template without what decides where its Pods go, and their labels and annotations."""
    template = template or {}
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    return {
        **template,
        "metadata": {name: value for name, value in metadata.items() if name not in _LABELLING},
        "spec": {name: value for name, value in spec.items() if name not in _DIRECTIVES},
    }


def _check_claims(report: Report, path: str, claims: list[Object]) -> set[str]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            report.required(f"{where}.name")
        elif name in seen:
            report.duplicate(f"{where}.name", name)
        else:
            names.check_label(report, f"{where}.name", name)
        seen.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if len(sources) > 1:
            report.invalid(
                where, ", ".join(sources),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            )  # fmt: skip
        elif not sources:
            report.invalid(
                where, name, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
        for field in sources:
            if problem := names.subdomain_problem(claim[field]):
                report.invalid(f"{where}.{field}", claim[field], problem)
    return seen


def _check_container(report: Report, path: str, container: Object, claims: set[str], seen: set[str]) -> None:
    name = container.get("name", "")
    if not name:
        report.required(f"{path}.name")
    elif name in seen:
        report.duplicate(f"{path}.name", name)
    else:
        names.check_label(report, f"{path}.name", name)
    seen.add(name)
    if not container.get("image"):
        report.required(f"{path}.image")
    resources = container.get("resources", {})
    used: set[tuple[str, str]] = set()
    for index, claim in enumerate(resources.get("claims", ())):
        where, wanted = f"{path}.resources.claims[{index}]", claim.get("name", "")
        if not wanted:
            report.required(where)
        elif wanted not in claims:
            known = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            report.not_found(where, wanted, f"must be one of the names in pod.spec.resourceClaims{known}")
        if (wanted, claim.get("request", "")) in used:
            report.duplicate(where, wanted)
        used.add((wanted, claim.get("request", "")))
    _check_amounts(report, f"{path}.resources", resources)


def _check_amounts(report: Report, path: str, resources: Object) -> None:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where = f"{path}.{kind}[{name}]"
            amount = Quantity.parse(text)
            if problem := names.qualified_problem(name):
                report.invalid(f"{path}.{kind}", name, problem)
            elif "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith("hugepages-"):
                report.invalid(where, name, "must be a standard resource for containers")
            if amount.sign() < 0:
                report.invalid(where, text, "must be greater than or equal to 0")
            elif "/" in name and not amount.is_integer():
                report.invalid(where, text, "must be an integer")
    for name, text in requests.items():
        limit = limits.get(name)
        extended = "/" in name
        if limit is None:
            if extended:
                report.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif extended and Quantity.parse(text) != Quantity.parse(limit):
            report.invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")
        elif Quantity.parse(text) > Quantity.parse(limit):
            report.invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")
