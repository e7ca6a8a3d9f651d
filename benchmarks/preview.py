"""How long the panel beside the form takes over 5,000 nodes: what fits, what is busy, what is impossible,
with everything that the panel tells then.

    python -m benchmarks.preview [--nodes 5000] [--rounds 5]

Runs on SQLite in a temporary directory, or on the server that DATABASE_URL names. Prints the first answer and
the median of the next ones, and the number of queries; exits 1 when a median is beyond 300 ms of processor
time.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks._bench import desk, load, profiled

TARGET_MS = 300
CLASS = "gpu-0.example.com"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    options = parser.parse_args()
    with desk():
        return run(nodes=options.nodes, rounds=options.rounds, profile=options.profile)


def run(*, nodes: int, rounds: int, profile: bool = False) -> int:
    from benchmarks.catalogue import _manifest
    from claims.models import GrowablePool
    from inventory.models import Device, ResourceSlice
    from portal.accounts.models import Membership
    from tests.inventory_pages.factories import (
        bind,
        make_cluster,
        make_fleet,
        make_holders,
        make_project,
        make_user,
    )

    now = _now()
    cluster = make_cluster()
    make_fleet(cluster, nodes=nodes, kinds=40)
    slices = list(ResourceSlice.objects.select_related("pool"))
    for row in slices:
        row.manifest = _manifest(row.name, row.pool.driver, row.pool.name)
    ResourceSlice.objects.bulk_update(slices, ["manifest"], batch_size=500)
    make_holders(cluster, claims=nodes * 4)
    _allocate()
    project = make_project("folding")
    bind(cluster, "folding", project)
    user = make_user("rhea")
    Membership.objects.create(user=user, project=project)
    GrowablePool.objects.create(
        cluster=cluster, name="burst", labels={"pool": "burst"}, max_nodes=4, device_class=CLASS, devices=8,
        changed_at=now,
    )  # fmt: skip
    print(f"{nodes} nodes, {Device.objects.count()} devices; {load()}")
    slow = False
    usual = {"cluster": cluster.name, "device_class": CLASS, "shape": "claim"}
    asked: dict[str, dict[str, str]] = {
        "one device": {"count": "1"},
        "two devices": {"count": "2"},
        "a node's eight (held in part)": {"count": "8"},
        "more than a node has": {"count": "9"},
        "what no device is": {"count": "1", "expression": f'device.driver != "{CLASS}"'},
    }
    for label, values in asked.items():
        with profiled(wanted=profile):
            first, again, queries, verdict = _timed(cluster, user, usual | values, rounds=rounds)
        slow = slow or again > TARGET_MS
        print(f"{label:<34} {verdict:<12} first {first:8.1f} ms, then {again:7.1f} ms, {queries} queries")
    return int(slow)


def _allocate() -> None:
    """Writes into each claim's status what it holds, as the engine reads it."""
    from inventory.models import ClaimDevice

    claims = []
    for held in ClaimDevice.objects.select_related("claim").iterator(chunk_size=2_000):
        result = {
            "request": held.request,
            "driver": held.driver,
            "pool": held.pool_name,
            "device": held.device_name,
        }
        held.claim.status = {"allocation": {"devices": {"results": [result]}}}
        claims.append(held.claim)
    type(claims[0]).objects.bulk_update(claims, ["status"], batch_size=500)


def _timed(
    cluster: Any, user: Any, values: Mapping[str, str], *, rounds: int
) -> tuple[float, float, int, str]:
    """Processor time (ms) of the first answer and the median of the next, queries, and the verdict."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from benchmarks.browse import keep_in_step
    from claims.asks import judging as asks
    from claims.money.pricing import price_list
    from claims.preview.panel import preview
    from inventory.models import Cluster

    whole = {"project": "folding", "duration": "2", "duration_unit": "days", "purpose": "x", **values}
    took: list[float] = []
    with CaptureQueriesContext(connection) as captured:
        for _round in range(rounds + 1):
            keep_in_step(Cluster)
            begun = time.process_time()
            reading = asks.read(whole, user=user, now=_now())
            told = preview(reading, prices=price_list(), now=_now(), viewer=user)
            took.append(1000 * (time.process_time() - begun))
            assert told.in_step, (cluster, told.why)
            assert not told.problem, told.problem
    return took[0], median(took[1:]), len(captured) // (rounds + 1), str(told.verdict)


def _now() -> Any:
    from django.utils import timezone

    return timezone.now()


if __name__ == "__main__":
    sys.exit(main())
