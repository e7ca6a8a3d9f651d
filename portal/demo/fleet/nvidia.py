"""What ``gpu.nvidia.com`` publishes: whole GPUs, MIG partitions over shared counters, shareable GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

from .build import Object, Version, attributes, capacity, identity, resource_slices

DRIVER = "gpu.nvidia.com"
DRIVER_VERSION = Version("580.126.9")
CUDA_VERSION = Version("13.0.0")


@dataclass(frozen=True, kw_only=True)
class Model:
    """One product, as the driver describes it."""

    product: str
    architecture: str
    compute: str
    memory: str


H100 = Model(product="NVIDIA H100 80GB HBM3", architecture="Hopper", compute="9.0.0", memory="81559Mi")
A100 = Model(product="NVIDIA A100-SXM4-40GB", architecture="Ampere", compute="8.0.0", memory="40Gi")
A30 = Model(product="NVIDIA A30", architecture="Ampere", compute="8.0.0", memory="24Gi")
L40S = Model(product="NVIDIA L40S", architecture="Ada Lovelace", compute="8.9.0", memory="46068Mi")


@dataclass(frozen=True, kw_only=True)
class MigProfile:
    """One MIG profile of a GPU: what an instance of it consumes, and at which memory slices it may start."""

    name: str
    number: int
    starts: Sequence[int]
    memory_slices: int
    multiprocessors: int
    memory: str
    copy_engines: int
    decoders: int
    jpeg_engines: int
    ofa_engines: int = 0


H100_MIG = (
    MigProfile(
        name="1g.10gb", number=19, starts=range(7), memory_slices=1, multiprocessors=16, memory="9856Mi",
        copy_engines=1, decoders=1, jpeg_engines=1,
    ),
    MigProfile(
        name="1g.20gb", number=15, starts=(0, 2, 4, 6), memory_slices=2, multiprocessors=26, memory="20096Mi",
        copy_engines=1, decoders=1, jpeg_engines=1,
    ),
    MigProfile(
        name="2g.20gb", number=14, starts=(0, 2, 4), memory_slices=2, multiprocessors=32, memory="20096Mi",
        copy_engines=2, decoders=2, jpeg_engines=2,
    ),
    MigProfile(
        name="3g.40gb", number=9, starts=(0, 4), memory_slices=4, multiprocessors=60, memory="40448Mi",
        copy_engines=3, decoders=3, jpeg_engines=3,
    ),
    MigProfile(
        name="4g.40gb", number=5, starts=(0,), memory_slices=4, multiprocessors=64, memory="40448Mi",
        copy_engines=4, decoders=4, jpeg_engines=4,
    ),
    MigProfile(
        name="7g.80gb", number=0, starts=(0,), memory_slices=8, multiprocessors=132, memory="81152Mi",
        copy_engines=8, decoders=7, jpeg_engines=7, ofa_engines=1,
    ),
)  # fmt: skip  # one profile reads as one row of NVIDIA's table
"""The placements of an H100 SXM5 80GB, after the tables of NVIDIA's MIG user guide."""

H100_COUNTERS = {
    "copy-engines": "8",
    "decoders": "7",
    "encoders": "0",
    "jpeg-engines": "7",
    "memory": H100.memory,
    "multiprocessors": "132",
    "ofa-engines": "1",
    **{f"memory-slice-{number}": "1" for number in range(8)},
}


def gpu(model: Model, *, node: str, index: int, bus: str, numa: int) -> Object:
    """A whole GPU. ``bus`` is ``<root>:<slot>`` as in ``10:1c``; its PCIe root is ``pci0000:10``."""
    root = bus.partition(":")[0]
    return {
        "name": f"gpu-{index}",
        "attributes": attributes(
            {
                "type": "gpu",
                "uuid": f"GPU-{identity(node, 'gpu', index)}",
                "productName": model.product,
                "brand": "Nvidia",
                "architecture": model.architecture,
                "cudaComputeCapability": Version(model.compute),
                "driverVersion": DRIVER_VERSION,
                "cudaDriverVersion": CUDA_VERSION,
                "addressingMode": "HMM",
                "resource.kubernetes.io/pciBusID": f"0000:{bus}.0",
                "resource.kubernetes.io/pcieRoot": f"pci0000:{root}",
                "resource.kubernetes.io/numaNode": numa,
            }
        ),
        "capacity": capacity({"memory": model.memory}),
    }


def gpus(model: Model, *, node: str, buses: Sequence[str]) -> list[Object]:
    """One whole GPU a bus address; the first half of them sits at NUMA node 0."""
    return [
        gpu(model, node=node, index=index, bus=bus, numa=int(index >= len(buses) / 2))
        for index, bus in enumerate(buses)
    ]


def shareable(device: Object) -> Object:
    """The same GPU offered in shares: many claims at once, each consuming some of its memory."""
    memory = device["capacity"]["memory"]["value"]
    return {
        **device,
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": {
                "value": memory,
                "requestPolicy": {"default": "4Gi", "validRange": {"min": "1Gi", "step": "1Mi"}},
            }
        },
    }


def partitionable(device: Object, *, parent: int) -> list[Object]:
    """A GPU and its MIG placements; all draw on the counters of the GPU, so that they exclude one another."""
    counter_set = f"gpu-{parent}-counter-set"
    inherited = {name: value for name, value in device["attributes"].items() if name not in {"type", "uuid"}}
    whole = {**device, "consumesCounters": [{"counterSet": counter_set, "counters": capacity(H100_COUNTERS)}]}
    return [
        whole,
        *(
            _mig(profile, start=start, parent=parent, uuid=device["attributes"]["uuid"], inherited=inherited)
            for profile in H100_MIG
            for start in profile.starts
        ),
    ]


def _mig(profile: MigProfile, *, start: int, parent: int, uuid: Object, inherited: Object) -> Object:
    engines = {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": 0,
        "jpegEngines": profile.jpeg_engines,
        "ofaEngines": profile.ofa_engines,
    }
    counters = {
        "multiprocessors": str(profile.multiprocessors),
        "copy-engines": str(profile.copy_engines),
        "decoders": str(profile.decoders),
        "encoders": "0",
        "jpeg-engines": str(profile.jpeg_engines),
        "ofa-engines": str(profile.ofa_engines),
        "memory": profile.memory,
        **{f"memory-slice-{number}": "1" for number in range(start, start + profile.memory_slices)},
    }
    return {
        "name": f"gpu-{parent}-mig-{profile.name.replace('.', '')}-{profile.number}-{start}",
        # A MIG device that is made on demand has no uuid yet: the driver publishes its parent's only.
        "attributes": {
            **attributes({"type": "mig", "profile": profile.name}),
            "parentUUID": uuid,
            **inherited,
        },
        "capacity": capacity(
            {**{name: str(count) for name, count in engines.items()}, "memory": profile.memory}
        ),
        "consumesCounters": [{"counterSet": f"gpu-{parent}-counter-set", "counters": capacity(counters)}],
    }


def mig_pool(*, node: str, buses: Sequence[str]) -> list[Object]:
    """An H100 pool with dynamic MIG: counters first, then one slice a GPU (the form of 1.35 and later)."""
    devices = gpus(H100, node=node, buses=buses)
    counters = [
        {"name": f"gpu-{index}-counter-set", "counters": capacity(H100_COUNTERS)}
        for index in range(len(devices))
    ]
    return resource_slices(
        driver=DRIVER,
        node=node,
        contents=[
            {"sharedCounters": counters},
            *({"devices": partitionable(device, parent=index)} for index, device in enumerate(devices)),
        ],
    )
