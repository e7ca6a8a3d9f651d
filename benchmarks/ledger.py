"""The ledger at 1,000,000 rows: folding, audit, archive and rebuild, a month, the history page, streams.

    python -m benchmarks.ledger [--observations 1000000] [--allocations 1000000] [--rounds 20] [--profile]

Runs on SQLite in a temporary directory, or on the empty database that DATABASE_URL names (a throw-away
one: ``python -m tests.postgres python -m benchmarks.ledger``). Every allocation touches the month that is
charged, one in ten holds a share of a device, and the price book changes in the middle of it.
"""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from benchmarks._bench import clock, desk, load, memory_mib, peak_mib, percentile, profiled

if TYPE_CHECKING:
    from claims.models import Allocation
    from inventory.models import Observation

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
NEXT_MONTH = datetime(2026, 11, 1, tzinfo=UTC)
PROJECTS = 40
DEVICES = 40_000
PRODUCTS = [f"Accelerator {number:02}" for number in range(24)]
CLASSES = ["gpu.example.com", "partition.example.com", "nic.example.com"]
# Observations of one claim from its creation to its end.
PER_CLAIM = 5
LOT = 20_000
TARGET_PER_SECOND = 10_000
TARGET_MONTH_SECONDS = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--observations", type=int, default=1_000_000)
    parser.add_argument("--allocations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="print where the time of folding goes")
    options = parser.parse_args()
    with desk():
        from django.db import connection

        print(f"database: {connection.vendor}; {load()}")
        missed = False
        if options.observations:
            missed |= measure_fold(options.observations, profile=options.profile)
        if options.allocations:
            _plant_allocations(options.allocations)
            missed |= measure_month(options.rounds)
            measure_history(options.rounds)
            measure_export()
            measure_api()
        print(f"peak memory {peak_mib():.0f} MiB; {load()}")
    return int(missed)


# --- folding --------------------------------------------------------------------------------------------


def measure_fold(count: int, *, profile: bool) -> bool:
    from claims.ledger import storage
    from claims.models import Allocation, Consumer
    from inventory.models import Cluster
    from portal import bulk

    cluster = Cluster.objects.create(name="observed", created_at=MONTH)
    _plant_project(cluster)
    told = _observations(cluster, count)
    while lot := list(islice(told, LOT)):
        bulk.append(lot)
    analyse()
    before = memory_mib()
    with clock() as taken, profiled(wanted=profile):
        folded = storage.apply(cluster=cluster)
    rate = folded / taken.wall
    print(
        f"fold {folded} observations   {taken}   {rate:,.0f} a second (target {TARGET_PER_SECOND:,}); "
        f"{Allocation.objects.count()} intervals, {Consumer.objects.count()} stays; "
        f"memory {before:.0f} → {memory_mib():.0f} MiB"
    )
    with clock() as taken:
        storage.reattribute(cluster=cluster)
    print(f"look for intervals to attribute    {taken}")
    measure_keeping(cluster)
    _wipe()
    return rate < TARGET_PER_SECOND


def measure_keeping(cluster: Any) -> None:
    """The audit of it all, the archive of the months before, and a rebuild from both."""
    from claims.ledger import archive, storage
    from claims.ledger.audit import audit
    from claims.models import Allocation

    with clock() as taken:
        found = audit(cluster=cluster, now=NEXT_MONTH + timedelta(days=60))
    print(f"audit {found.pieces} devices   {taken}   {len(found.violations)} violations")
    before = list(Allocation.objects.order_by("pk").values_list(*_TOLD)[:1000])
    with clock() as taken:
        month = NEXT_MONTH + timedelta(days=61)
        written = archive.archive(cluster=cluster, before=month, now=month)
    size = sum(one.file.size for one in written) / 2**20
    print(
        f"archive {sum(one.file.rows for one in written)} observations   {taken}   {len(written)} files, "
        f"{size:.0f} MiB; {sum(one.removed for one in written)} rows left the database"
    )
    with clock() as taken:
        folded = storage.rebuild(cluster=cluster)
    if before != list(Allocation.objects.order_by("pk").values_list(*_TOLD)[:1000]):
        raise SystemExit("the rebuilt ledger is another one")
    print(f"rebuild from {folded} observations, archived or not   {taken}")


_TOLD = ("claim_uid", "device_name", "started_at", "ended_at", "hardware_id", "project_id", "contested")


def _plant_project(cluster: Any) -> None:
    from inventory.models import NamespaceBinding
    from portal.accounts.models import Project

    projects = Project.objects.bulk_create(
        [
            Project(slug=f"project-{number:02}", name=f"Project {number:02}", created_at=MONTH)
            for number in range(PROJECTS)
        ]
    )
    NamespaceBinding.objects.bulk_create(
        [
            NamespaceBinding(
                cluster=cluster,
                namespace=f"group-{number:02}",
                project=project,
                valid_from=MONTH - timedelta(days=400),
            )
            for number, project in enumerate(projects)
        ]
    )


def _observations(cluster: Any, count: int) -> "Iterator[Observation]":
    """Lives of claims as a follower would have seen them: hundreds of claims go on at the same time."""
    running = 400
    for first in range(0, count // PER_CLAIM, running):
        for step in range(PER_CLAIM):
            for number in range(first, min(first + running, count // PER_CLAIM)):
                yield _observation(cluster, number, step)


def _observation(cluster: Any, number: int, step: int) -> "Observation":
    from inventory.models import Observation

    kinds = Observation.Kind
    kind = (
        kinds.CLAIM_CREATED,
        kinds.CLAIM_ALLOCATED,
        kinds.CONSUMER_JOINED,
        kinds.CONSUMER_LEFT,
        kinds.CLAIM_DELETED,
    )[step]
    uid = f"claim-{number:08}"
    at = MONTH + timedelta(seconds=number % 2_000_000, microseconds=number % 1_000_000)
    at += timedelta(minutes=20 * step)
    facts: dict[str, Any] = {"epoch": 1}
    if kind == kinds.CLAIM_ALLOCATED:
        facts |= {"node": f"node-{number % 5000:05}", "devices": [_device(number)], "owner_pod_uid": ""}
    elif step in (2, 3):
        facts["consumer"] = {
            "resource": "pods",
            "api_group": "",
            "name": f"pod-{number:08}",
            "uid": f"pod-{number:08}",
        }
    return Observation(
        cluster=cluster,
        kind=kind,
        at=at,
        source=Observation.Source.ALLOCATION if step == 1 else Observation.Source.OBSERVED,
        observed_at=at + timedelta(seconds=1),
        namespace=f"group-{number % PROJECTS:02}",
        name=uid,
        uid=uid,
        facts=facts,
        key=f"{uid}/{step}",
    )


def _device(number: int) -> dict[str, Any]:
    return {
        "driver": "gpu.example.com",
        "pool": f"node-{number % 5000:05}",
        "device": f"gpu-{number % 8}",
        "request": "accelerator",
        "share_id": "",
        "admin_access": False,
        "consumed_capacity": {},
        "device_class": CLASSES[0],
        "hardware_id": f"GPU-{number % 40_000:08}",
        "profile": "",
        "product": PRODUCTS[number % len(PRODUCTS)],
        "capacity": {"memory": {"value": "80Gi"}},
        "node": f"node-{number % 5000:05}",
    }


def _wipe() -> None:
    from django.db import connection

    from claims.models import Allocation, Consumer, LedgerCursor
    from inventory.models import (
        ArchivedObject,
        Cluster,
        NamespaceBinding,
        Observation,
        ObservationArchive,
    )
    from portal.accounts.models import Project

    with connection.cursor() as cursor:
        for model in (
            *(Allocation, Consumer, LedgerCursor, Observation),
            *(ArchivedObject, ObservationArchive),
        ):
            cursor.execute(f"DELETE FROM {model._meta.db_table}")
    NamespaceBinding.objects.all().delete()
    Cluster.objects.all().delete()
    Project.objects.all().delete()
    analyse()


# --- what a full ledger costs ---------------------------------------------------------------------------


def _plant_allocations(count: int) -> None:
    from claims.models import Price, PriceBook
    from inventory.models import Cluster
    from portal import bulk
    from portal.accounts.models import Project

    cluster = Cluster.objects.create(name="full", created_at=MONTH)
    _plant_project(cluster)
    for name, since in (("old", MONTH - timedelta(days=300)), ("new", MONTH + timedelta(days=12, hours=7))):
        book = PriceBook.objects.create(name=name, currency="EUR", valid_from=since)
        prices = [(CLASSES[0], "", "1.25"), ("", PRODUCTS[3], "2.718281"), ("", "", "0.333333")]
        Price.objects.bulk_create(
            [
                Price(book=book, device_class=device_class, product=product, per_hour=Decimal(price))
                for device_class, product, price in prices
            ]
        )
    projects = list(Project.objects.order_by("slug").values_list("pk", flat=True))
    slots = -(-count // DEVICES)
    rows = (_allocation(cluster, projects, number, slots) for number in range(count))
    with clock() as taken:
        while lot := list(islice(rows, LOT)):
            bulk.append(lot)
    analyse()
    print(f"{count} allocations made in {taken.wall:.0f} s")


def _allocation(cluster: Any, projects: list[int], number: int, slots: int) -> "Allocation":
    from claims.models import Allocation

    # One after the other on each device, with a few that begin before the month or still run.
    slot, device = divmod(number, DEVICES)
    width = (NEXT_MONTH - MONTH) / slots
    offset = slot * width + width / 20 * (number * 7919 % 1_000 / 1_000)
    started = MONTH + offset - timedelta(hours=8 if slot == 0 and number % 3 == 0 else 0)
    length = width * (0.3 + 0.6 * (number * 104_729 % 1_000 / 1_000)) + timedelta(microseconds=number % 999)
    running = slot == slots - 1 and number % 4 == 0
    shared = number % 10 == 0
    uid = f"claim-{number:08}"
    return Allocation(
        cluster=cluster,
        # A few are of nobody known: their namespace is bound to no project.
        namespace=f"group-{number % PROJECTS:02}" if number % 97 else "nobody",
        claim_name=uid,
        claim_uid=uid,
        epoch=1,
        driver="gpu.example.com",
        pool_name=f"node-{device % 5000:05}",
        device_name=f"gpu-{device // 5000}",
        share_id=f"share-{number}" if shared else "",
        request_name="accelerator",
        admin_access=number % 1000 == 1,
        node_name=f"node-{device % 5000:05}",
        hardware_id=f"GPU-{device:08}",
        device_class=CLASSES[number % len(CLASSES)],
        product=PRODUCTS[number * 31 % len(PRODUCTS)],
        consumed_capacity={"memory": f"{number % 7 + 1}0Gi"} if shared else {},
        capacity={"memory": {"value": "80Gi"}},
        started_at=started,
        start_source="allocationTimestamp",
        ended_at=None if running else started + length,
        end_source="" if running else "observed",
        project_id=projects[number % len(projects)] if number % 97 else None,
    )


def measure_month(rounds: int) -> bool:
    """The database's sums, and the pure path that they stand for; both must say the same."""
    from claims.models import Allocation
    from claims.money.charges import charges, usages
    from claims.money.pricing import price_list, statement

    now = NEXT_MONTH + timedelta(days=3)
    times, busy = [], []
    for _round in range(max(2, rounds // 4)):
        with clock() as taken:
            told = charges(start=MONTH, end=NEXT_MONTH, now=now)
        times.append(taken.wall)
        busy.append(taken.cpu)
    with clock() as pure:
        rows = Allocation.objects.filter(started_at__lt=NEXT_MONTH)
        expected = statement(usages(rows), price_list(), start=MONTH, end=NEXT_MONTH, now=now)
    if told != expected:
        raise SystemExit("the two ways to rate a month disagree")
    intervals = sum(line.count for line in told.lines)
    print(
        f"month by project   p50 {percentile(times, 50):.2f} s, p95 {percentile(times, 95):.2f} s, "
        f"{percentile(busy, 50):.2f} s of our processor time (target {TARGET_MONTH_SECONDS:.0f} s): "
        f"{intervals} segments in {len(told.lines)} lines; the same in Python, row by row: {pure.wall:.1f} s"
    )
    return percentile(times, 50) > TARGET_MONTH_SECONDS


def measure_history(rounds: int) -> None:
    from django.test import Client

    from portal.accounts.models import User

    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create(username="reader", password="!"))
    views = {
        "first page": "",
        "page 1000": "page=1000",
        "last page": "page=999999",
        "one project": "project=project-07",
        "one node": "node=node-00077",
        "one device": "device=GPU-00000123",
        "a day": "from=2026-10-07&to=2026-10-07",
        "still running": "running=1",
    }
    for name, query in views.items():
        times = []
        for _round in range(rounds):
            with clock() as taken:
                answer = client.get(f"/history/?{query}")
            assert answer.status_code == 200, answer.status_code
            times.append(1000 * taken.wall)
        print(f"history, {name:14} p50 {percentile(times, 50):7.1f} ms  p95 {percentile(times, 95):7.1f} ms")


def measure_export() -> None:
    from django.test import Client

    from portal.accounts.models import User

    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create(username="exporter", password="!"))
    answer: Any = client.get("/history.csv")
    assert answer.status_code == 200, answer.status_code
    lines = size = 0
    before, highest = memory_mib(), 0.0
    with clock() as taken:
        for part in answer.streaming_content:
            lines += 1
            size += len(part)
            if lines % 20_000 == 0:
                highest = max(highest, memory_mib())
    print(
        f"CSV of {lines - 2} rows   {taken}   {size / 2**20:.0f} MiB; "
        f"memory {before:.0f} MiB before, at most {max(highest, before):.0f} MiB"
    )


def measure_api() -> None:
    """The same over REST: a page, and all of it as a stream."""
    from django.test import Client

    from portal.accounts.models import User

    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create(username="program", password="!", is_auditor=True))
    times = []
    for _round in range(5):
        with clock() as taken:
            page = client.get("/api/v1/allocations/?limit=1000&project=project-07&from=2026-10-07")
        assert page.status_code == 200, page.status_code
        times.append(1000 * taken.wall)
    print(f"REST, 1000 rows of a project   p50 {percentile(times, 50):.0f} ms")
    for form in ("ndjson", "csv"):
        answer: Any = client.get(f"/api/v1/allocations/?format={form}")
        assert answer.status_code == 200, answer.status_code
        size, before, highest = 0, memory_mib(), 0.0
        with clock() as taken:
            for number, part in enumerate(answer.streaming_content):
                size += len(part)
                if number % 200 == 0:
                    highest = max(highest, memory_mib())
        print(
            f"REST, all rows as {form}   {taken}   {size / 2**20:.0f} MiB; memory {before:.0f} MiB before, "
            f"at most {max(highest, before):.0f} MiB"
        )
        again = client.get(f"/api/v1/allocations/?format={form}", headers={"if-none-match": answer["ETag"]})
        assert again.status_code == 304, again.status_code


def analyse() -> None:
    """What a database does by itself a minute after such a load."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


if __name__ == "__main__":
    sys.exit(main())
