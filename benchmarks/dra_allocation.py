"""How long device semantics take on large fleets: `python -m benchmarks.dra_allocation` (targets in the
design).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.dra_fleets import DRIVER, FEATURES, ask, claim, cluster, device, device_class, node, slice_for
from portal.dra.allocator import allocate
from portal.dra.cluster import feasible_nodes, how_many_more
from portal.dra.explain import explain
from portal.dra.fleet import Fleet
from portal.dra.matching import BadExpression

ATTRIBUTE = f"device.attributes['{DRIVER}']"
BIG = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"


def measured(label: str, work: Callable[[], Any], target: float | None = None) -> Any:
    """Run once and print the processor time it took, with the target where there is one."""
    started = time.process_time()
    result = work()
    took = time.process_time() - started
    print(f"{label:<72} {took:8.3f} s{'' if target is None else f'   (target {target} s)'}")
    return result


def matches(fleet: Fleet, expression: str) -> int:
    """How many devices match."""
    found = fleet.match(expression)
    assert not isinstance(found, BadExpression), found
    return sum(item.verdict.matches for item in found)


def matching() -> None:
    slices = [
        slice_for(f"n{i:04}", [device(i * 100 + j, kind=i % 40) for j in range(100)]) for i in range(1000)
    ]
    build = lambda: Fleet.build(slices=slices, classes=[device_class()], features=FEATURES)  # noqa: E731 - a step to be timed
    fleet = measured("snapshot of 100,000 devices", build)
    list(fleet.devices())
    found = f"{ATTRIBUTE}.productName == 'Model 7' && {BIG}"
    count = measured(
        "match 100,000 devices of 40 kinds",
        lambda: matches(fleet, found),
        0.3,
    )
    print(f"    {count} match")
    measured(
        "match 100,000 devices by an attribute that identifies each",
        lambda: matches(fleet, f"{ATTRIBUTE}.uuid.endsWith('77')"),
    )


def many_kinds() -> None:
    slices = [
        slice_for(f"n{i:04}", [device(i * 10 + j, kind=i * 10 + j) for j in range(10)]) for i in range(1000)
    ]
    fleet = Fleet.build(slices=slices, classes=[device_class()], features=FEATURES)
    expression = f"{ATTRIBUTE}.productName.contains('99') && {BIG}"
    measured("match 10,000 devices, each of its own kind", lambda: matches(fleet, expression))


def preview() -> None:
    fleet = measured(
        "snapshot of 5,000 nodes with 8 devices, 95 % held", lambda: cluster(5000, 8, kinds=40, held=0.95)
    )
    wanted = claim(ask("r", f"{ATTRIBUTE}.architecture == 'Hopper'", BIG))
    found = measured("first preview over 5,000 nodes", lambda: feasible_nodes(fleet, [wanted]), 0.3)
    print(f"    feasible on {len(found.nodes)} nodes")
    measured("the same preview again", lambda: feasible_nodes(fleet, [wanted]), 0.3)
    two = claim(ask("r", BIG, count=2), constraints=[{"matchAttribute": f"{DRIVER}/productName"}])
    measured("another preview (two that match in an attribute)", lambda: feasible_nodes(fleet, [two]), 0.3)
    room = measured("how many more such claims", lambda: how_many_more(fleet, wanted))
    print(f"    {room.count} more")
    nine = claim(ask("r", count=9))
    measured("explain a claim that fits nowhere", lambda: explain(fleet, nine))


def network() -> None:
    pools = [
        slice_for(
            f"rack-{i:02}",
            [device(i * 100 + j, kind=i % 4) for j in range(100)],
            nodeName=None,
            allNodes=True,
        )
        for i in range(100)
    ]
    hosts = []
    for i in range(80):
        parts = [{**device(i * 64 + j, kind=i % 4), "nodeName": f"node-{i * 64 + j:05}"} for j in range(64)]
        pool = {"name": "hosts", "generation": 1, "resourceSliceCount": 80}
        hosts.append(slice_for(f"hosts-{i:02}", parts, nodeName=None, perDeviceNodeSelection=True, pool=pool))
    fleet = Fleet.build(
        slices=[*pools, *hosts],
        classes=[device_class()],
        nodes=[node(f"node-{i:05}") for i in range(5000)],
        features=FEATURES,
    )
    wanted = claim(ask("r", f"{ATTRIBUTE}.productName == 'Model 3'", count=2))
    measured("preview: 10,000 network devices seen by 5,000 nodes", lambda: feasible_nodes(fleet, [wanted]))
    room = measured("how many more of them", lambda: how_many_more(fleet, wanted))
    print(f"    {room.count} more")


def backtracking() -> None:
    parts = []
    for gpu in range(8):
        for index in range(16):
            part = device(gpu * 16 + index, kind=gpu)
            part["consumesCounters"] = [
                {"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": f"{index % 4 + 1}"}}}
            ]
            parts.append(part)
    shared = [{"name": f"gpu-{gpu}", "counters": {"memory": {"value": "7"}}} for gpu in range(8)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 3}
    slices = [
        slice_for("a-counters", [], sharedCounters=shared, pool=pool, nodeName="n"),
        slice_for("b-parts", parts[:64], pool=pool, nodeName="n"),
        slice_for("c-parts", parts[64:], pool=pool, nodeName="n"),
    ]
    fleet = Fleet.build(slices=slices, classes=[device_class()], nodes=[node("n")], features=FEATURES)
    for count in (8, 24, 32):
        outcome = measured(
            f"{count} of 128 partitions on 8 devices",
            partial(allocate, fleet, node="n", claims=[claim(ask(count=count))]),
        )
        print(f"    {type(outcome).__name__}")
    hopeless = claim(
        ask("many", count=12), ask("never", f"{ATTRIBUTE}.uuid == 'none'"),
        constraints=[{"requests": ["many"], "distinctAttribute": f"{DRIVER}/uuid"}],
    )  # fmt: skip
    outcome = measured(
        "12 of 128 partitions, then one that does not exist",
        lambda: allocate(fleet, node="n", claims=[hopeless]),
    )
    print(f"    {type(outcome).__name__}")
    too_many = [claim(ask(count=32), name="first"), claim(ask(count=9), name="second")]
    outcome = measured(
        "41 of 128 partitions, one more than there are counters for (step limit)",
        lambda: allocate(fleet, node="n", claims=too_many),
    )
    print(f"    {type(outcome).__name__}")


if __name__ == "__main__":
    matching()
    many_kinds()
    preview()
    network()
    backtracking()
