"""A small site of another invented organisation: three machines by the sea on an older Kubernetes.

1.34 has neither taints nor counters on devices by default, so its drivers publish plain ones.
"""

from . import nvidia
from .build import (
    Object,
    Platform,
    claim_spec,
    device_class,
    exact_request,
    namespace,
    node,
    node_name,
    pod,
    pod_spec,
    resource_claim,
    resource_claim_template,
    resource_slices,
)

KUBERNETES = "1.34"
ORGANISATION = "kelpwatch.example"
UNKNOWN_RESOURCE = "accel.fjordsense.example/vision-core"
"""Advertised by a plugin of a maker that nobody has heard of."""

_SPACE = "buoy-vision"
_IMAGE = "registry.kelpwatch.example/vision/runtime:5"
_PLATFORM = Platform(
    kubelet="v1.34.4", runtime="cri-o://1.34.2", kernel="6.12.41-200.edge", image="Fedora CoreOS 42"
)
_L4 = nvidia.Model(product="NVIDIA L4", architecture="Ada Lovelace", compute="8.9.0", memory="23034Mi")


def infrastructure() -> list[Object]:
    """The namespace, the classes, the machines and their pools."""
    nvidia_gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    return [
        namespace(_SPACE),
        # Made by hand at another time than the institute's: it says nothing of extended resources.
        device_class("gpu.nvidia.com", nvidia_gpu),
        *(_machine(short) for short in ("quay-01", "quay-02")),
        _machine("mast-01", extended={UNKNOWN_RESOURCE: "4"}),
        *_pool("quay-01", ["01:00", "41:00"]),
        *_pool("quay-02", ["01:00"]),
    ]


def workloads() -> list[Object]:
    """One service that holds a GPU, and what waits for an hour of it."""
    one = claim_spec([exact_request("gpu", "gpu.nvidia.com")])
    pair = claim_spec([exact_request("gpu", "gpu.nvidia.com", count=2)])
    return [
        resource_claim("camera-feed", _SPACE, one),
        pod("camera-feed", _SPACE, pod_spec(claims={"gpu": "camera-feed"}, image=_IMAGE)),
        resource_claim_template("night-training", _SPACE, pair),
        pod(
            "night-training",
            _SPACE,
            pod_spec(templates={"gpus": "night-training"}, image=_IMAGE, restart="Never"),
        ),
        pod("gull-counter", _SPACE, pod_spec(limits={UNKNOWN_RESOURCE: "1"}, image=_IMAGE)),
    ]


def _machine(short: str, *, extended: dict[str, str] | None = None) -> Object:
    return node(
        short,
        zone="kelpwatch-quay",
        cpu=16,
        memory="64Gi",
        extended=extended,
        organisation=ORGANISATION,
        platform=_PLATFORM,
    )


def _pool(short: str, buses: list[str]) -> list[Object]:
    name = node_name(short, ORGANISATION)
    devices = nvidia.gpus(_L4, node=name, buses=buses)
    return resource_slices(driver=nvidia.DRIVER, node=name, contents=[{"devices": devices}])
