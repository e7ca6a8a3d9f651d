"""What an API server accepts and refuses: one table, replayed on the embedded cluster and on real ones.

Only cases of which the real server's answer is known are here: its code and, for 422, the fields that it
names. New objects are sent as dry-runs, so replaying leaves nothing behind. Cases with ``before`` need that
object to exist (the replayer creates it, sends the change and deletes it). Names are free of prefixes: the
replayer chooses the namespace, and renames cluster-wide objects.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

Object = dict[str, Any]
DRA = "/apis/resource.k8s.io/v1"


@dataclass(frozen=True)
class Case:
    """One object, what is done with it, and the answer.

    ``fields`` is what ``details.causes`` names (None: not stated). ``gate`` names the feature gate without
    which the case says nothing. ``before`` is the object that an update or a status update changes.
    """

    name: str
    resource: str
    obj: Object
    code: int
    fields: frozenset[str] | None = None
    verb: Literal["create", "update", "update_status"] = "create"
    before: Object | None = None
    gate: str = ""

    def collection(self, namespace: str) -> str:
        """The path of the collection that the object belongs to."""
        return PATHS[self.resource].format(namespace=namespace)


PATHS = {
    "resourceclaims": DRA + "/namespaces/{namespace}/resourceclaims",
    "resourceclaimtemplates": DRA + "/namespaces/{namespace}/resourceclaimtemplates",
    "deviceclasses": DRA + "/deviceclasses",
    "resourceslices": DRA + "/resourceslices",
    "pods": "/api/v1/namespaces/{namespace}/pods",
    "jobs": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "resourcequotas": "/api/v1/namespaces/{namespace}/resourcequotas",
    "namespaces": "/api/v1/namespaces",
}
_KINDS = {
    "resourceclaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceclaimtemplates": ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    "deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
    "resourceslices": ("resource.k8s.io/v1", "ResourceSlice"),
    "pods": ("v1", "Pod"),
    "jobs": ("batch/v1", "Job"),
    "resourcequotas": ("v1", "ResourceQuota"),
    "namespaces": ("v1", "Namespace"),
}
_RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
_CONSUMER = {"resource": "pods", "name": "one", "uid": "8d3e46b8-9ed4-4b4c-8a53-21ba3a1e8a01"}


def _object(resource: str, spec: Any, **metadata: Any) -> Object:
    version, kind = _KINDS[resource]
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "validation-case", **metadata},
        "spec": deepcopy(spec),
    }


def _request(**exactly: Any) -> Object:
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}


def _claim(*requests: Object, **devices: Any) -> Object:
    return _object("resourceclaims", {"devices": {"requests": list(requests or [_request()]), **devices}})


def _selectors(count: int) -> list[Object]:
    return [{"cel": {"expression": "true"}}] * count


def _cel(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def _slice(device: Object | None = None, **spec: Any) -> Object:
    base: Object = {
        "driver": "gpu.example.com",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", **(device or {})}],
    }
    base.update(spec)
    return _object("resourceslices", {name: value for name, value in base.items() if value is not None})


def _pod(container: Object | None = None, **spec: Any) -> Object:
    main = {"name": "main", "image": "registry.example/worker:1", **(container or {})}
    return _object("pods", {"containers": [main], **spec})


def _with(obj: Object, change: Callable[[Object], Any]) -> Object:
    changed = deepcopy(obj)
    change(changed)
    return changed


def _wrong(name: str, resource: str, obj: Object, *fields: str, gate: str = "") -> Case:
    return Case(name, resource, obj, 422, frozenset(fields) if fields else None, gate=gate)


def _wrong_claim(name: str, obj: Object, *fields: str, gate: str = "") -> Case:
    return _wrong(name, "resourceclaims", obj, *(f"spec.devices.{field}" for field in fields), gate=gate)


def _wrong_device(name: str, device: Object, *fields: str, gate: str = "") -> Case:
    paths = (f"spec.devices[0]{field}" for field in fields)
    return _wrong(name, "resourceslices", _slice(device), *paths, gate=gate)


def _wrong_slice(name: str, obj: Object, *fields: str) -> Case:
    return _wrong(name, "resourceslices", obj, *fields)


_EXACTLY = "requests[0].exactly"

CLAIMS = (
    Case("a claim for one device", "resourceclaims", _claim(), 201),
    Case("a class that does not exist is not missed", "resourceclaims",
         _claim(_request(deviceClassName="nobody.has.this")), 201),
    Case("a count of zero counts as not given", "resourceclaims", _claim(_request(count=0)), 201),
    Case("all devices of a class", "resourceclaims", _claim(_request(allocationMode="All")), 201),
    Case("a claim for nothing", "resourceclaims", _object("resourceclaims", {"devices": {}}), 201),
    Case("32 selectors", "resourceclaims", _claim(_request(selectors=_selectors(32))), 201),
    Case("a field that nobody knows is dropped", "resourceclaims",
         _with(_claim(), lambda obj: obj["spec"].update(colour="red")), 201),
    _wrong("no name", "resourceclaims", _with(_claim(), lambda obj: obj["metadata"].pop("name")),
           "metadata.name"),
    _wrong("a name in capitals", "resourceclaims",
           _with(_claim(), lambda obj: obj["metadata"].update(name="Mine")), "metadata.name"),
    _wrong("a label with a space", "resourceclaims",
           _with(_claim(), lambda obj: obj["metadata"].update(labels={"a": "b c"})), "metadata.labels"),
    _wrong("an annotation key with a space", "resourceclaims",
           _with(_claim(), lambda obj: obj["metadata"].update(annotations={"a b": "c"})),
           "metadata.annotations"),
    _wrong_claim("a request for nothing", _claim({"name": "gpu"}), "requests[0]"),
    _wrong_claim(
        "a request of both kinds",
        _claim({**_request(), "firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]}),
        "requests[0]",
        gate="DRAPrioritizedList",
    ),
    _wrong_claim("a request name in capitals", _claim({**_request(), "name": "GPU"}), "requests[0].name"),
    _wrong_claim("two requests of one name", _claim(_request(), _request())),
    _wrong_claim("33 requests", _claim(*({**_request(), "name": f"r{i}"} for i in range(33))), "requests"),
    _wrong_claim("no class", _claim({"name": "gpu", "exactly": {}}), f"{_EXACTLY}.deviceClassName"),
    _wrong_claim("a class name with a space", _claim(_request(deviceClassName="my gpu")),
                 f"{_EXACTLY}.deviceClassName"),
    _wrong_claim("a negative count", _claim(_request(count=-1)), f"{_EXACTLY}.count"),
    _wrong_claim("all devices and a count", _claim(_request(allocationMode="All", count=2)),
                 f"{_EXACTLY}.count"),
    _wrong_claim("an unknown mode", _claim(_request(allocationMode="Some")), f"{_EXACTLY}.allocationMode"),
    _wrong_claim("33 selectors", _claim(_request(selectors=_selectors(33))), f"{_EXACTLY}.selectors"),
    _wrong_claim("a selector that selects nothing", _claim(_request(selectors=[{}])),
                 f"{_EXACTLY}.selectors[0].cel"),
    _wrong_claim("CEL that does not parse", _claim(_request(selectors=_cel("device.driver =="))),
                 f"{_EXACTLY}.selectors[0].cel.expression"),
    _wrong_claim("CEL with an unknown variable", _claim(_request(selectors=_cel("node.name == 'a'"))),
                 f"{_EXACTLY}.selectors[0].cel.expression"),
    _wrong_claim("CEL that gives no boolean", _claim(_request(selectors=_cel("device.driver"))),
                 f"{_EXACTLY}.selectors[0].cel.expression"),
    _wrong_claim("CEL that is too long",
                 _claim(_request(selectors=_cel("true || " * 1280 + "true"))),
                 f"{_EXACTLY}.selectors[0].cel.expression"),
    _wrong_claim("nine alternatives", _claim({"name": "gpu", "firstAvailable": [
        {"name": f"a{i}", "deviceClassName": "gpu.example.com"} for i in range(9)]}),
        "requests[0].firstAvailable", gate="DRAPrioritizedList"),
    _wrong_claim("an alternative without class",
                 _claim({"name": "gpu", "firstAvailable": [{"name": "a"}]}),
                 "requests[0].firstAvailable[0].deviceClassName", gate="DRAPrioritizedList"),
    _wrong_claim("a toleration with an unknown operator",
                 _claim(_request(tolerations=[{"key": "a", "operator": "Sometimes"}])),
                 f"{_EXACTLY}.tolerations[0].operator", gate="DRADeviceTaints"),
    _wrong_claim("a toleration of any value with a value",
                 _claim(_request(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])),
                 f"{_EXACTLY}.tolerations[0].value", gate="DRADeviceTaints"),
    _wrong_claim("a toleration of an unknown effect",
                 _claim(_request(tolerations=[{"key": "a", "operator": "Exists", "effect": "Maybe"}])),
                 f"{_EXACTLY}.tolerations[0].effect", gate="DRADeviceTaints"),
    _wrong_claim("a constraint on an unknown request",
                 _claim(constraints=[{"requests": ["nic"], "matchAttribute": "example.com/root"}]),
                 "constraints[0].requests[0]"),
    _wrong_claim("a constraint on an attribute without domain",
                 _claim(constraints=[{"matchAttribute": "root"}]), "constraints[0].matchAttribute"),
    _wrong_claim("a configuration of nothing", _claim(config=[{}]), "config[0].opaque"),
    _wrong_claim("a configuration without driver", _claim(config=[{"opaque": {"parameters": {"a": 1}}}]),
                 "config[0].opaque.driver"),
    _wrong_claim("a configuration without parameters",
                 _claim(config=[{"opaque": {"driver": "gpu.example.com"}}]),
                 "config[0].opaque.parameters"),
    _wrong_claim("a configuration for an unknown request",
                 _claim(config=[{"requests": ["nic"], "opaque": {"driver": "a.b", "parameters": {"a": 1}}}]),
                 "config[0].requests[0]"),
    Case("a count in words", "resourceclaims", _claim(_request(count="two")), 400),
    Case("a spec that is a number", "resourceclaims", _object("resourceclaims", 7), 400),
    Case("another kind", "resourceclaims", {**_claim(), "kind": "DeviceClass"}, 400),
    Case("another version", "resourceclaims", {**_claim(), "apiVersion": "v1"}, 400),
    Case("an amount in words", "resourceclaims",
         _claim(_request(capacity={"requests": {"memory": "eighty"}})), 400, gate="DRAConsumableCapacity"),
)  # fmt: skip

CLAIM_CHANGES = (
    Case("a spec does not change", "resourceclaims", _claim(_request(count=2)), 422, frozenset({"spec"}),
         "update", _claim()),
    Case("labels do change", "resourceclaims",
         _with(_claim(), lambda obj: obj["metadata"].update(labels={"a": "b"})), 200, None,
         "update", _claim()),
    Case("reserved but not allocated", "resourceclaims", {**_claim(), "status": {"reservedFor": [_CONSUMER]}},
         422, frozenset({"status.reservedFor"}), "update_status", _claim()),
    Case("allocated for a request that is not there", "resourceclaims",
         {**_claim(), "status": {"allocation": {"devices": {"results": [{**_RESULT, "request": "nic"}]}}}},
         422, frozenset({"status.allocation.devices.results[0].request"}), "update_status", _claim()),
    Case("allocated from a pool without name", "resourceclaims",
         {**_claim(), "status": {"allocation": {"devices": {"results": [{**_RESULT, "pool": ""}]}}}},
         422, frozenset({"status.allocation.devices.results[0].pool"}), "update_status", _claim()),
    Case("allocated and reserved", "resourceclaims",
         {**_claim(), "status": {
             "allocation": {"devices": {"results": [_RESULT]}}, "reservedFor": [_CONSUMER]}},
         200, None, "update_status", _claim()),
    Case("a device status of a device that is not allocated", "resourceclaims",
         {**_claim(), "status": {
             "allocation": {"devices": {"results": [_RESULT]}},
             "devices": [{"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-7"}],
         }},
         422, frozenset({"status.devices[0]"}), "update_status", _claim(), "DRAResourceClaimDeviceStatus"),
)  # fmt: skip

TEMPLATES = (
    Case("a template", "resourceclaimtemplates",
         _object("resourceclaimtemplates", {"spec": _claim()["spec"]}), 201),
    _wrong("a template for a claim without class", "resourceclaimtemplates",
           _object("resourceclaimtemplates", {"spec": _claim({"name": "gpu", "exactly": {}})["spec"]}),
           "spec.spec.devices.requests[0].exactly.deviceClassName"),
    _wrong("a template with a wrong label", "resourceclaimtemplates",
           _object("resourceclaimtemplates",
                   {"metadata": {"labels": {"a": "b c"}}, "spec": _claim()["spec"]}),
           "spec.metadata.labels"),
    Case("a template does not change", "resourceclaimtemplates",
         _object("resourceclaimtemplates", {"spec": _claim(_request(count=2))["spec"]}), 422,
         frozenset({"spec"}), "update", _object("resourceclaimtemplates", {"spec": _claim()["spec"]})),
)  # fmt: skip

CLASSES = (
    Case("a class of everything", "deviceclasses", _object("deviceclasses", {}), 201),
    Case("a class of a driver", "deviceclasses",
         _object("deviceclasses", {"selectors": _cel("device.driver == 'gpu.example.com'")}), 201),
    _wrong("a class with wrong CEL", "deviceclasses", _object("deviceclasses", {"selectors": _cel("(")}),
           "spec.selectors[0].cel.expression"),
    _wrong("a class with 33 selectors", "deviceclasses",
           _object("deviceclasses", {"selectors": _selectors(33)}), "spec.selectors"),
    _wrong("a class that configures nothing", "deviceclasses", _object("deviceclasses", {"config": [{}]}),
           "spec.config[0].opaque"),
    Case("a class for an extended resource", "deviceclasses",
         _object("deviceclasses", {"extendedResourceName": "example.com/gpu"}), 201,
         gate="DRAExtendedResource"),
    _wrong("an extended resource without domain", "deviceclasses",
           _object("deviceclasses", {"extendedResourceName": "gpu"}), "spec.extendedResourceName",
           gate="DRAExtendedResource"),
    _wrong("an extended resource of Kubernetes itself", "deviceclasses",
           _object("deviceclasses", {"extendedResourceName": "kubernetes.io/gpu"}),
           "spec.extendedResourceName", gate="DRAExtendedResource"),
    Case("a class does change", "deviceclasses",
         _object("deviceclasses", {"selectors": _cel("device.driver == 'b.example.com'")}), 200, None,
         "update", _object("deviceclasses", {})),
    Case("a class does not change to wrong CEL", "deviceclasses",
         _object("deviceclasses", {"selectors": _cel("(")}), 422,
         frozenset({"spec.selectors[0].cel.expression"}), "update", _object("deviceclasses", {})),
)  # fmt: skip

_POOL = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
SLICES = (
    Case("a slice of a node", "resourceslices", _slice(), 201),
    Case("a slice for all nodes", "resourceslices", _slice(nodeName=None, allNodes=True), 201),
    Case("a slice without devices", "resourceslices", _slice(devices=[]), 201),
    Case("a device with all kinds of values", "resourceslices", _slice({
        "attributes": {
            "a": {"string": "x"}, "example.com/b": {"int": 1}, "c": {"bool": False},
            "d": {"version": "1.2.3-rc.1+b5"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }), 201),
    _wrong_slice("no driver", _slice(driver=""), "spec.driver"),
    _wrong_slice("no pool name", _slice(pool={**_POOL, "name": ""}), "spec.pool.name"),
    _wrong_slice("a pool of no slices", _slice(pool={**_POOL, "resourceSliceCount": 0}),
                 "spec.pool.resourceSliceCount"),
    _wrong_slice("a negative generation", _slice(pool={**_POOL, "generation": -1}), "spec.pool.generation"),
    _wrong_slice("for no node", _slice(nodeName=None), "spec"),
    _wrong_slice("for one node and for all", _slice(allNodes=True), "spec"),
    _wrong_slice("129 devices", _slice(devices=[{"name": f"gpu-{i}"} for i in range(129)]), "spec.devices"),
    _wrong_slice("two devices of one name", _slice(devices=[{"name": "gpu-0"}] * 2)),
    _wrong_device("a device name in capitals", {"name": "GPU-0"}, ".name"),
    _wrong_device("an attribute without value", {"attributes": {"model": {}}}, ".attributes[model]"),
    _wrong_device("an attribute with two values", {"attributes": {"model": {"string": "a", "int": 1}}},
                  ".attributes[model]"),
    _wrong_device("a string of 65 characters", {"attributes": {"model": {"string": "x" * 65}}},
                  ".attributes[model].string"),
    _wrong_device("a version that is none", {"attributes": {"version": {"version": "1.0"}}},
                  ".attributes[version].version"),
    _wrong_device("an attribute name with a hyphen", {"attributes": {"my-model": {"int": 1}}},
                  ".attributes[my-model]"),
    _wrong_device("a capacity name with a hyphen", {"capacity": {"my-memory": {"value": "1"}}},
                  ".capacity[my-memory]"),
    _wrong_device("33 attributes", {"attributes": {f"a{i}": {"int": i} for i in range(33)}}, ""),
    _wrong_device("a taint without effect", {"taints": [{"key": "a"}]}, ".taints[0].effect",
                  gate="DRADeviceTaints"),
    _wrong_device("a taint without key", {"taints": [{"effect": "NoSchedule"}]}, ".taints[0].key",
                  gate="DRADeviceTaints"),
    _wrong_device("a taint of an unknown effect", {"taints": [{"key": "a", "effect": "Maybe"}]},
                  ".taints[0].effect", gate="DRADeviceTaints"),
    _wrong_device("counters of no set", {"consumesCounters": [{"counters": {"a": {"value": "1"}}}]},
                  ".consumesCounters[0].counterSet", gate="DRAPartitionableDevices"),
    _wrong_device("a request policy of a device that is not shared",
                  {"capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}}},
                  ".capacity[memory].requestPolicy", gate="DRAConsumableCapacity"),
    Case("an amount of memory in words", "resourceslices",
         _slice({"capacity": {"memory": {"value": "eighty"}}}), 400),
    Case("a slice stays with its driver", "resourceslices", _slice(driver="other.example.com"), 422,
         frozenset({"spec.driver"}), "update", _slice()),
    Case("a slice stays with its pool", "resourceslices", _slice(pool={**_POOL, "name": "node-2"}), 422,
         frozenset({"spec.pool.name"}), "update", _slice()),
    Case("a slice stays with its node", "resourceslices", _slice(nodeName="node-2"), 422,
         frozenset({"spec.nodeName"}), "update", _slice()),
    Case("devices of a slice do change", "resourceslices", _slice(devices=[{"name": "gpu-1"}]), 200, None,
         "update", _slice()),
)  # fmt: skip

_USES = {"resources": {"claims": [{"name": "gpu"}]}}
PODS = (
    Case("a pod that uses a claim", "pods",
         _pod(_USES, resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}]), 201),
    Case("a pod that asks for an extended resource", "pods",
         _pod({"resources": {"limits": {"example.com/gpu": "1"}}}), 201),
    _wrong("no containers", "pods", _object("pods", {"containers": []}), "spec.containers"),
    _wrong("no image", "pods", _pod({"image": ""}), "spec.containers[0].image"),
    _wrong("a container name in capitals", "pods", _pod({"name": "Main"}), "spec.containers[0].name"),
    _wrong("an unknown restart policy", "pods", _pod(restartPolicy="Sometimes"), "spec.restartPolicy"),
    _wrong("a claim from nowhere", "pods", _pod(resourceClaims=[{"name": "gpu"}]), "spec.resourceClaims[0]"),
    _wrong("a claim from two places", "pods",
           _pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
           "spec.resourceClaims[0]"),
    _wrong("a container that uses an unknown claim", "pods", _pod(_USES),
           "spec.containers[0].resources.claims[0]"),
    _wrong("half an extended resource", "pods", _pod({"resources": {"limits": {"example.com/gpu": "500m"},
                                                                   "requests": {"example.com/gpu": "500m"}}}),
           "spec.containers[0].resources.limits[example.com/gpu]",
           "spec.containers[0].resources.requests[example.com/gpu]"),
    _wrong("fewer extended resources than the limit", "pods",
           _pod({"resources": {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}}),
           "spec.containers[0].resources.requests"),
    Case("a pod's containers stay", "pods",
         _with(_pod(), lambda obj: obj["spec"]["containers"][0].update(command=["x"])), 422,
         frozenset({"spec"}), "update", _pod()),
)  # fmt: skip


def _job(policy: str) -> Object:
    template = {"spec": {**_pod()["spec"], "restartPolicy": policy}}
    return _object("jobs", {"template": template, "suspend": True})


OTHERS = (
    Case("a job", "jobs", _job("Never"), 201),
    _wrong("a job whose pods run for ever", "jobs", _job("Always"), "spec.template.spec.restartPolicy"),
    Case("a quota", "resourcequotas", _object("resourcequotas", {"hard": {
        "gpu.example.com.deviceclass.resource.k8s.io/devices": "4"}}), 201),
    _wrong("a negative quota", "resourcequotas", _object("resourcequotas", {"hard": {"pods": "-1"}}),
           "spec.hard[pods]"),
    Case("a quota in words", "resourcequotas", _object("resourcequotas", {"hard": {"pods": "many"}}), 400),
    _wrong("a namespace in capitals", "namespaces", _object("namespaces", {}, name="Lab"), "metadata.name"),
)  # fmt: skip

CASES: tuple[Case, ...] = (*CLAIMS, *CLAIM_CHANGES, *TEMPLATES, *CLASSES, *SLICES, *PODS, *OTHERS)
