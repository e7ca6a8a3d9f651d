"""What the other drivers of the institute publish: AMD GPUs, Intel Gaudi, and NICs of ``dra.net``."""

from collections.abc import Sequence

from .build import Object, Version, attributes, capacity, mac_address, serial_number

AMD = "gpu.amd.com"
GAUDI = "gaudi.intel.com"
NETWORK = "dra.net"


def mi300x(*, index: int, bus: str, numa: int) -> Object:
    """An AMD MI300X in its undivided mode; the driver names devices after the DRM card and render node."""
    card = index * 8
    return {
        "name": f"gpu-{card}-{128 + card}",
        "attributes": attributes(
            {
                "type": "amdgpu",
                "deviceID": "0x74a1",
                "family": "AI",
                "productName": "AMD_Instinct_MI300X_OAM",
                "driverVersion": Version("6.12.12"),
                "partitionProfile": "spx_nps1",
                "numaNode": numa,
                "resource.kubernetes.io/pciBusID": f"0000:{bus}.0",
                "resource.kubernetes.io/pcieRoot": f"pci0000:{bus.partition(':')[0]}",
            }
        ),
        "capacity": capacity({"memory": "196592Mi", "computeUnits": "304", "simdUnits": "1216"}),
    }


def gaudi2(*, node: str, index: int, bus: str) -> Object:
    """An Intel Gaudi2; it publishes no capacity, and its name is its PCI address and device id."""
    root = bus.partition(":")[0]
    return {
        "name": f"0000-{root}-00-0-0x1020",
        "attributes": attributes(
            {
                "model": "Gaudi2",
                # Boards whose firmware does not tell publish an empty serial.
                "serial": "" if index == 7 else serial_number(node, "gaudi", index),
                "healthy": True,
                "pciRoot": root,
                "resource.kubernetes.io/pcieRoot": f"pci0000:{root}",
            }
        ),
    }


def rdma_nic(*, node: str, index: int, bus: str, numa: int) -> Object:
    """An RDMA adapter; it shares its PCIe root with the GPUs whose buses begin alike."""
    root, _, slot = bus.partition(":")
    return {
        "name": f"pci-0000-{root}-{slot}-0",
        "attributes": attributes(
            {
                "dra.net/ifName": f"ibp{int(root, 16)}s0",
                "dra.net/mac": mac_address(node, "nic", index),
                "dra.net/mtu": 4096,
                "dra.net/numaNode": numa,
                "dra.net/pciAddress": f"0000:{bus}.0",
                "dra.net/pciDevice": "MT2910 Family [ConnectX-7]",
                "dra.net/pciVendor": "Mellanox Technologies",
                "dra.net/rdma": True,
                "dra.net/rdmaDevice": f"mlx5_{index}",
                "dra.net/sriov": False,
                "dra.net/state": "up",
                "dra.net/type": "device",
                "dra.net/virtual": False,
                "resource.kubernetes.io/pcieRoot": f"pci0000:{root}",
            }
        ),
    }


def ethernet_nic(*, node: str, address: str) -> Object:
    """The node's ordinary network card, published by the same driver but without RDMA."""
    return {
        "name": "pci-0000-01-00-0",
        "attributes": attributes(
            {
                "dra.net/ifName": "ens1f0",
                "dra.net/ipv4": f"{address}/22",
                "dra.net/mac": mac_address(node, "ethernet"),
                "dra.net/mtu": 9000,
                "dra.net/numaNode": 0,
                "dra.net/pciAddress": "0000:01:00.0",
                "dra.net/pciDevice": "Ethernet Controller X710",
                "dra.net/pciVendor": "Intel Corporation",
                "dra.net/rdma": False,
                "dra.net/sriov": True,
                "dra.net/state": "up",
                "dra.net/type": "device",
                "dra.net/virtual": False,
                "resource.kubernetes.io/pcieRoot": "pci0000:00",
            }
        ),
    }


def nics(*, node: str, buses: Sequence[str]) -> list[Object]:
    """The adapters of a node: its Ethernet card and one RDMA adapter a bus address."""
    return [
        ethernet_nic(node=node, address=f"10.20.4.{int(node.partition('.')[0][-2:])}"),
        *(
            rdma_nic(node=node, index=index, bus=bus, numa=int(index >= len(buses) / 2))
            for index, bus in enumerate(buses)
        ),
    ]
