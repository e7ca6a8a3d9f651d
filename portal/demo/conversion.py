"""Between the version in which an object is stored and another in which it is served or written.

Everything here is a pure function of one object without ``apiVersion`` and ``kind`` and leaves it unchanged.
What an older version cannot say is dropped on the way out, as the API's own conversions do. Entries of
``managedFields`` name the stored version and its fields, whichever version was written.
"""

from collections.abc import Callable
from typing import Any

from portal.demo import errors, schema
from portal.demo.resources import STORED, Resource
from portal.dra.features import Features

Object = dict[str, Any]
Convert = Callable[[Object], Object]


def outgoing(resource: Resource) -> Convert | None:
    """Turns a stored object into what ``resource`` serves; None when the two are alike."""
    pair = _CONVERSIONS.get((resource.api_version, resource.plural))
    return pair[0] if pair and resource.stored_as else None


def served(resource: Resource, obj: Object) -> Object:
    """A stored object, with its head, as ``resource`` serves it."""
    if not resource.stored_as:
        return obj
    convert = outgoing(resource)
    body = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **(convert(body) if convert else body),
    }


def incoming(resource: Resource, body: Object, features: Features, report: schema.FieldReport) -> Object:
    """What a client wrote in the version of ``resource``, as it is stored.

    Raises 400 for an object of another version and for what cannot be decoded in this one.
    """
    if not resource.stored_as:
        return body
    version = body.get("apiVersion", resource.api_version)
    if version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    obj = schema.clean(resource, body, features, report)
    pair = _CONVERSIONS.get((resource.api_version, resource.plural))
    converted = pair[1](obj) if pair else obj
    if "apiVersion" in converted:
        converted = {**converted, "apiVersion": STORED[resource.stored_as].api_version}
    return converted


# Events


def _as_new_event(event: Object) -> Object:
    """A core Event in the form of ``events.k8s.io/v1``."""
    renamed = {
        "involvedObject": "regarding",
        "message": "note",
        "source": "deprecatedSource",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
        "reportingComponent": "reportingController",
    }
    return {renamed.get(name, name): value for name, value in event.items()}


# resource.k8s.io/v1beta1: a device's content is in ``basic``, an exact request's content in the request


def _each(*path: str, change: Convert) -> Convert:
    """Applies ``change`` to every item of the list at ``path``."""

    def convert(obj: Object) -> Object:
        return _changed(obj, path, lambda items: [change(item) for item in items])

    return convert


def _changed(obj: Object, path: tuple[str, ...], change: Callable[[Any], Any]) -> Object:
    """A copy of ``obj`` with ``change`` applied at ``path``, if there is something."""
    name, *rest = path
    if name not in obj or not obj[name]:
        return obj
    return {**obj, name: _changed(obj[name], tuple(rest), change) if rest else change(obj[name])}


def _nested_device(device: Object) -> Object:
    return {"name": device.get("name", ""), "basic": _without(device, "name")}


def _flat_device(device: Object) -> Object:
    return {"name": device.get("name", ""), **device.get("basic", {})}


def _flat_request(request: Object) -> Object:
    return {**_without(request, "exactly"), **request.get("exactly", {})}


def _exact_request(request: Object) -> Object:
    exactly = _without(request, "name", "firstAvailable")
    kept = {name: value for name, value in request.items() if name in ("name", "firstAvailable")}
    # An empty request is one for nothing in particular, which the rules then refuse in their own words.
    return {**kept, "exactly": exactly} if exactly or "firstAvailable" not in request else kept


# scheduling.k8s.io: in v1alpha2 modes are words and the template is referred to in two steps; in v1alpha1
# a Workload holds its groups itself


_MODES = {"Pod": "single", "PodGroup": "all"}
_MODE_WORDS = {name: word for word, name in _MODES.items()}


def _mode_as_word(template: Object) -> Object:
    mode = template.get("disruptionMode")
    return (
        template if mode is None else {**template, "disruptionMode": _MODE_WORDS[next(iter(mode), "single")]}
    )


def _mode_as_choice(template: Object) -> Object:
    word = template.get("disruptionMode")
    if word is None:
        return template
    # An unknown word becomes a choice of nothing, which the rules refuse.
    return {**template, "disruptionMode": {_MODES[word]: {}} if word in _MODES else {}}


def _group_to_alpha2(group: Object) -> Object:
    spec = _mode_as_word(_without(group.get("spec", {}), "workloadRef", "preemptionPolicy"))
    if reference := group.get("spec", {}).get("workloadRef"):
        names = {
            "workloadName": reference.get("workloadName", ""),
            "podGroupTemplateName": reference.get("templateName", ""),
        }
        spec = {**spec, "podGroupTemplateRef": {"workload": names}}
    return {**group, "spec": spec}


def _group_from_alpha2(group: Object) -> Object:
    spec = _mode_as_choice(_without(group.get("spec", {}), "podGroupTemplateRef"))
    if names := group.get("spec", {}).get("podGroupTemplateRef", {}).get("workload"):
        reference = {
            "workloadName": names.get("workloadName", ""),
            "templateName": names.get("podGroupTemplateName", ""),
        }
        spec = {**spec, "workloadRef": reference}
    return {**group, "spec": spec}


def _workload_to_alpha1(workload: Object) -> Object:
    spec = workload.get("spec", {})
    groups = [
        {"name": template.get("name", ""), "policy": template.get("schedulingPolicy", {})}
        for template in spec.get("podGroupTemplates", ())
    ]
    return {**workload, "spec": {**_without(spec, "podGroupTemplates"), "podGroups": groups}}


def _workload_from_alpha1(workload: Object) -> Object:
    spec = workload.get("spec", {})
    templates = [
        {"name": group.get("name", ""), "schedulingPolicy": group.get("policy", {})}
        for group in spec.get("podGroups", ())
    ]
    return {**workload, "spec": {**_without(spec, "podGroups"), "podGroupTemplates": templates}}


# kueue.x-k8s.io/v1beta1


def _renamed(part: str, new: str, old: str) -> tuple[Convert, Convert]:
    """Two ways of one field: called ``new`` in what is stored and ``old`` in what is served."""

    def rename(obj: Object, before: str, after: str) -> Object:
        if before not in obj.get(part, {}):
            return obj
        return {**obj, part: {**_without(obj[part], before), after: obj[part][before]}}

    return (lambda obj: rename(obj, new, old)), (lambda obj: rename(obj, old, new))


_PRIORITY_KINDS = {
    "scheduling.k8s.io": ("PriorityClass", "scheduling.k8s.io/priorityclass"),
    "kueue.x-k8s.io": ("WorkloadPriorityClass", "kueue.x-k8s.io/workloadpriorityclass"),
}


def _queued_to_beta1(workload: Object) -> Object:
    reference = workload.get("spec", {}).get("priorityClassRef")
    if reference is None:
        return workload
    spec = {
        **_without(workload["spec"], "priorityClassRef"),
        "priorityClassName": reference.get("name", ""),
        "priorityClassSource": _PRIORITY_KINDS.get(reference.get("group", ""), ("", ""))[1],
    }
    return {**workload, "spec": spec}


def _queued_from_beta1(workload: Object) -> Object:
    spec = workload.get("spec", {})
    if not spec.get("priorityClassName"):
        return workload
    source = spec.get("priorityClassSource", "")
    group = source.partition("/")[0] or "kueue.x-k8s.io"
    kind = _PRIORITY_KINDS.get(group, ("WorkloadPriorityClass", ""))[0]
    reference = {"group": group, "kind": kind, "name": spec["priorityClassName"]}
    kept = _without(spec, "priorityClassName", "priorityClassSource")
    return {**workload, "spec": {**kept, "priorityClassRef": reference}}


_FUNGIBILITY = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def _queue_from_beta1(queue: Object) -> Object:
    queue = _renamed("spec", "cohortName", "cohort")[1](queue)

    def current(policy: Object) -> Object:
        return {name: _FUNGIBILITY.get(value, value) for name, value in policy.items()}

    return _changed(queue, ("spec", "flavorFungibility"), current)


def _queue_to_beta1(queue: Object) -> Object:
    queue = _renamed("spec", "cohortName", "cohort")[0](queue)
    words = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}

    def former(policy: Object) -> Object:
        return {
            name: words.get(name, value) if value == "MayStopSearch" else value
            for name, value in policy.items()
        }

    return _changed(queue, ("spec", "flavorFungibility"), former)


def _without(obj: Object, *names: str) -> Object:
    return {name: value for name, value in obj.items() if name not in names}


def _same(obj: Object) -> Object:
    return obj


_REQUESTS = ("spec", "devices", "requests")
# (version served, plural): from the stored object, and to it. Absent: both versions have the same shape.
_CONVERSIONS: dict[tuple[str, str], tuple[Convert, Convert]] = {
    ("events.k8s.io/v1", "events"): (_as_new_event, _same),
    ("resource.k8s.io/v1beta1", "resourceslices"): (
        _each("spec", "devices", change=_nested_device),
        _each("spec", "devices", change=_flat_device),
    ),
    ("resource.k8s.io/v1beta1", "resourceclaims"): (
        _each(*_REQUESTS, change=_flat_request),
        _each(*_REQUESTS, change=_exact_request),
    ),
    ("resource.k8s.io/v1beta1", "resourceclaimtemplates"): (
        _each("spec", *_REQUESTS, change=_flat_request),
        _each("spec", *_REQUESTS, change=_exact_request),
    ),
    ("scheduling.k8s.io/v1alpha2", "podgroups"): (_group_to_alpha2, _group_from_alpha2),
    ("scheduling.k8s.io/v1alpha2", "workloads"): (
        _each("spec", "podGroupTemplates", change=_mode_as_word),
        _each("spec", "podGroupTemplates", change=_mode_as_choice),
    ),
    ("scheduling.k8s.io/v1alpha1", "workloads"): (_workload_to_alpha1, _workload_from_alpha1),
    ("kueue.x-k8s.io/v1beta1", "clusterqueues"): (_queue_to_beta1, _queue_from_beta1),
    ("kueue.x-k8s.io/v1beta1", "localqueues"): _renamed("status", "flavorsUsage", "flavorUsage"),
    ("kueue.x-k8s.io/v1beta1", "workloads"): (_queued_to_beta1, _queued_from_beta1),
}
