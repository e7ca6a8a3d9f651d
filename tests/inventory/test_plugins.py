"""What labels say about counted units."""

import pytest

from inventory.plugins import Unit, describe

GIB = 2**30
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}


@pytest.mark.parametrize(
    ("resource", "labels", "unit"),
    [
        ("nvidia.com/gpu", {}, Unit("NVIDIA", "NVIDIA GPU", "gpu")),
        (
            "nvidia.com/gpu",
            {**A100, "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/mig.strategy": "single"},
            Unit("NVIDIA", "NVIDIA A100 SXM4 40GB", "gpu", 40 * GIB, mig_strategy="single"),
        ),
        (
            "nvidia.com/gpu.shared",
            {
                "nvidia.com/gpu.product": "Tesla-T4-SHARED",
                "nvidia.com/gpu.memory": "15360",
                "nvidia.com/gpu.replicas": "4",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            },
            Unit("NVIDIA", "Tesla T4", "gpu", 15 * GIB, sharing="time-slicing", replicas=4),
        ),
        (
            "nvidia.com/mig-1g.5gb",
            {**A100, "nvidia.com/mig.strategy": "mixed"},
            Unit(
                *("NVIDIA", "NVIDIA A100 SXM4 40GB MIG 1g.5gb", "partition", 5 * GIB),
                sharing="mig",
                mig_strategy="mixed",
            ),
        ),
        (
            "nvidia.com/gpu",
            {"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-3g.20gb", "nvidia.com/mig.strategy": "single"},
            Unit(
                *("NVIDIA", "A100 SXM4 40GB MIG 3g.20gb", "partition", 20 * GIB),
                sharing="mig",
                mig_strategy="single",
            ),
        ),
        (
            "amd.com/gpu",
            {"amd.com/gpu.product-name": "Instinct_MI210", "amd.com/gpu.vram": "64G"},
            Unit("AMD", "Instinct MI210", "gpu", 64 * GIB),
        ),
        ("amd.com/cpx_nps4", {}, Unit("AMD", "AMD GPU cpx_nps4", "partition", sharing="cpx_nps4")),
        ("gpu.intel.com/xe", {"gpu.intel.com/product": "Max_1550"}, Unit("Intel", "Max 1550", "gpu")),
        ("gpu.intel.com/i915", {}, Unit("Intel", "Intel GPU (i915)", "gpu")),
        ("habana.ai/gaudi", {}, Unit("Intel", "Intel Gaudi", "accelerator")),
        (
            "google.com/tpu",
            {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "2x4",
            },
            Unit("Google", "TPU v5-lite-podslice 2x4", "tpu"),
        ),
        (
            "aws.amazon.com/neuron",
            {"node.kubernetes.io/instance-type": "trn1.32xlarge"},
            Unit("AWS", "AWS Neuron (trn1.32xlarge)", "accelerator"),
        ),
        ("huawei.com/Ascend910", {}, Unit("Huawei", "Ascend 910", "accelerator")),
        ("accel.nordljus.example/fpga", {}, Unit("", "accel.nordljus.example/fpga", "device")),
    ],
)
def test_labels_describe_a_unit(resource: str, labels: dict[str, str], unit: Unit) -> None:
    assert describe(resource, labels=labels, advertised={resource: "1"}) == unit


def test_cores_are_parts_of_the_chips_that_the_node_advertises_too() -> None:
    core = "aws.amazon.com/neuroncore"
    assert describe(core, labels={}, advertised={core: "2"}).counts
    assert not describe(core, labels={}, advertised={core: "2", "aws.amazon.com/neuron": "1"}).counts


@pytest.mark.parametrize("text", ["", "many", "-3", "9" * 40, "1e9"])
def test_senseless_labels_say_nothing(text: str) -> None:
    labels = {"nvidia.com/gpu.memory": text, "nvidia.com/gpu.replicas": text}
    unit = describe("nvidia.com/gpu", labels=labels, advertised={})
    assert (unit.memory_bytes, unit.replicas) == (None, 1)
    assert describe("amd.com/gpu", labels={"amd.com/gpu.vram": "lots"}, advertised={}).memory_bytes is None
