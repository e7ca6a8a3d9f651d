"""How long it takes to judge a large cluster by every rule, and which rules take it.

    python -m benchmarks.findings [--devices 100000] [--claims 50000] [--rounds 3]

Makes a fleet of that size in which nearly everything is well: every claim is allocated and in use by a Pod
of a Job. SQLite in a temporary directory, or a database of its own on the server that DATABASE_URL names.
The first evaluation stores what it finds, the others find the same again. Exits 1 when the median of those
is over the target.
"""

import argparse
import sys
import time
from collections import defaultdict
from datetime import timedelta
from itertools import islice
from statistics import median
from typing import Any

from benchmarks._bench import clock, desk, load, peak_mib, profiled

TARGET_SECONDS = 1.5
AT_ONCE = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--claims", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    with desk():
        return measure(options)


def measure(options: argparse.Namespace) -> int:
    from django.db import connection
    from django.utils import timezone

    from inventory.findings import evaluation
    from inventory.findings.thresholds import Thresholds
    from inventory.models import Cluster, Finding, Stream

    cluster = make(devices=options.devices, claims=options.claims)
    times: list[float] = []
    by_rule: defaultdict[str, float] = defaultdict(float)
    judge = evaluation.judge

    def timed(rule: Any, facts: Any) -> Any:
        began = time.perf_counter()
        try:
            return judge(rule, facts)
        finally:
            by_rule[rule.kind] += time.perf_counter() - began

    for number in range(options.rounds + 1):
        Cluster.objects.update(contacted_at=timezone.now())
        Stream.objects.update(heard_at=timezone.now())
        cluster.refresh_from_db()
        by_rule.clear()
        evaluation.judge = timed
        with clock() as taken, profiled(wanted=options.profile and number == options.rounds):
            evaluation.evaluate(cluster=cluster, now=timezone.now(), thresholds=Thresholds())
        print(
            f"{'first' if not number else 'again':8} {taken}   {Finding.objects.count()} findings", flush=True
        )
        times.append(taken.wall)
    for kind, seconds in sorted(by_rule.items(), key=lambda entry: -entry[1])[:8]:
        print(f"  {kind:32} {seconds:6.2f} s")
    again = median(times[1:])
    print(
        f"{options.devices} devices, {options.claims} claims, {connection.vendor}: {again:.2f} s "
        f"(target {TARGET_SECONDS} s)   peak memory {peak_mib():.0f} MiB   {load()}"
    )
    return int(again > TARGET_SECONDS)


def make(*, devices: int, claims: int) -> Any:
    """A cluster in step with that many devices, and claims that hold one each."""
    from django.db import transaction
    from django.utils import timezone

    from inventory.mirror.writer import Writer
    from inventory.models import Claim, ClaimDevice, Device, Pod, Stream
    from portal import bulk
    from portal.dra.features import Features
    from tests.inventory_pages.factories import make_cluster, make_fleet

    now = timezone.now()
    cluster = make_cluster()
    resources = Writer(cluster_id=cluster.pk, holder="", features=Features.for_version("1.36")).resources
    Stream.objects.bulk_create(
        [
            Stream(cluster=cluster, resource=name, state="watching", listed_at=now, heard_at=now)
            for name in resources
        ],
        ignore_conflicts=True,
    )
    make_fleet(cluster, nodes=devices // 8, kinds=24)
    every = Device.objects.select_related("pool").order_by("pk")
    taken = every.iterator(chunk_size=AT_ONCE)
    number = 0
    while number < claims and (some := list(islice(taken, min(AT_ONCE, claims - number)))):
        with transaction.atomic():
            _hold(cluster, some, number, now=now, models=(Claim, ClaimDevice, Pod), bulk=bulk)
        number += len(some)
    Device.objects.filter(holds__isnull=False).update(state=Device.State.HELD)
    return cluster


def _hold(cluster: Any, devices: Any, number: int, *, now: Any, models: Any, bulk: Any) -> None:
    claim_model, result_model, pod_model = models
    began = now - timedelta(hours=3)
    claims, pods = [], []
    for at, device in enumerate(devices, start=number):
        place = {"cluster_id": cluster.pk, "namespace": f"team-{at % 200}", "resource_version": str(at)}
        pod_uid, job = f"pod-{at:06d}", f"train-{at // 8}"
        claims.append(
            claim_model(
                **place,
                name=f"{job}-{at % 8}-gpu",
                uid=f"claim-{at:06d}",
                spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
                status={
                    "allocation": {
                        "devices": {"results": [{"pool": device.pool.name, "device": device.name}]}
                    },
                    "reservedFor": [{"resource": "pods", "name": f"{job}-{at % 8}", "uid": pod_uid}],
                },
                created_at=began,
                allocated=True,
                epoch=1,
                allocated_at=began,
                node_name=device.node_name,
                owner_pod_uid=pod_uid,
            )
        )
        pods.append(
            pod_model(
                **place,
                name=f"{job}-{at % 8}",
                uid=pod_uid,
                phase="Running",
                node_name=device.node_name,
                created_at=began,
                scheduled_at=began,
                started_at=began,
                claim_names={"gpu": f"{job}-{at % 8}-gpu"},
                owner_kind="Job",
                owner_name=job,
                owner_uid=f"job-{at // 8}",
            )
        )
    bulk.create(claims)
    bulk.create(pods)
    bulk.create(
        [
            result_model(
                claim_id=claim.pk,
                driver=device.pool.driver,
                pool_name=device.pool.name,
                device_name=device.name,
                device_id=device.pk,
                request="gpu",
                identified=True,
            )
            for claim, device in zip(claims, devices, strict=True)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
