"""What an administrator should find at the institute: things that are not as they ought to be.

Everything is brought about by the objects themselves, so that it stays as long as nobody repairs it.
"""

from . import nvidia, vendors
from .build import (
    PREPARE_FAILS_ANNOTATION,
    SAMPLE_BIRTH,
    Object,
    claim_spec,
    exact_request,
    identity,
    namespace,
    node,
    node_name,
    pod,
    pod_spec,
    resource_claim,
    resource_slices,
    timestamp,
)
from .plugins import HALL_SOUTH, nvidia_labels

OPERATIONS = "device-operations"
"""The administrators' namespace, whose claims may look into devices that others hold."""

WITHOUT_SLICES_NODE = node_name("b200-01")
GONE_NODE = node_name("a40-01")
FAILING_NODE = node_name("l40s-02")
FORGOTTEN_CLAIM, UNDYING_CLAIM = "stranded-sweep", "abandoned-sweep"

_SPACE = "particle-tracks"
_MAINTENANCE = {"key": "norrvik.example/maintenance", "value": "driver", "effect": "NoSchedule"}
_XID_TAINT = "gpu.nvidia.com/xid"
_CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"


def infrastructure(*, instinct_devices: list[str], instinct_node: str) -> list[Object]:
    """Namespaces, machines, pools, and claims that nobody will ever give back.

    The claims hold the first two devices of a pool of MI300X.
    """
    return [
        namespace(OPERATIONS, {"resource.kubernetes.io/admin-access": "true"}),
        _runtime_class("nvidia"),
        {**_runtime_class("kata"), "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}}},
        _without_slices(),
        *_pool_of_a_gone_node(),
        _failing_node(),
        *_failing_pool(),
        _held(FORGOTTEN_CLAIM, instinct_node, instinct_devices[0]),
        _undying(_held(UNDYING_CLAIM, instinct_node, instinct_devices[1])),
    ]


def workloads(*, ill_device: tuple[str, str, str]) -> list[Object]:
    """What the administrators run, and what cannot start."""
    _, pool, device = ill_device
    uuid = f"GPU-{identity(pool, 'gpu', int(device.removeprefix('gpu-')))}"
    watch = exact_request("gpus", "gpu.nvidia.com", _product("A30"))
    watch["exactly"]["adminAccess"] = True
    diagnosis = exact_request(
        "gpu", "gpu.nvidia.com", f"device.attributes['gpu.nvidia.com'].uuid == '{uuid}'"
    )
    diagnosis["exactly"]["tolerations"] = [{"key": _XID_TAINT, "operator": "Exists"}]
    probe = exact_request("gpu", "gpu.nvidia.com", _product("L40S"))
    return [
        resource_claim("gpu-watch", OPERATIONS, claim_spec([watch])),
        pod("gpu-watch", OPERATIONS, pod_spec(claims={"gpus": "gpu-watch"}, runtimeClassName="nvidia")),
        resource_claim("xid-diagnosis", OPERATIONS, claim_spec([diagnosis])),
        pod("xid-diagnosis", OPERATIONS, pod_spec(claims={"gpu": "xid-diagnosis"})),
        resource_claim("render-probe", OPERATIONS, claim_spec([probe])),
        pod(
            "render-probe",
            OPERATIONS,
            pod_spec(
                claims={"gpu": "render-probe"},
                node_selector={"kubernetes.io/hostname": FAILING_NODE},
                tolerations=[{"key": _MAINTENANCE["key"], "operator": "Exists"}],
            ),
        ),
        pod("sandboxed-build", OPERATIONS, pod_spec(runtimeClassName="kata")),
    ]


def _product(name: str) -> str:
    return f"device.attributes['gpu.nvidia.com'].productName.contains('{name}')"


def _runtime_class(name: str) -> Object:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": name,
    }


def _without_slices() -> Object:
    """New hardware that the labeller has seen and no driver publishes yet."""
    labels = nvidia_labels(
        product="NVIDIA-B200", family="blackwell", count=8, memory=183359, compute=(10, 0),
        driver=str(nvidia.DRIVER_VERSION),
    )  # fmt: skip
    return node("b200-01", zone=HALL_SOUTH, cpu=224, memory="2000Gi", labels=labels)


def _pool_of_a_gone_node() -> list[Object]:
    """A machine was scrapped; its slices name no owner, so nobody collected them."""
    model = nvidia.Model(product="NVIDIA A40", architecture="Ampere", compute="8.6.0", memory="46068Mi")
    devices = nvidia.gpus(model, node=GONE_NODE, buses=["31:00", "b1:00"])
    left = resource_slices(driver=nvidia.DRIVER, node=GONE_NODE, contents=[{"devices": devices}])
    for item in left:
        del item["metadata"]["ownerReferences"]
    return left


def _failing_node() -> Object:
    """A machine on which the driver is being exchanged: it publishes, but cannot prepare."""
    failing = node("l40s-02", zone=HALL_SOUTH, cpu=64, memory="512Gi")
    failing["metadata"].setdefault("annotations", {})[PREPARE_FAILS_ANNOTATION] = nvidia.DRIVER
    failing["spec"]["taints"] = [_MAINTENANCE]
    return failing


def _failing_pool() -> list[Object]:
    devices = nvidia.gpus(nvidia.L40S, node=FAILING_NODE, buses=["21:00", "c1:00"])
    return resource_slices(driver=nvidia.DRIVER, node=FAILING_NODE, contents=[{"devices": devices}])


def _held(name: str, pool: str, device: str) -> Object:
    """A claim that holds a device without any consumer, as a broken controller leaves it."""
    claim = resource_claim(name, _SPACE, claim_spec([exact_request("gpu", "gpu.amd.com")]))
    claim["metadata"]["finalizers"] = [_CLAIM_FINALIZER]
    result = {"request": "gpu", "driver": vendors.AMD, "pool": pool, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    }
    return claim


def _undying(claim: Object) -> Object:
    """Deleted, but reserved for a PodGroup that is gone: no controller of Pods will ever let go of it."""
    claim["metadata"]["deletionTimestamp"] = timestamp(SAMPLE_BIRTH)
    claim["metadata"]["deletionGracePeriodSeconds"] = 0
    group = "sweep-ranks-0"
    claim["status"]["reservedFor"] = [
        {
            "apiGroup": "scheduling.k8s.io",
            "resource": "podgroups",
            "name": group,
            "uid": str(identity("PodGroup", _SPACE, group)),
        }
    ]
    return claim
