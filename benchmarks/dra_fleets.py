"""Fleets for the benchmarks of device semantics: many devices of few kinds, as real ones are."""

from typing import Any

from portal.dra.features import Features
from portal.dra.fleet import Fleet
from portal.dra.model import decode_object

DRIVER = "gpu.example.com"
V1 = "resource.k8s.io/v1"
FEATURES = Features.for_version("1.37")


def device(number: int, *, kind: int) -> dict[str, Any]:
    """A device of one of many kinds; uuid and address identify the piece."""
    return {
        "name": f"gpu-{number % 10000}",
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": f"Model {kind}"},
            "architecture": {"string": ["Ampere", "Hopper", "Blackwell"][kind % 3]},
            "driverVersion": {"version": "580.126.9"},
            "cudaComputeCapability": {"version": f"{kind % 10}.0.0"},
            "uuid": {"string": f"GPU-{number:08}"},
            "index": {"int": number % 8},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{number % 256:02x}:00.0"},
        },
        "capacity": {"memory": {"value": f"{(kind % 8 + 1) * 10}Gi"}},
    }


def slice_for(name: str, devices: list[dict[str, Any]], **spec: Any) -> Any:
    """A pool of one slice."""
    body = {
        "driver": DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "nodeName": name,
        "devices": devices,
        **spec,
    }
    return decode_object(
        {"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": f"{name}-s"}, "spec": body}
    )


def device_class(*expressions: str) -> Any:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return decode_object(
        {
            "apiVersion": V1,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": selectors},
        }
    )


def claim(*requests: dict[str, Any], name: str = "claim", status: Any = None, **spec: Any) -> Any:
    document = {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"devices": {"requests": list(requests), **spec}},
    }
    return decode_object({**document, **({"status": status} if status else {})})


def ask(name: str = "r", *expressions: str, **fields: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": {"deviceClassName": "gpu", "selectors": selectors, **fields}}


def holders(ids: list[tuple[str, str]]) -> list[Any]:
    """One claim per held device, given as (pool, device)."""
    return [
        claim(
            name=f"held-{number}",
            status={
                "allocation": {
                    "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": pool, "device": name}]}
                }
            },
        )
        for number, (pool, name) in enumerate(ids)
    ]


def node(name: str) -> Any:
    return decode_object({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


def cluster(nodes: int, per_node: int, *, kinds: int, held: float) -> Fleet:
    """Nodes with their own pools; the given part of the devices is held, spread evenly."""
    slices, occupied, number = [], [], 0
    for index in range(nodes):
        name = f"node-{index:05}"
        slices.append(slice_for(name, [device(number + i, kind=index % kinds) for i in range(per_node)]))
        occupied += [
            (name, f"gpu-{(number + i) % 10000}") for i in range(per_node) if (number + i) * held % 1 < held
        ]
        number += per_node
    return Fleet.build(
        slices=slices,
        classes=[device_class(f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'")],
        nodes=[node(f"node-{index:05}") for index in range(nodes)],
        claims=holders(occupied),
        features=FEATURES,
    )
