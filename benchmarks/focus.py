"""The export as FOCUS at 1,000,000 rows: CSV and Parquet, rows a second, memory; and the check of a file.

    python -m benchmarks.focus [--rows 1000000] [--version 1.4] [--profile]

Runs on SQLite in a temporary directory, or on the empty database that DATABASE_URL names (a throw-away one:
``python -m tests.postgres python -m benchmarks.focus``). Half of the projects have closed their month; each
charge has its interval in the ledger, one in ten is of a share of a device.
"""

import argparse
import resource
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks._bench import clock, desk, load, memory_mib, peak_mib, profiled

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
NEXT_MONTH = datetime(2026, 11, 1, tzinfo=UTC)
PROJECTS = 40
# Eight on each of 5,000 nodes.
DEVICES = 40_000
LOT = 20_000
TARGET_MIB = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--version", default="1.4")
    parser.add_argument("--profile", action="store_true", help="print where the time of the CSV goes")
    options = parser.parse_args()
    missed = False
    with desk() as directory:
        from django.db import connection

        print(f"database: {connection.vendor}; {load()}")
        plant(options.rows)
        for form in ("csv", "parquet"):
            path = Path(directory) / f"focus.{form}"
            profile = options.profile and form == "csv"
            missed |= measure(path, form, options.version, rows=options.rows, profile=profile)
            check(path, options.rows)
        measure_digest(options.version)
        print(f"peak memory {peak_mib():.0f} MiB; {load()}")
    return int(missed)


def dataset(version: str) -> Any:
    from claims.focus.dataset import Dataset
    from claims.focus.wanted import Wanted

    now = NEXT_MONTH + timedelta(days=3)
    wanted = Wanted.parse({"version": version, "period": "2026-10"}, now=now, zone=UTC)
    return Dataset(wanted, zone=UTC, organisation="University of Example", viewer=None, now=now)


def measure(path: Path, form: str, version: str, *, rows: int, profile: bool) -> bool:
    """Whether memory grew by more than the target while the file was written."""
    from claims.focus import files

    before, highest, size = memory_mib(), 0.0, 0
    with clock() as taken, profiled(wanted=profile), path.open("wb") as stream:
        for number, part in enumerate(files.written(dataset(version).rows(), version=version, form=form)):
            stream.write(part)
            size += len(part)
            if number % 20 == 0:
                highest = max(highest, memory_mib())
    print(
        f"{form:8} {rows} rows   {taken}   {rows / taken.wall:,.0f} rows a second, {size / 2**20:.0f} MiB; "
        f"memory {before:.0f} MiB before, at most {highest:.0f} MiB (target: {TARGET_MIB} more)"
    )
    return highest - before > TARGET_MIB


def check(path: Path, rows: int) -> None:
    from claims.focus import rules

    before = memory_mib()
    with clock() as taken:
        violations = sum(1 for _violation in rules.check_file(path))
    if violations:
        raise SystemExit(f"{path.name} violates rules {violations} times")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"check    {path.suffix[1:]} of {rows} rows   {taken}   {rows / taken.wall:,.0f} rows a second; "
        f"memory {before:.0f} → {memory_mib():.0f} MiB (peak so far {peak:.0f})"
    )


def measure_digest(version: str) -> None:
    from claims.focus.metadata import metadata

    with clock() as taken:
        dataset(version).digest()
    print(f"digest for the ETag       {taken}")
    with clock() as taken:
        told = metadata(dataset(version))
    print(f"metadata of {told['x_Rows']} rows {taken}   {len(told['x_Invoices'])} invoices")


# --- what is exported ---------------------------------------------------------------------------


def plant(count: int) -> None:
    from claims.models import PriceBook
    from claims.money import closing
    from claims.money.months import Month
    from inventory.models import Cluster
    from portal import bulk
    from portal.accounts.models import Project, User

    cluster = Cluster.objects.create(name="observed", created_at=MONTH)
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=MONTH)
    projects = [
        Project.objects.create(slug=f"project-{n:02}", name=f"Project {n:02}", created_at=MONTH)
        for n in range(PROJECTS)
    ]
    finance = User.objects.create(username="finance", is_finance=True)
    told = _uses(cluster, book, projects, count)
    with clock() as taken:
        while lot := list(islice(told, LOT)):
            bulk.append([allocation for allocation, _charge in lot])
            bulk.append([charge for _allocation, charge in lot])
    print(f"{count} charges and intervals planted {taken}")
    for project in projects[::2]:
        common: dict[str, Any] = {
            "project": project, "month": Month(2026, 10), "zone": UTC, "actor": finance,
            "now": NEXT_MONTH + timedelta(days=2),
        }  # fmt: skip
        closing.move(**common, action="review")
        closing.close(**common, rated=True)


def _uses(cluster: Any, book: Any, projects: list[Any], count: int) -> Iterator[tuple[Any, Any]]:
    from claims.models import Allocation, Charge
    from claims.money.rating import content_of, source_of

    step = timedelta(days=27) / max(count, 1)
    for number in range(count):
        start = MONTH + number * step
        lasts = timedelta(seconds=60 + number % 86_400, microseconds=number % 1_000_000)
        # Until the same device is taken again, at most: who has one whole has it alone.
        end = start + min(lasts, DEVICES * step)
        common: dict[str, Any] = {
            "claim_uid": f"{number:08x}-0000-4000-8000-000000000000", "epoch": 1, "driver": "gpu.example.com",
            "pool_name": f"node-{number % 5_000:05}", "device_name": f"gpu-{number // 5_000 % 8}",
            "device_class": "gpu.example.com", "product": f"Accelerator {number % 24:02}",
            "hardware_id": f"GPU-{number % DEVICES:08}",
        }  # fmt: skip
        project = projects[number % len(projects)]
        allocation = Allocation(
            cluster=cluster, namespace="group", claim_name=f"claim-{number}", request_name="gpu",
            started_at=start, start_source="allocation", ended_at=end, end_source="release", project=project,
            **common,
        )  # fmt: skip
        natural = {
            **{name: getattr(allocation, name) for name in common}, "cluster_id": cluster.pk, "share_id": "",
            "request_name": "gpu",
        }  # fmt: skip
        charge = Charge(
            kind="usage", source=source_of(natural), month="2026-10", started_us=_us(start),
            ended_us=_us(end), project=project,
            cost_centre=f"CC-{number % 9}", cluster=cluster, book=book, currency="EUR",
            quantity=str(Fraction(1 + number % 3, 7)) if number % 10 == 0 else "1",
            list_micros=2_500_000 + number % 24, discount_micros=125_000 * (number % 2), **common,
        )  # fmt: skip
        charge.content = content_of(charge)
        charge.quantity = Fraction(charge.quantity)
        yield allocation, charge


def _us(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


if __name__ == "__main__":
    sys.exit(main())
