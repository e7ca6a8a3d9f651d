"""Rules for what asks for devices: ResourceClaims, their templates, DeviceClasses."""

from collections.abc import Iterable
from typing import Any

import msgspec

from portal.demo.rules import metadata as metadata_rules
from portal.demo.rules import names
from portal.demo.rules.report import Report
from portal.dra.cel import CelCompileError, compile_selector
from portal.dra.features import Features

Object = dict[str, Any]
_MOST_REQUESTS = _MOST_SELECTORS = _MOST_CONSTRAINTS = _MOST_CONFIGS = _MOST_RESULTS = 32
_MOST_ALTERNATIVES = 8
_MOST_TOLERATIONS = 16
_MOST_CONSUMERS = 256
_LONGEST_EXPRESSION = 10 * 1024
_LONGEST_PARAMETERS = 10 * 1024
_TOO_COSTLY = "too complex, exceeds cost limit"
_ALLOCATION_MODES = ("All", "ExactCount")
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")


def check_claim(report: Report, obj: Object, features: Features) -> None:
    """A ResourceClaim's spec."""
    check_claim_spec(report, obj.get("spec", {}), "spec", features)


def check_template(report: Report, obj: Object, features: Features) -> None:
    """A ResourceClaimTemplate's spec: the metadata and the spec of claims to come."""
    spec = obj.get("spec", {})
    metadata_rules.check_labels(report, "spec.metadata", spec.get("metadata", {}))
    check_claim_spec(report, spec.get("spec", {}), "spec.spec", features)


def check_class(report: Report, obj: Object, features: Features) -> None:
    """A DeviceClass's spec."""
    spec = obj.get("spec", {})
    _check_selectors(report, "spec.selectors", spec.get("selectors", []), features)
    for index, config in enumerate(_within(report, "spec.config", spec.get("config", []), _MOST_CONFIGS)):
        _check_opaque(report, f"spec.config[{index}]", config)
    if "extendedResourceName" in spec:
        _check_extended_resource(report, "spec.extendedResourceName", spec["extendedResourceName"])


def check_claim_spec(report: Report, spec: Object, path: str, features: Features) -> None:
    """What a claim asks for, wherever it stands."""
    devices, path = spec.get("devices", {}), f"{path}.devices"
    known = _request_names(devices.get("requests", []))
    requests = _within(report, f"{path}.requests", devices.get("requests", []), _MOST_REQUESTS)
    for index, request in enumerate(requests):
        _check_request(report, f"{path}.requests[{index}]", request, features)
    _check_distinct(report, f"{path}.requests", requests)
    constraints = _within(report, f"{path}.constraints", devices.get("constraints", []), _MOST_CONSTRAINTS)
    for index, constraint in enumerate(constraints):
        _check_constraint(report, f"{path}.constraints[{index}]", constraint, known)
    configs = _within(report, f"{path}.config", devices.get("config", []), _MOST_CONFIGS)
    for index, config in enumerate(configs):
        where = f"{path}.config[{index}]"
        _check_references(report, f"{where}.requests", config.get("requests", []), known)
        _check_opaque(report, where, config)


def check_claim_update(report: Report, obj: Object, old: Object) -> None:
    """A claim's spec never changes."""
    report.immutable("spec", obj.get("spec"), old.get("spec"))


def check_claim_status(report: Report, obj: Object, old: Object) -> None:
    """The status of a claim as drivers and the scheduler may write it."""
    status, before = obj.get("status", {}), old.get("status", {})
    allocation, reserved = status.get("allocation"), status.get("reservedFor", [])
    seen: set[str] = set()
    for index, consumer in enumerate(_within(report, "status.reservedFor", reserved, _MOST_CONSUMERS)):
        path = f"status.reservedFor[{index}]"
        for field in ("resource", "name", "uid"):
            if not consumer.get(field):
                report.required(f"{path}.{field}")
        if consumer.get("uid") in seen:
            report.duplicate(path, consumer["uid"])
        seen.add(consumer.get("uid", ""))
    deleting = "deletionTimestamp" in old["metadata"]
    if reserved and allocation is None:
        report.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif reserved and deleting:
        known = {consumer.get("uid") for consumer in before.get("reservedFor", ())}
        if any(consumer.get("uid") not in known for consumer in reserved):
            report.forbidden(
                "status.reservedFor",
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            )
    if allocation is not None and before.get("allocation") is not None:
        report.immutable("status.allocation", allocation, before["allocation"])
    elif allocation is not None:
        _check_allocation(report, allocation, obj)
    _check_device_statuses(report, status, allocation or {})


def _check_allocation(report: Report, allocation: Object, claim: Object) -> None:
    path = "status.allocation.devices.results"
    results = _within(report, path, allocation.get("devices", {}).get("results", []), _MOST_RESULTS)
    known = _request_names(claim.get("spec", {}).get("devices", {}).get("requests", []))
    for index, result in enumerate(results):
        where = f"{path}[{index}]"
        if result.get("request") not in known:
            report.invalid(f"{where}.request", result.get("request", ""), _UNKNOWN_REQUEST)
        names.check_driver(report, f"{where}.driver", result.get("driver", ""))
        names.check_pool(report, f"{where}.pool", result.get("pool", ""))
        names.check_label(report, f"{where}.device", result.get("device", ""))


def _check_device_statuses(report: Report, status: Object, allocation: Object) -> None:
    def identity(item: Object) -> tuple[str, ...]:
        return tuple(item.get(field, "") for field in ("driver", "pool", "device", "shareID"))

    allocated = {identity(result) for result in allocation.get("devices", {}).get("results", ())}
    for index, device in enumerate(status.get("devices", ())):
        if identity(device) not in allocated:
            report.invalid(
                f"status.devices[{index}]",
                "/".join(identity(device)),
                "must be an allocated device in the claim",
            )


def _check_request(report: Report, path: str, request: Object, features: Features) -> None:
    names.check_label(report, f"{path}.name", request.get("name", ""))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable", [])
    if exactly is None and not alternatives:
        report.required(path, _ONE_KIND)
    elif exactly is not None and alternatives:
        report.invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")
    elif exactly is not None:
        _check_wanted(report, f"{path}.exactly", exactly, features)
    else:
        where = f"{path}.firstAvailable"
        alternatives = _within(report, where, alternatives, _MOST_ALTERNATIVES)
        for index, alternative in enumerate(alternatives):
            names.check_label(report, f"{where}[{index}].name", alternative.get("name", ""))
            _check_wanted(report, f"{where}[{index}]", alternative, features)
        _check_distinct(report, where, alternatives)


def _check_wanted(report: Report, path: str, wanted: Object, features: Features) -> None:
    names.check_subdomain(report, f"{path}.deviceClassName", wanted.get("deviceClassName", ""))
    _check_selectors(report, f"{path}.selectors", wanted.get("selectors", []), features)
    mode, count = wanted.get("allocationMode"), wanted.get("count", 0)
    if mode == "ExactCount" and count <= 0:
        report.invalid(f"{path}.count", count, "must be greater than zero")
    elif mode == "All" and count != 0:
        report.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode not in _ALLOCATION_MODES:
        report.not_supported(f"{path}.allocationMode", mode, _ALLOCATION_MODES)
    tolerations = _within(report, f"{path}.tolerations", wanted.get("tolerations", []), _MOST_TOLERATIONS)
    for index, toleration in enumerate(tolerations):
        _check_toleration(report, f"{path}.tolerations[{index}]", toleration)
    for name in wanted.get("capacity", {}).get("requests", {}):
        names.check_device_field(report, f"{path}.capacity.requests[{name}]", name)


def _check_toleration(report: Report, path: str, toleration: Object) -> None:
    key, operator, value = toleration.get("key", ""), toleration.get("operator"), toleration.get("value", "")
    if key and (problem := names.qualified_problem(key)):
        report.invalid(f"{path}.key", key, problem)
    if operator == "Exists":
        if value:
            report.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        if problem := names.label_value_problem(value):
            report.invalid(f"{path}.value", value, problem)
    else:
        report.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if toleration.get("effect"):
        report.choice(f"{path}.effect", toleration["effect"], TAINT_EFFECTS)


def _check_selectors(report: Report, path: str, selectors: list[Object], features: Features) -> None:
    for index, selector in enumerate(_within(report, path, selectors, _MOST_SELECTORS)):
        if "cel" not in selector:
            report.required(f"{path}[{index}].cel")
        else:
            check_expression(
                report, f"{path}[{index}].cel.expression", selector["cel"].get("expression", ""), features
            )


def check_expression(report: Report, path: str, expression: str, features: Features) -> None:
    """A CEL expression has to compile and to be cheap enough."""
    if len(expression.encode()) > _LONGEST_EXPRESSION:
        report.too_long(path, _LONGEST_EXPRESSION)
        return
    try:
        compile_selector(expression, features=features.gates, enforce_estimate=True)
    except CelCompileError as error:
        if error.message == _TOO_COSTLY:
            report.forbidden(path, _TOO_COSTLY)
        else:
            report.invalid(path, expression, f"compilation failed: {error}")


def _check_constraint(report: Report, path: str, constraint: Object, known: set[str]) -> None:
    _check_references(report, f"{path}.requests", constraint.get("requests", []), known)
    chosen = [field for field in ("matchAttribute", "distinctAttribute") if field in constraint]
    if not chosen:
        report.required(path, "exactly one of `matchAttribute` or `distinctAttribute` is required")
    elif len(chosen) > 1:
        report.invalid(path, None, "exactly one of `matchAttribute` or `distinctAttribute` is required")
    for field in chosen:
        names.check_device_field(report, f"{path}.{field}", constraint[field], domain_required=True)


def _check_references(report: Report, path: str, references: list[str], known: set[str]) -> None:
    seen: set[str] = set()
    for index, reference in enumerate(_within(report, path, references, _MOST_REQUESTS)):
        if reference not in known:
            report.invalid(f"{path}[{index}]", reference, _UNKNOWN_REQUEST)
        if reference in seen:
            report.duplicate(f"{path}[{index}]", reference)
        seen.add(reference)


def _check_opaque(report: Report, path: str, config: Object) -> None:
    opaque = config.get("opaque")
    if opaque is None:
        report.required(f"{path}.opaque")
        return
    names.check_driver(report, f"{path}.opaque.driver", opaque.get("driver", ""))
    parameters, where = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        report.required(where)
    elif not isinstance(parameters, dict):
        report.invalid(where, "<value omitted>", "must be a valid JSON object")
    elif len(msgspec.json.encode(parameters)) > _LONGEST_PARAMETERS:
        report.too_long(where, _LONGEST_PARAMETERS)


def _check_extended_resource(report: Report, path: str, name: str) -> None:
    """As for extended resources of nodes: a qualified name of another domain than Kubernetes' own."""
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith("requests.") or names.qualified_problem(f"requests.{name}"):
        report.invalid(path, name, "must be a valid extended resource name")


def _request_names(requests: Iterable[Object]) -> set[str]:
    """Names by which constraints, configs and results refer to requests and their alternatives."""
    known = set()
    for request in requests:
        name = request.get("name", "")
        known.add(name)
        known.update(f"{name}/{item.get('name', '')}" for item in request.get("firstAvailable", ()))
    return known


def _check_distinct(report: Report, path: str, items: Iterable[Object]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in seen:
            report.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _within(report: Report, path: str, items: list[Any], limit: int) -> list[Any]:
    """The items to look at: none when there are too many, which is said once."""
    if len(items) <= limit:
        return items
    report.too_many(path, len(items), limit)
    return []
