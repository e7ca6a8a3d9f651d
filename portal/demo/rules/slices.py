"""Rules for what drivers and administrators say about devices: ResourceSlices and DeviceTaintRules."""

from typing import Any

from portal.demo.rules import names
from portal.demo.rules.devices import TAINT_EFFECTS
from portal.demo.rules.report import Report
from portal.dra.quantity import Quantity
from portal.dra.semver import is_semver

Object = dict[str, Any]
_MOST_DEVICES, _MOST_DEVICES_WITH_EXTRAS = 128, 64
_MOST_FIELDS_OF_A_DEVICE = 32
_MOST_COUNTER_SETS, _MOST_COUNTERS = 8, 32
_MOST_TAINTS = 16
_LONGEST_VALUE = 64
_NODE_CHOICES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUE_KINDS = ("bool", "bools", "int", "ints", "string", "strings", "version", "versions")
_LIST_KINDS = frozenset({"bools", "ints", "strings", "versions"})


def check_slice(report: Report, obj: Object) -> None:
    """A ResourceSlice's spec."""
    spec = obj.get("spec", {})
    names.check_driver(report, "spec.driver", spec.get("driver", ""))
    pool = spec.get("pool", {})
    names.check_pool(report, "spec.pool.name", pool.get("name", ""))
    if pool.get("resourceSliceCount", 0) <= 0:
        report.invalid(
            "spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero"
        )
    if pool.get("generation", 0) < 0:
        report.invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero")
    _check_node_choice(report, "spec", spec, _NODE_CHOICES)
    devices = spec.get("devices", [])
    if devices and spec.get("sharedCounters"):
        report.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _check_counter_sets(report, spec.get("sharedCounters", []))
    extras = any(
        device.get("taints") or device.get("consumesCounters") or _has_lists(device) for device in devices
    )
    limit = _MOST_DEVICES_WITH_EXTRAS if extras else _MOST_DEVICES
    if len(devices) > limit:
        report.too_many("spec.devices", len(devices), limit)
        return
    for index, device in enumerate(devices):
        names.check_label(report, f"spec.devices[{index}].name", device.get("name", ""))
        _check_device(
            report, f"spec.devices[{index}]", device, per_device=bool(spec.get("perDeviceNodeSelection"))
        )
    _check_distinct(report, "spec.devices", devices)


def check_slice_update(report: Report, obj: Object, old: Object) -> None:
    """A slice stays with its driver, its pool and its node."""
    new_spec, old_spec = obj.get("spec", {}), old.get("spec", {})
    report.immutable(
        "spec.pool.name", new_spec.get("pool", {}).get("name"), old_spec.get("pool", {}).get("name")
    )
    for field in ("driver", "nodeName"):
        report.immutable(f"spec.{field}", new_spec.get(field), old_spec.get(field))


def check_taint_rule(report: Report, obj: Object) -> None:
    """A DeviceTaintRule's spec."""
    spec = obj.get("spec", {})
    selector = spec.get("deviceSelector", {})
    if "driver" in selector:
        names.check_driver(report, "spec.deviceSelector.driver", selector["driver"])
    if "pool" in selector:
        names.check_pool(report, "spec.deviceSelector.pool", selector["pool"])
    if "device" in selector:
        names.check_label(report, "spec.deviceSelector.device", selector["device"])
    _check_taint(report, "spec.taint", spec.get("taint", {}))


def _has_lists(device: Object) -> bool:
    return any(_LIST_KINDS & value.keys() for value in device.get("attributes", {}).values())


def _check_node_choice(report: Report, path: str, spec: Object, choices: tuple[str, ...]) -> None:
    chosen = [name for name in choices if spec.get(name)]
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            report.invalid(f"{path}.{name}", spec[name], "must be either unset or set to true")
    listed = ", ".join(f"`{name}`" for name in choices)
    if not chosen:
        report.required(path, f"exactly one of {listed} is required")
    elif len(chosen) > 1:
        shown = "{" + ", ".join(f"`{name}`" for name in chosen) + "}"
        report.invalid(path, shown, f"exactly one of {listed} is required, but multiple fields are set")
    if spec.get("nodeName") == "":
        report.invalid(f"{path}.nodeName", "", "must be either unset or set to a non-empty string")
    elif problem := names.subdomain_problem(spec.get("nodeName", "unset")):
        report.invalid(f"{path}.nodeName", spec["nodeName"], problem)
    if "nodeSelector" in spec:
        terms = spec["nodeSelector"].get("nodeSelectorTerms", [])
        if len(terms) != 1:
            report.invalid(
                f"{path}.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term"
            )


def _check_device(report: Report, path: str, device: Object, *, per_device: bool) -> None:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    total = len(attributes) + len(capacity)
    if total > _MOST_FIELDS_OF_A_DEVICE:
        report.invalid(
            path,
            total,
            f"the total number of attributes and capacities must not exceed {_MOST_FIELDS_OF_A_DEVICE}",
        )
    for name, value in attributes.items():
        where = f"{path}.attributes[{name}]"
        names.check_device_field(report, where, name)
        _check_attribute(report, where, value)
    shared = bool(device.get("allowMultipleAllocations"))
    for name, value in capacity.items():
        names.check_device_field(report, f"{path}.capacity[{name}]", name)
        _check_request_policy(report, f"{path}.capacity[{name}].requestPolicy", value, shared=shared)
    taints = device.get("taints", [])
    if len(taints) > _MOST_TAINTS:
        report.too_many(f"{path}.taints", len(taints), _MOST_TAINTS)
    for index, taint in enumerate(taints):
        _check_taint(report, f"{path}.taints[{index}]", taint)
    for index, consumption in enumerate(device.get("consumesCounters", ())):
        where = f"{path}.consumesCounters[{index}]"
        if consumption.get("counterSet"):
            names.check_label(report, f"{where}.counterSet", consumption["counterSet"])
        else:
            report.required(f"{where}.counterSet")
        _check_counters(report, f"{where}.counters", consumption.get("counters", {}))
    if per_device:
        _check_node_choice(report, path, device, _NODE_CHOICES[:3])
    elif any(name in device for name in _NODE_CHOICES[:3]):
        report.invalid(
            path,
            None,
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to "
            "true in the ResourceSlice spec",
        )


def _check_request_policy(report: Report, path: str, capacity: Object, *, shared: bool) -> None:
    """How much of a shared device's capacity may be asked for."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    if not shared:
        report.forbidden(path, "allowMultipleAllocations must be true")
        return
    chosen = [name for name in ("validValues", "validRange") if policy.get(name)]
    if len(chosen) > 1:
        report.forbidden(
            path,
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same '
            "time",
        )
    elif chosen and "default" not in policy:
        report.required(f"{path}.default", f"required when {chosen[0]} is defined")
    elif chosen == ["validValues"]:
        values = [Quantity.parse(text) for text in policy["validValues"]]
        if Quantity.parse(policy["default"]) not in values:
            report.invalid(
                f"{path}.validValues",
                policy["default"],
                "default value is not valid according to the requestPolicy",
            )
    elif chosen == ["validRange"]:
        _check_range(report, f"{path}.validRange", policy["validRange"], policy["default"], capacity["value"])


def _check_range(report: Report, path: str, limits: Object, default: str, whole: str) -> None:
    if "min" not in limits:
        report.required(f"{path}.min", "required when validRange is defined")
        return
    smallest, preset, most = (Quantity.parse(text) for text in (limits["min"], default, whole))
    if most < smallest:
        report.invalid(f"{path}.min", limits["min"], f"min is larger than capacity value: {whole}")
    if preset < smallest:
        report.invalid(f"{path}.min", default, f"default is less than min: {limits['min']}")
    if "max" in limits:
        largest = Quantity.parse(limits["max"])
        if most < largest:
            report.invalid(f"{path}.max", limits["max"], f"max is larger than capacity value: {whole}")
        if largest < preset:
            report.invalid(f"{path}.max", default, f"default is more than max: {limits['max']}")


def _check_attribute(report: Report, path: str, value: Object) -> None:
    given = [kind for kind in _VALUE_KINDS if kind in value]
    if not given:
        report.invalid(path, "", "exactly one value must be specified")
    elif len(given) > 1:
        report.invalid(path, value, "exactly one value must be specified")
    for kind in ("string", "version"):
        if len(value.get(kind, "").encode()) > _LONGEST_VALUE:
            report.too_long(f"{path}.{kind}", _LONGEST_VALUE)
    if "version" in value and not is_semver(value["version"]):
        report.invalid(
            f"{path}.version", value["version"], "must be a string compatible with semver.org spec 2.0.0"
        )


def _check_counter_sets(report: Report, counter_sets: list[Object]) -> None:
    path = "spec.sharedCounters"
    if len(counter_sets) > _MOST_COUNTER_SETS:
        report.too_many(path, len(counter_sets), _MOST_COUNTER_SETS)
        return
    for index, counter_set in enumerate(counter_sets):
        name = counter_set.get("name", "")
        if name:
            names.check_label(report, f"{path}[{index}].name", name)
        else:
            report.required(f"{path}[{index}].name")
        _check_counters(report, f"{path}[{index}].counters", counter_set.get("counters", {}))
    _check_distinct(report, path, counter_sets)


def _check_distinct(report: Report, path: str, items: list[Object]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in seen:
            report.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _check_counters(report: Report, path: str, counters: Object) -> None:
    if not counters:
        report.required(path)
    if len(counters) > _MOST_COUNTERS:
        report.too_many(path, len(counters), _MOST_COUNTERS)
    for name in counters:
        if problem := names.label_problem(name):
            report.invalid(f"{path}[{name}]" if name else path, name, problem)


def _check_taint(report: Report, path: str, taint: Object) -> None:
    if problem := names.qualified_problem(taint.get("key", "")):
        report.invalid(f"{path}.key", taint.get("key", ""), problem)
    if problem := names.label_value_problem(taint.get("value", "")):
        report.invalid(f"{path}.value", taint["value"], problem)
    if not taint.get("effect"):
        report.required(f"{path}.effect")
    else:
        report.choice(f"{path}.effect", taint["effect"], TAINT_EFFECTS)
