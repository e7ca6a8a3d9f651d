"""A random fleet as drivers publish it, claims and templates that name one of its classes, and random changes
of that class."""

import random
from typing import Any

from tests.inventory.objects import Json, allocation, device_class, meta, node, resource_slice

NAME = "in.question"
NVIDIA, AMD, NIC = "gpu.nvidia.com", "gpu.amd.com", "dra.net"
NODES = 5


def device(rng: random.Random, driver: str, at: str, index: int) -> Json:
    """A device with whatever its driver leaves out now and then."""
    attributes: Json = {}
    capacity: Json = {}
    if driver == NVIDIA:
        attributes["type"] = {"string": rng.choice(["gpu", "gpu", "mig"])}
        attributes["uuid"] = {"string": f"GPU-{at}-{index}"}
        attributes["driverVersion"] = {"version": rng.choice(["570.1.0", "580.126.9"])}
        capacity["memory"] = {"value": rng.choice(["40Gi", "80Gi"])}
    elif driver == AMD:
        attributes["type"] = {"string": "amdgpu"}
        capacity["memory"] = {"value": "196592Mi"}
    else:
        attributes[f"{NIC}/ifName"] = {"string": f"eth{index}"}
        if rng.random() < 0.5:
            attributes[f"{NIC}/rdma"] = {"bool": rng.random() < 0.5}
    if rng.random() < 0.6:
        attributes["resource.kubernetes.io/pciBusID"] = {"string": f"0000:1{index}:00.0"}
    if rng.random() < 0.4:
        attributes["example.org/rack"] = {"int": rng.randrange(3)}
    return {"name": f"dev-{index}", "attributes": attributes, "capacity": capacity}


def fleet(rng: random.Random) -> tuple[list[Json], list[Json]]:
    """Nodes, and the slices of their pools."""
    nodes = [node(f"n{i}", unschedulable=rng.random() < 0.1) for i in range(NODES)]
    slices = []
    for i in range(NODES):
        for driver in rng.sample([NVIDIA, AMD, NIC], rng.randrange(1, 4)):
            devices = [device(rng, driver, f"n{i}", index) for index in range(rng.randrange(1, 5))]
            slices.append(resource_slice(f"n{i}-{driver}", devices, node=f"n{i}", driver=driver))
    return nodes, slices


ATOMS = (
    *(f'device.driver == "{driver}"' for driver in (NVIDIA, AMD, NIC)),
    f'device.attributes["{NVIDIA}"].type == "gpu"',
    f'"{NVIDIA}" in device.attributes && device.attributes["{NVIDIA}"].type == "mig"',
    f'device.capacity["{NVIDIA}"].memory.compareTo(quantity("80Gi")) >= 0',
    f'device.attributes["{NIC}"].rdma',
    f'has(device.attributes["{NIC}"].rdma)',
    '"resource.kubernetes.io" in device.attributes',
    'device.attributes["resource.kubernetes.io"].pciBusID.startsWith("0000:11")',
    'has(device.attributes["resource.kubernetes.io"].pciBusID)',
    f'device.attributes["{NVIDIA}"].uuid == "GPU-n1-0"',
    'device.attributes["example.org"].rack == 1',
    f'device.attributes["{NVIDIA}"].driverVersion.isGreaterThan(semver("575.0.0"))',
    "size(device.attributes) > 1",
    "true",
    "false",
)


def expression(rng: random.Random) -> str:
    """One of all kinds that classes have: guarded or not, by kind or by piece."""
    text = rng.choice(ATOMS)
    for _again in range(rng.choice([0, 0, 1, 2])):
        other = rng.choice(ATOMS)
        text = f"({text}) {rng.choice(['&&', '||'])} ({'!' if rng.random() < 0.2 else ''}({other}))"
    return text


def spec(rng: random.Random) -> Json:
    """What the class may become."""
    found: Json = {
        "selectors": [{"cel": {"expression": expression(rng)}} for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    }
    if rng.random() < 0.1:
        found["selectors"].append({"cel": {"expression": "device."}})
    if rng.random() < 0.3:
        found["extendedResourceName"] = rng.choice(["nvidia.com/gpu", "example.org/any"])
    return {} if rng.random() < 0.05 else found


def ask(rng: random.Random, name: str = NAME) -> Json:
    wanted: Json = {
        "deviceClassName": name,
        "allocationMode": "ExactCount",
        "count": rng.choice([1, 1, 1, 2, 3]),
    }
    if rng.random() < 0.4:
        wanted["selectors"] = [{"cel": {"expression": expression(rng)}}]
    return wanted


def request(rng: random.Random, number: int) -> Json:
    if rng.random() < 0.25:
        parts = [{"name": f"p{i}", **ask(rng, rng.choice([NAME, "other-0"]))} for i in range(2)]
        return {"name": f"r{number}", "firstAvailable": parts}
    return {"name": f"r{number}", "exactly": ask(rng, rng.choice([NAME, NAME, "other-0"]))}


def claim_spec(rng: random.Random) -> Json:
    return {"devices": {"requests": [request(rng, n) for n in range(rng.choice([1, 1, 2]))]}}


def claims(rng: random.Random, slices: list[Json]) -> list[Json]:
    """Some that wait, and some that hold a device or two."""
    made = [
        _object("ResourceClaim", f"waits-{i}", {"spec": claim_spec(rng), "status": {}}) for i in range(12)
    ]
    pieces = [
        (s["spec"]["nodeName"], s["spec"]["driver"], d["name"]) for s in slices for d in s["spec"]["devices"]
    ]
    for number, (at, driver, name) in enumerate(rng.sample(pieces, len(pieces) // 3)):
        spec = claim_spec(rng)
        asked = spec["devices"]["requests"][0]
        request_name = asked["name"] if "exactly" in asked else f"{asked['name']}/p{rng.randrange(2)}"
        result = {"request": request_name, "driver": driver, "pool": at, "device": name}
        status = {"allocation": allocation(result, node=at)}
        made.append(_object("ResourceClaim", f"holds-{number}", {"spec": spec, "status": status}))
    return made


def templates(rng: random.Random) -> list[Json]:
    return [
        _object("ResourceClaimTemplate", f"each-{i}", {"spec": {"spec": claim_spec(rng)}}) for i in range(8)
    ]


def others(rng: random.Random) -> list[Json]:
    """Further classes."""
    return [device_class(f"other-{i}", expression(rng)) for i in range(3)]


def _object(kind: str, name: str, body: dict[str, Any]) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": meta(name, namespace="team"),
        **body,
    }
