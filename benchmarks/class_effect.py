"""How long the preview of a change of a DeviceClass takes over 100,000 devices: devices gained and lost
first, then with the engine's word on claims that wait.

    python -m benchmarks.class_effect [--nodes 12500] [--rounds 3]

Runs on SQLite in a temporary directory, or on the server that DATABASE_URL names. Prints the first answer and
the median of the next ones; exits 1 when that of what is told at once is beyond 500 ms of processor time.
"""

import argparse
import sys
import time
from statistics import median
from typing import Any

from benchmarks._bench import desk, load, profiled

TARGET_MS = 500
CLASS = "gpu-0.example.com"
WAITING = 300
# As the page does.
LOOKS = 15_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=12_500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    options = parser.parse_args()
    with desk():
        return run(nodes=options.nodes, rounds=options.rounds, profile=options.profile)


def run(*, nodes: int, rounds: int, profile: bool = False) -> int:
    from benchmarks.catalogue import _manifest
    from benchmarks.preview import _allocate
    from inventory.models import Claim, Cluster, Device, ResourceSlice
    from tests.inventory_pages.factories import make_cluster, make_fleet, make_holders

    cluster = make_cluster()
    make_fleet(cluster, nodes=nodes, kinds=40)
    slices = list(ResourceSlice.objects.select_related("pool"))
    for row in slices:
        row.manifest = _manifest(row.name, row.pool.driver, row.pool.name)
    ResourceSlice.objects.bulk_update(slices, ["manifest"], batch_size=500)
    make_holders(cluster, claims=nodes * 4)
    _allocate()
    Claim.objects.bulk_create(
        [
            Claim(
                cluster=cluster, namespace="everything", name=f"waits-{i}", uid=f"waits-{i}",
                resource_version="1", spec=_asking(1 + i % 8),
            )
            for i in range(WAITING)
        ]
    )  # fmt: skip
    Cluster.objects.update(mirror_version=1, fleet_version=1)
    print(f"{nodes} nodes, {Device.objects.count()} devices, {WAITING} claims that wait; {load()}")
    slow = False
    rules = f'device.driver == "{CLASS}"'
    changes = {
        "one kind less": [rules, f'device.attributes["{CLASS}"].productName != "Accelerator 03"'],
        "another driver": ['device.driver == "gpu-1.example.com"'],
        "guarded": [f'"{CLASS}" in device.attributes && device.attributes["{CLASS}"].type == "gpu"'],
        "errs for most": [f'device.attributes["{CLASS}"].type == "gpu"'],
        "one piece": [rules, f'device.attributes["{CLASS}"].uuid == "GPU-000001-0"'],
    }
    for label, expressions in changes.items():
        for with_waiting in (False, True):
            with profiled(wanted=profile):
                first, again, told = _timed(rules, expressions, rounds=rounds, with_waiting=with_waiting)
            if not with_waiting:
                slow = slow or again > TARGET_MS
            what = "with those who wait" if with_waiting else "devices and users"
            print(f"{label:<16} {what:<20} first {first:8.1f} ms, then {again:7.1f} ms: {told}")
    return int(slow)


def _timed(
    rules: str, expressions: list[str], *, rounds: int, with_waiting: bool
) -> tuple[float, float, str]:
    """Processor time (ms) of the first answer and the median of the next, and what was told."""
    from inventory.class_effect import effect_of
    from inventory.models import Cluster

    took: list[float] = []
    for _round in range(rounds + 1):
        begun = time.process_time()
        effect = effect_of(
            cluster=Cluster.objects.get(),
            name=CLASS,
            before=_spec([rules]),
            after=_spec(expressions),
            with_waiting=with_waiting,
            looks=LOOKS,
        )
        took.append(1000 * (time.process_time() - begun))
    told = (
        f"+{effect.gained.count} -{effect.lost.count}, {effect.failing_count} err,"
        f" {effect.keeping.count} keep, {effect.waiting.starting.count} start,"
        f" {effect.waiting.stopping.count} stop"
    )
    return took[0], median(took[1:]), told


def _spec(expressions: list[str]) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}


def _asking(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


if __name__ == "__main__":
    sys.exit(main())
