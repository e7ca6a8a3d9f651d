"""Random clusters and asks: nodes in every condition, devices of every kind, holders, flavors.

Everything is plain data with a readable repr: what a failing test shows is what is on the cluster.
"""

from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st

Json = dict[str, Any]

GPU, NIC = "gpu.example.com", "nic.example.com"
UNIT = "example.com/unit"
DEDICATED = {"key": "dedicated", "value": "folding", "effect": "NoSchedule"}
BROKEN = "example.com/broken"
MEMORY = ("40Gi", "80Gi")
CLASSES: dict[str, list[str]] = {
    "whole": [f'device.driver == "{GPU}" && device.attributes["{GPU}"].kind == "whole"'],
    "part": [f'device.driver == "{GPU}"', f'device.attributes["{GPU}"].kind == "part"'],
    "shared": [f'device.driver == "{GPU}" && device.allowMultipleAllocations'],
    "anything": [f'device.driver == "{GPU}"'],
    "nic": [f'device.driver == "{NIC}"'],
    "ghost": ['device.driver == "nobody.example.com"'],
}


@dataclass(frozen=True)
class Machine:
    """A node, what is published of it, and what its Device Plugin advertises."""

    pool: str = "blue"
    cordoned: bool = False
    ready: str = "True"
    taint: str = ""
    whole: tuple[tuple[str, int, str], ...] = ()  # (memory, NUMA node, effect of a taint or "")
    halves: int = 0  # partitionable GPUs: one whole, or two halves of it
    shared: int = 0
    nics: int = 0
    complete: bool = True
    outdated: bool = False
    units: int = 0


@dataclass(frozen=True)
class Rule:
    """A DeviceTaintRule for the pool of one node, or for one device of every pool."""

    node: int
    device: str
    effect: str


@dataclass(frozen=True)
class Holder:
    """A Pod with a claim (or with units) that comes before the ask; it may find no place itself."""

    what: str
    count: int = 1
    share: str = ""


@dataclass(frozen=True)
class Flavored:
    """How the flavor that is asked for is served."""

    device_class: str = "whole"
    resource: str = ""
    stage: str = "automatic"
    pool: str = ""
    tolerates: bool = False
    tolerates_broken: bool = False
    selector: str = ""


@dataclass(frozen=True)
class World:
    machines: tuple[Machine, ...]
    rules: tuple[Rule, ...] = ()
    holders: tuple[Holder, ...] = ()
    network: int = 0  # devices of a pool that every node of "blue" reaches
    # The class of whole GPUs stands in for the units of Device Plugins.
    stands_in: bool = False
    flavored: Flavored | None = None
    ask: dict[str, Any] = field(default_factory=dict)


# `sampled_from` throughout: numbers would mostly be small or at a bound.


def rarely(one_in: int) -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * (one_in - 1) + [True])


def several(of: st.SearchStrategy[Any], number: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Exactly so many: lists of any length would mostly be short."""
    return st.tuples(*[of] * number)


machines = st.builds(
    Machine,
    pool=st.sampled_from(["blue", "blue", "red"]),
    cordoned=rarely(8),
    ready=st.sampled_from(["True"] * 10 + ["False", "Unknown"]),
    taint=st.sampled_from([""] * 6 + ["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    whole=st.sampled_from([0, 1, 2, 3]).flatmap(
        lambda number: several(
            st.tuples(
                st.sampled_from(MEMORY),
                st.sampled_from([0, 1]),
                st.sampled_from([""] * 7 + ["NoSchedule", "NoExecute", "None"]),
            ),
            number,
        )
    ),
    halves=st.sampled_from([0, 0, 1, 2]),
    shared=st.sampled_from([0, 0, 1, 2]),
    nics=st.sampled_from([0, 1, 2]),
    complete=st.sampled_from([True] * 6 + [False]),
    outdated=rarely(8),
    units=st.sampled_from([0, 0, 2, 4]),
)
rules = st.builds(
    Rule,
    node=st.sampled_from([0, 1, 9]),
    device=st.sampled_from(["", "whole-0", "shared-0"]),
    effect=st.sampled_from(["NoSchedule", "NoExecute", "None"]),
)
holders = st.builds(
    Holder,
    what=st.sampled_from(["whole", "whole", "part", "shared", "anything", "nic", UNIT]),
    count=st.sampled_from([1, 1, 2, 3]),
    share=st.sampled_from(["", "10Gi", "50Gi"]),
)
flavors = st.builds(
    Flavored,
    device_class=st.sampled_from(["whole", "whole", "part", "shared", "anything", "", ""]),
    resource=st.sampled_from(["", UNIT]),
    stage=st.sampled_from(["automatic", "device-plugin", "dra"]),
    pool=st.sampled_from(["", "", "", "blue", "red"]),
    tolerates=st.booleans(),
    tolerates_broken=st.booleans(),
    selector=st.sampled_from(
        [
            *("", ""),
            f'"numa" in device.attributes["{GPU}"] && device.attributes["{GPU}"].numa == 0',
            f'device.attributes["{GPU}"].uuid.endsWith("-0")',
        ]
    ),
).filter(lambda one: bool(one.device_class or one.resource))


@st.composite
def asks(draw: st.DrawFn, *, flavored: bool) -> Json:
    """The values of a form."""
    ask: Json = {
        "count": str(draw(st.sampled_from([1, 1, 1, 2, 2, 3]))),
        "shape": draw(st.sampled_from(["claim", "template"])),
        "min_memory": draw(st.sampled_from(["", "", "", "40Gi", "60Gi"])),
    }
    if not flavored:
        ask["device_class"] = draw(st.sampled_from(["whole", "whole", "part", "shared", "anything", "nic"]))
    extra = draw(st.sampled_from(["", "", "", "alternatives", "parts", "same", "different", "share", "more"]))
    match extra:
        case "alternatives":
            ask["alternatives"] = draw(st.sampled_from(["1 × second", "2 × second", "1 × second\n1 × third"]))
        case "parts":
            ask["parts"] = draw(st.sampled_from(["1 × nic", "2 × nic", "1 × part"]))
        case "same" | "different":
            ask[extra] = draw(st.sampled_from([f"{GPU}/numa", "resource.kubernetes.io/pcieRoot"]))
        case "share":
            ask["share"] = draw(st.sampled_from(["memory=10Gi", "memory=40Gi", "memory=79Gi"]))
        case "more":
            ask["tolerations"] = draw(st.sampled_from(["", f"{BROKEN}:NoSchedule", f"{BROKEN}:NoExecute"]))
            ask["expression"] = draw(
                st.sampled_from(["", f'device.driver == "{GPU}" && !device.allowMultipleAllocations'])
            )
    return ask


@st.composite
def worlds(draw: st.DrawFn) -> World:
    flavored = draw(flavors) if draw(st.booleans()) else None
    return World(
        machines=draw(st.sampled_from([1, 2, 2, 3, 3]).flatmap(lambda number: several(machines, number))),
        rules=draw(st.sampled_from([0, 0, 0, 1]).flatmap(lambda number: several(rules, number))),
        holders=draw(st.sampled_from([0, 1, 2, 3]).flatmap(lambda number: several(holders, number))),
        network=draw(st.sampled_from([0, 0, 0, 2])),
        stands_in=draw(st.booleans()),
        flavored=flavored,
        ask=draw(asks(flavored=flavored is not None)),
    )


# --- as objects -------------------------------------------------------------------------------------


def objects(world: World) -> list[Json]:
    """What administrators and drivers have put on the cluster; holders come later, by the scheduler."""
    found: list[Json] = [_class(name, expressions, world) for name, expressions in CLASSES.items()]
    for number, machine in enumerate(world.machines):
        found += [_node(number, machine), *_slices(number, machine)]
    if world.network:
        found.append(_network(world.network))
    found += [_rule(number, rule, world) for number, rule in enumerate(world.rules)]
    return found


def _class(name: str, expressions: list[str], world: World) -> Json:
    spec: Json = {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}
    if name == "whole" and world.stands_in:
        spec["extendedResourceName"] = UNIT
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def _node(number: int, machine: Machine) -> Json:
    taints = [{**DEDICATED, "effect": machine.taint}] if machine.taint else []
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    if machine.units:
        amounts[UNIT] = str(machine.units)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"n{number}",
            "labels": {"kubernetes.io/hostname": f"n{number}", "pool": machine.pool},
        },
        "spec": {"unschedulable": machine.cordoned, "taints": taints},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": machine.ready, "lastTransitionTime": "2026-03-01T08:00:00Z"}
            ],
        },
    }


def _slices(number: int, machine: Machine) -> list[Json]:
    node = f"n{number}"
    gpus = [_whole(node, index, *one) for index, one in enumerate(machine.whole)]
    gpus += [_shared(node, index) for index in range(machine.shared)]
    counters, parts = _partitions(node, machine.halves)
    found = []
    if gpus or parts:
        pieces: list[Json] = [{"devices": gpus}] if gpus else []
        if parts:
            # Counters and the devices that use them are published in slices of their own.
            pieces += [{"sharedCounters": counters}, {"devices": parts}]
        count = len(pieces) + (0 if machine.complete else 1)
        pool = {"name": node, "generation": 2, "resourceSliceCount": count}
        found += [
            _slice(f"{node}-gpu-{index}", GPU, pool, nodeName=node, **piece)
            for index, piece in enumerate(pieces)
        ]
    if machine.outdated:
        old = {"name": node, "generation": 1, "resourceSliceCount": 1}
        gone = [_whole(node, index, "80Gi", 0, "") for index in range(3)]
        found.append(_slice(f"{node}-old", GPU, old, nodeName=node, devices=gone))
    if machine.nics:
        pool = {"name": f"{node}-nics", "generation": 1, "resourceSliceCount": 1}
        nics = [
            {"name": f"nic-{index}", "attributes": {"resource.kubernetes.io/pcieRoot": {"string": "pci0"}}}
            for index in range(machine.nics)
        ]
        found.append(_slice(f"{node}-nics", NIC, pool, nodeName=node, devices=nics))
    return found


def _whole(node: str, index: int, memory: str, numa: int, taint: str) -> Json:
    made: Json = {
        "name": f"whole-{index}",
        "attributes": {
            "kind": {"string": "whole"},
            "uuid": {"string": f"{node}-{index}"},
            "numa": {"int": numa},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci{index % 2}"},
        },
        "capacity": {"memory": {"value": memory}},
    }
    if taint:
        made["taints"] = [{"key": BROKEN, "effect": taint, "timeAdded": "2026-03-01T08:00:00Z"}]
    return made


def _shared(node: str, index: int) -> Json:
    return {
        "name": f"shared-{index}",
        "allowMultipleAllocations": True,
        "attributes": {"kind": {"string": "shared"}, "uuid": {"string": f"{node}-s{index}"}},
        "capacity": {"memory": {"value": "80Gi"}},
    }


def _partitions(node: str, number: int) -> tuple[list[Json], list[Json]]:
    counters: list[Json] = []
    devices: list[Json] = []
    for index in range(number):
        counters.append({"name": f"card-{index}", "counters": {"memory": {"value": "80Gi"}}})
        for name, amount in (("full", "80Gi"), ("left", "40Gi"), ("right", "40Gi")):
            devices.append(
                {
                    "name": f"card-{index}-{name}",
                    "attributes": {
                        "kind": {"string": "part"},
                        "uuid": {"string": f"{node}-{index}-{name}"},
                        "resource.kubernetes.io/pcieRoot": {"string": f"pci{index}"},
                    },
                    "capacity": {"memory": {"value": amount}},
                    "consumesCounters": [
                        {"counterSet": f"card-{index}", "counters": {"memory": {"value": amount}}}
                    ],
                }
            )
    return counters, devices


def _network(number: int) -> Json:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["blue"]}]}
    devices = [_whole("network", index, "80Gi", index, "") for index in range(number)]
    pool = {"name": "network", "generation": 1, "resourceSliceCount": 1}
    return _slice("network", GPU, pool, nodeSelector={"nodeSelectorTerms": [term]}, devices=devices)


def _slice(name: str, driver: str, pool: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": pool, **spec},
    }


def _rule(number: int, rule: Rule, world: World) -> Json:
    where: Json = {"driver": GPU}
    if rule.device:
        where["device"] = rule.device
    if rule.node < len(world.machines):
        where["pool"] = f"n{rule.node}"
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"rule-{number}"},
        "spec": {"deviceSelector": where, "taint": {"key": BROKEN, "effect": rule.effect}},
    }
