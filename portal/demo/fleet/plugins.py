"""Machines whose accelerators a device plugin serves: counts in the node, and what labels say about them.

After what the vendors' plugins and labellers write; the last resource is of a maker that nobody knows.
"""

from collections.abc import Mapping

from .build import USUAL_PLATFORM, Object, Platform, node

HALL_SOUTH = "norrvik-south"
BURST = "norrvik-burst"
"""Where the institute rents machines from two clouds."""

UNKNOWN_RESOURCE = "accel.nordljus.example/fpga"


def nvidia_labels(
    *,
    product: str,
    family: str,
    count: int,
    memory: int,
    compute: tuple[int, int],
    driver: str,
    replicas: int = 1,
    sharing: str = "none",
    mig: str = "single",
) -> dict[str, str]:
    """What GPU feature discovery writes; ``memory`` in MiB."""
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.family": family,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.compute.major": str(compute[0]),
        "nvidia.com/gpu.compute.minor": str(compute[1]),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": sharing,
        "nvidia.com/gpu.machine": "NQ-4124",
        "nvidia.com/mig.strategy": mig,
        "nvidia.com/cuda.driver-version.full": driver,
    }


def machines() -> list[Object]:
    """One machine a vendor."""
    a100_mig = nvidia_labels(
        product="NVIDIA-A100-SXM4-40GB", family="ampere", count=1, memory=40960, compute=(8, 0),
        driver="580.126.9", mig="mixed",
    )  # fmt: skip
    return [
        _machine("a100-mig-01", {"nvidia.com/mig-1g.5gb": "5", "nvidia.com/mig-2g.10gb": "1"}, a100_mig),
        _machine(
            "mi210-01",
            {"amd.com/gpu": "4"},
            {
                "amd.com/gpu.product-name": "Instinct_MI210",
                "amd.com/gpu.vram": "64G",
                "amd.com/gpu.cu-count": "104",
                "amd.com/gpu.device-id": "740f",
                "amd.com/gpu.driver-version": "6.12.12",
            },
        ),
        _machine(
            "max1550-01",
            {"gpu.intel.com/xe": "4"},
            {"gpu.intel.com/product": "Max_1550", "gpu.intel.com/device.count": "4"},
        ),
        _machine("gaudi1-01", {"habana.ai/gaudi": "8"}, {"node.kubernetes.io/instance-type": "gaudi-8"}),
        _machine(
            "tpu-v5e-01",
            {"google.com/tpu": "8"},
            {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "2x4",
                "node.kubernetes.io/instance-type": "ct5lp-hightpu-8t",
            },
            zone=BURST,
        ),
        _machine(
            "trn1-01",
            {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32"},
            {"node.kubernetes.io/instance-type": "trn1.32xlarge"},
            zone=BURST,
            platform=Platform(image="Amazon Linux 2023", kernel="6.12.46-66.121.amzn2023"),
        ),
        _machine(
            "ascend-01",
            {"huawei.com/Ascend910": "8"},
            {"accelerator": "huawei-Ascend910", "node.kubernetes.io/instance-type": "atlas-800"},
        ),
        _machine("fpga-01", {UNKNOWN_RESOURCE: "2"}, {}),
    ]


def _machine(
    short: str,
    extended: Mapping[str, str],
    labels: Mapping[str, str],
    *,
    zone: str = HALL_SOUTH,
    platform: Platform = USUAL_PLATFORM,
) -> Object:
    return node(short, zone=zone, cpu=64, memory="512Gi", labels=labels, extended=extended, platform=platform)
