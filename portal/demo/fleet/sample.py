"""The sample fleet: the machines of an invented institute, drawn after what real drivers publish.

It holds one of everything the desk has to cope with: partitions, shares, device plugins, hardware that is
advertised twice, a tainted device, a node that is not ready, a cordoned node and an incomplete pool; what
should alarm an administrator is in :mod:`.oddities`.
"""

from . import nvidia, oddities, plugins, queues, vendors
from .build import (
    SAMPLE_BIRTH,
    Object,
    Platform,
    device_class,
    namespace,
    node,
    node_name,
    resource_slices,
    timestamp,
)
from .plugins import nvidia_labels
from .workloads import workloads

HALL_NORTH = "norrvik-north"
HALL_SOUTH = "norrvik-south"

_A100_ROOTS = ("10", "20", "90", "a0")
_H100_ROOTS = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
_A100_BUSES = [f"{root}:{slot}" for root in _A100_ROOTS for slot in ("1c", "1d")]
_A100_NIC_BUSES = [f"{root}:1b" for root in _A100_ROOTS]
_H100_BUSES = [f"{root}:00" for root in _H100_ROOTS]
_H100_NIC_BUSES = [f"{root}:01" for root in _H100_ROOTS]
_OAM_BUSES = [f"{root}:00" for root in ("05", "26", "46", "65", "85", "a6", "c6", "e5")]

# Not yet upgraded with the others.
LAGGARD = Platform(kubelet="v1.35.3", runtime="containerd://1.7.28", kernel="6.8.0-60-generic")
NOT_READY_NODE = node_name("a100-03")
CORDONED_NODE = node_name("mi300x-02")
INCOMPLETE_POOL_NODE = node_name("gaudi2-02")
TWICE_ADVERTISED_NODE = node_name("a30-01")
TAINTED_DEVICE = (nvidia.DRIVER, node_name("a100-02"), "gpu-5")


def sample_objects() -> list[Object]:
    """Every object of the sample, in an order in which it can be created."""
    return [*infrastructure(), *wishes()]


def infrastructure() -> list[Object]:
    """What administrators and drivers bring: namespaces, classes, nodes, slices and queues."""
    instinct = [device["name"] for device in _instinct_devices()]
    return [
        *_namespaces(),
        *device_classes(),
        *nodes(),
        *plugins.machines(),
        *slices(),
        *queues.infrastructure(),
        *oddities.infrastructure(instinct_devices=instinct, instinct_node=CORDONED_NODE),
    ]


def wishes() -> list[Object]:
    """What people ask for."""
    return [*workloads(), *oddities.workloads(ill_device=TAINTED_DEVICE), *queues.workloads()]


def device_classes() -> list[Object]:
    """The classes that the drivers install, and two that the institute's administrators made themselves."""

    def nvidia_type(kind: str) -> str:
        return f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"

    return [
        device_class("gpu.nvidia.com", nvidia_type("gpu"), extended_resource="nvidia.com/gpu"),
        device_class("mig.nvidia.com", nvidia_type("mig")),
        device_class("vfio.gpu.nvidia.com", nvidia_type("vfio")),
        device_class("gpu.amd.com", 'device.driver == "gpu.amd.com"'),
        device_class("gaudi.intel.com", 'device.driver == "gaudi.intel.com"'),
        device_class("dra.net", 'device.driver == "dra.net"'),
        device_class("rdma-nic", 'device.driver == "dra.net" && device.attributes["dra.net"].rdma'),
        device_class("shared-gpu", nvidia_type("gpu"), "device.allowMultipleAllocations == true"),
    ]


def nodes() -> list[Object]:
    """The machines. Old ones are served by a device plugin and tell by labels what they carry."""
    hopper = {"node.kubernetes.io/instance-type": "hgx-h100-8"}
    ampere = {"node.kubernetes.io/instance-type": "hgx-a100-8"}
    instinct = {"node.kubernetes.io/instance-type": "mi300x-8"}
    gaudi = {"node.kubernetes.io/instance-type": "gaudi2-8"}
    volta = _plugin_labels(
        product="Tesla-V100-SXM2-32GB", family="volta", count=4, memory=32768, compute=(7, 0)
    )
    turing = _plugin_labels(
        product="Tesla-T4-SHARED",
        family="turing",
        count=2,
        memory=15360,
        compute=(7, 5),
        replicas=4,
        sharing="time-slicing",
    )
    a30 = _plugin_labels(product="NVIDIA-A30", family="ampere", count=2, memory=24576, compute=(8, 0))
    return [
        node("h100-01", zone=HALL_NORTH, cpu=192, memory="2000Gi", labels=hopper),
        node("h100-02", zone=HALL_NORTH, cpu=192, memory="2000Gi", labels=hopper),
        node("a100-01", zone=HALL_NORTH, cpu=128, memory="1000Gi", labels=ampere),
        node("a100-02", zone=HALL_NORTH, cpu=128, memory="1000Gi", labels=ampere),
        node("a100-03", zone=HALL_SOUTH, cpu=128, memory="1000Gi", labels=ampere, ready=False),
        node("mi300x-01", zone=HALL_SOUTH, cpu=192, memory="2300Gi", labels=instinct),
        node("mi300x-02", zone=HALL_SOUTH, cpu=192, memory="2300Gi", labels=instinct, cordoned=True),
        node("gaudi2-01", zone=HALL_SOUTH, cpu=160, memory="1000Gi", labels=gaudi),
        node("gaudi2-02", zone=HALL_SOUTH, cpu=160, memory="1000Gi", labels=gaudi),
        node("l40s-01", zone=HALL_SOUTH, cpu=64, memory="512Gi"),
        node("a30-01", zone=HALL_SOUTH, cpu=48, memory="256Gi", labels=a30, extended={"nvidia.com/gpu": "2"}),
        node(
            "v100-01", zone=HALL_SOUTH, cpu=40, memory="384Gi", labels=volta, extended={"nvidia.com/gpu": "4"}
        ),
        node(
            "v100-02",
            zone=HALL_SOUTH,
            cpu=40,
            memory="384Gi",
            labels=volta,
            extended={"nvidia.com/gpu": "4"},
            platform=LAGGARD,
        ),
        node(
            "t4-01",
            zone=HALL_SOUTH,
            cpu=32,
            memory="192Gi",
            labels=turing,
            extended={"nvidia.com/gpu.shared": "8"},
        ),
        node("cpu-01", zone=HALL_SOUTH, cpu=96, memory="512Gi"),
    ]


def slices() -> list[Object]:
    """The pools that the drivers of these machines publish."""
    amd_node, cordoned = node_name("mi300x-01"), CORDONED_NODE
    return [
        *nvidia.mig_pool(node=node_name("h100-01"), buses=_H100_BUSES),
        *nvidia.mig_pool(node=node_name("h100-02"), buses=_H100_BUSES),
        *_a100_pool(node_name("a100-01")),
        *_a100_pool(node_name("a100-02"), tainted="gpu-5"),
        *_a100_pool(NOT_READY_NODE),
        *_instinct_pool(amd_node),
        *_instinct_pool(cordoned),
        *_gaudi_pool(node_name("gaudi2-01")),
        # The driver announced two slices and published one: the second was refused or has not come yet.
        *_gaudi_pool(INCOMPLETE_POOL_NODE, cards=4, announced=2),
        *_shared_pool(node_name("l40s-01")),
        *resource_slices(
            driver=nvidia.DRIVER,
            node=TWICE_ADVERTISED_NODE,
            contents=[
                {"devices": nvidia.gpus(nvidia.A30, node=TWICE_ADVERTISED_NODE, buses=["17:00", "b1:00"])}
            ],
        ),
        *_network_pool(node_name("h100-01"), _H100_NIC_BUSES),
        *_network_pool(node_name("h100-02"), _H100_NIC_BUSES),
        *_network_pool(node_name("a100-01"), _A100_NIC_BUSES),
        *_network_pool(node_name("a100-02"), _A100_NIC_BUSES),
    ]


def _namespaces() -> list[Object]:
    return [
        namespace(name) for name in ("protein-folding", "weather-models", "language-lab", "particle-tracks")
    ]


def _plugin_labels(
    *,
    product: str,
    family: str,
    count: int,
    memory: int,
    compute: tuple[int, int],
    replicas: int = 1,
    sharing: str = "none",
) -> dict[str, str]:
    return nvidia_labels(
        product=product,
        family=family,
        count=count,
        memory=memory,
        compute=compute,
        driver=str(nvidia.DRIVER_VERSION),
        replicas=replicas,
        sharing=sharing,
    )


def _a100_pool(node: str, *, tainted: str = "") -> list[Object]:
    devices = nvidia.gpus(nvidia.A100, node=node, buses=_A100_BUSES)
    for device in devices:
        if device["name"] == tainted:
            device["taints"] = [
                {
                    "key": "gpu.nvidia.com/xid",
                    "value": "43",
                    "effect": "NoSchedule",
                    "timeAdded": timestamp(SAMPLE_BIRTH),
                }
            ]
    return resource_slices(driver=nvidia.DRIVER, node=node, contents=[{"devices": devices}])


def _instinct_devices() -> list[Object]:
    return [
        vendors.mi300x(index=index, bus=bus, numa=int(index >= 4)) for index, bus in enumerate(_OAM_BUSES)
    ]


def _instinct_pool(node: str) -> list[Object]:
    return resource_slices(driver=vendors.AMD, node=node, contents=[{"devices": _instinct_devices()}])


def _gaudi_pool(node: str, *, cards: int = 8, announced: int | None = None) -> list[Object]:
    devices = [
        vendors.gaudi2(node=node, index=index, bus=bus) for index, bus in enumerate(_OAM_BUSES[:cards])
    ]
    return resource_slices(
        driver=vendors.GAUDI, node=node, contents=[{"devices": devices}], announced=announced
    )


def _shared_pool(node: str) -> list[Object]:
    whole = nvidia.gpus(nvidia.L40S, node=node, buses=["21:00", "41:00", "81:00", "c1:00"])
    devices = [nvidia.shareable(device) for device in whole]
    return resource_slices(driver=nvidia.DRIVER, node=node, contents=[{"devices": devices}])


def _network_pool(node: str, buses: list[str]) -> list[Object]:
    return resource_slices(
        driver=vendors.NETWORK, node=node, contents=[{"devices": vendors.nics(node=node, buses=buses)}]
    )
