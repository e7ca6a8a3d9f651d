"""What the API server fills in, and what each kind of write leaves alone."""

from collections.abc import Callable
from typing import Any

from portal.demo.resources import Resource

Object = dict[str, Any]
_SET_BY_SERVER = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
    "generateName", "selfLink",
)  # fmt: skip
_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def set_defaults(resource: Resource, obj: Object, *, now: str, creating: bool) -> None:
    """Fill in what the API server fills in; ``creating`` adds what only new objects get."""
    always = _ALWAYS.get(resource.key)
    if always is not None:
        always(obj, now)
    new = _NEW.get(resource.key)
    if creating and new is not None:
        new(obj)


def keep_what_an_update_may_not_touch(
    resource: Resource, new: Object, old: Object, *, subresource: str
) -> None:
    """Put back the parts of ``old`` that this kind of write does not change."""
    metadata = new["metadata"]
    for name in _SET_BY_SERVER:
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
        else:
            metadata.pop(name, None)
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    if subresource == "status" and resource.group == "resource.k8s.io":
        # These strategies let the status endpoint change nothing but the status.
        kept = {name: value for name, value in old["metadata"].items() if name != "managedFields"}
        new["metadata"] = {**kept, **_only(metadata, "managedFields")}
    status = (
        _only(new, "status")
        if subresource in ("status", "binding") or not resource.status
        else _only(old, "status")
    )
    spec = {name: value for name, value in old.items() if name not in ("metadata", "status")}
    if subresource in ("", "binding"):
        spec = {name: value for name, value in new.items() if name not in ("metadata", "status")}
    if resource.plural == "namespaces":
        source = new if subresource == "finalize" else old
        spec["spec"] = {**old.get("spec", {}), "finalizers": source.get("spec", {}).get("finalizers", [])}
    metadata = new["metadata"]
    new.clear()
    new.update(apiVersion=old["apiVersion"], kind=old["kind"], metadata=metadata)
    new.update({name: value for name, value in spec.items() if name not in ("apiVersion", "kind")})
    new.update(status)


def _only(obj: Object, name: str) -> Object:
    return {name: obj[name]} if name in obj else {}


# Devices


def _default_request(request: Object) -> None:
    mode = request.setdefault("allocationMode", "ExactCount")
    if mode == "ExactCount" and not request.get("count"):
        request["count"] = 1
    for toleration in request.get("tolerations", ()):
        toleration.setdefault("operator", "Equal")


def _default_claim_spec(spec: Object) -> None:
    spec.setdefault("devices", {})
    for request in spec["devices"].get("requests", ()):
        for part in (request.get("exactly"), *request.get("firstAvailable", ())):
            if part is not None:
                _default_request(part)


def _claims(obj: Object, _now: str) -> None:
    _default_claim_spec(obj.setdefault("spec", {}))
    obj.setdefault("status", {})


def _claim_templates(obj: Object, _now: str) -> None:
    template = obj.setdefault("spec", {})
    template.setdefault("metadata", {})
    _default_claim_spec(template.setdefault("spec", {}))


def _slices(obj: Object, now: str) -> None:
    for device in obj.get("spec", {}).get("devices", ()):
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", now)


def _taint_rules(obj: Object, now: str) -> None:
    taint = obj.get("spec", {}).get("taint")
    if taint is not None:
        taint.setdefault("timeAdded", now)
    obj.setdefault("status", {})


def _classes(obj: Object, _now: str) -> None:
    obj.setdefault("spec", {})


# Pods and Jobs


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "IfNotPresent" if tag and tag != "latest" else "Always"


def default_pod_spec(spec: Object) -> None:
    """Defaults of a Pod's spec, also inside a Job's template."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
    ):
        spec.setdefault(name, value)
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")


def quality_of_service(spec: Object) -> str:
    """``status.qosClass`` after the requests and limits of cpu and memory."""
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    amounts = [container.get("resources", {}) for container in containers]
    requested = [resources.get("requests", {}) for resources in amounts]
    limited = [resources.get("limits", {}) for resources in amounts]
    compute = ("cpu", "memory")
    if not any(name in part for part in (*requested, *limited) for name in compute):
        return "BestEffort"
    guaranteed = all(
        name in limit and request.get(name) == limit[name]
        for request, limit in zip(requested, limited, strict=True)
        for name in compute
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _pods(obj: Object, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    tolerations = spec.setdefault("tolerations", [])
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(_tolerates(item, key) for item in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def _new_pod(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    obj["status"]["qosClass"] = quality_of_service(spec)


def _tolerates(toleration: Object, key: str) -> bool:
    return (toleration.get("key", key), toleration.get("effect", "NoExecute")) == (key, "NoExecute")


def _jobs(obj: Object, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        spec.setdefault(name, value)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    if "spec" in template:
        default_pod_spec(template["spec"])
    obj.setdefault("status", {})


def _new_job(obj: Object) -> None:
    if obj["spec"].get("manualSelector"):
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    labels = obj["spec"]["template"]["metadata"].setdefault("labels", {})
    for prefix in ("batch.kubernetes.io/", ""):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = name
    obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


# The rest


def _namespaces(obj: Object, _now: str) -> None:
    obj.setdefault("spec", {})
    obj.setdefault("status", {}).setdefault("phase", "Active")
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")


# Queues


def _cluster_queues(obj: Object, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("queueingStrategy", "BestEffortFIFO")
    spec.setdefault("stopPolicy", "None")
    fungibility = spec.setdefault("flavorFungibility", {})
    fungibility.setdefault("whenCanBorrow", "MayStopSearch")
    fungibility.setdefault("whenCanPreempt", "TryNextFlavor")
    preemption = spec.setdefault("preemption", {})
    preemption.setdefault("reclaimWithinCohort", "Never")
    preemption.setdefault("withinClusterQueue", "Never")
    preemption.setdefault("borrowWithinCohort", {}).setdefault("policy", "Never")


def _local_queues(obj: Object, _now: str) -> None:
    obj.setdefault("spec", {}).setdefault("stopPolicy", "None")


def _queued_workloads(obj: Object, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("active", True)
    for pod_set in spec.get("podSets", ()):
        pod_set.setdefault("name", "main")
        pod_set.setdefault("count", 1)
    for assignment in obj.get("status", {}).get("admission", {}).get("podSetAssignments", ()):
        assignment.setdefault("name", "main")


def _new_namespace(obj: Object) -> None:
    obj["spec"]["finalizers"] = ["kubernetes"]


def _with_status(obj: Object, _now: str) -> None:
    obj.setdefault("spec", {})
    obj.setdefault("status", {})


def _new_node(obj: Object) -> None:
    """A new node takes no Pods until the node lifecycle controller has seen it ready."""
    taints = obj["spec"].setdefault("taints", [])
    if not any(taint.get("key") == _NOT_READY for taint in taints):
        taints.append({"key": _NOT_READY, "effect": "NoSchedule"})


def _events(obj: Object, _now: str) -> None:
    obj.setdefault("source", {})


_ALWAYS: dict[str, Callable[[Object, str], None]] = {
    "clusterqueues.kueue.x-k8s.io": _cluster_queues,
    "deviceclasses": _classes,
    "devicetaintrules": _taint_rules,
    "events": _events,
    "jobs": _jobs,
    "localqueues.kueue.x-k8s.io": _local_queues,
    "namespaces": _namespaces,
    "nodes": _with_status,
    "pods": _pods,
    "resourceclaims": _claims,
    "resourceclaimtemplates": _claim_templates,
    "resourcequotas": _with_status,
    "resourceslices": _slices,
    "workloads.kueue.x-k8s.io": _queued_workloads,
}
_NEW: dict[str, Callable[[Object], None]] = {
    "jobs": _new_job,
    "namespaces": _new_namespace,
    "nodes": _new_node,
    "pods": _new_pod,
}
