"""A month of 40,000 devices as money: rating, the same again, questions of it, streams, rows and bytes.

    python -m benchmarks.money [--allocations 1000000] [--rounds 20]

On SQLite, or on the database server that DATABASE_URL names (see `benchmarks.ledger`, whose month it is).
Fails where a target is missed, where rating again writes anything, or where two ways to ask disagree.
"""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC
from typing import Any

from benchmarks._bench import clock, desk, load, memory_mib, peak_mib, percentile
from benchmarks.ledger import DEVICES, MONTH, _plant_allocations, analyse

TARGET_MONTH_MS, TARGET_HOURS_MS = 1_000, 200
# Of what a stream holds at a time, whatever its size.
TARGET_GROWTH_MIB = 64
API = "/api/v1"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--allocations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    # Months begin where those of the planted one do.
    os.environ["CLAIMDESK_ORGANISATION_ZONE"] = "UTC"
    with desk():
        from django.db import connection

        print(f"database: {connection.vendor}; {load()}")
        _plant_allocations(options.allocations)
        measure_rating()
        missed = measure_questions(options.rounds)
        missed |= measure_streams()
        tell_sizes(options.allocations)
        print(f"peak memory {peak_mib():.0f} MiB; {load()}")
    return int(missed)


def measure_rating() -> None:
    from claims.models import ChargeDay
    from claims.money import rollup
    from claims.money.months import Month
    from claims.money.rated import rate_month

    month = Month.of(MONTH, UTC)
    with clock() as taken:
        told = rate_month(month=month, zone=UTC)
    print(f"rate {told.charges} charges   {taken}")
    analyse()
    with clock() as taken:
        again = rate_month(month=month, zone=UTC)
    if not again.nothing:
        raise SystemExit(f"rated again, it is another: {again}")
    print(f"rate them again: nothing to write   {taken}")
    with clock() as taken:
        rollup.refresh(zone=UTC)
    print(f"add them up by day   {taken}   {ChargeDay.objects.count()} rows")
    analyse()


def measure_questions(rounds: int) -> bool:
    """A month by project as it is asked over REST, by its days and by the charges; hours of one project."""
    from claims.models import ChargeMonth

    client = _client()
    days = f"from={MONTH:%Y-%m-%d}&to={MONTH:%Y-%m}-31"
    questions = {
        "month by project, as billed": (f"billed={MONTH:%Y-%m}&group_by=project", TARGET_MONTH_MS),
        "month by project, by its time": (f"{days}&group_by=project", TARGET_MONTH_MS),
        "month by day and product": (f"{days}&group_by=day,product", 0),
        "hours of a day, one project": (
            f"from={MONTH:%Y-%m}-07&to={MONTH:%Y-%m}-07&group_by=hour&project=project-07",
            TARGET_HOURS_MS,
        ),
        "hours of a month, one project": (f"{days}&group_by=hour&project=project-07", TARGET_HOURS_MS),
    }
    missed, told = False, {}
    for name, (query, target) in questions.items():
        told[name], walls, cpus = _asked(lambda query=query: client.get(f"{API}/usage/?{query}"), rounds)  # type: ignore[misc] # bound now
        wall, cpu = percentile(walls, 50), percentile(cpus, 50)
        missed |= bool(target) and cpu > target
        aim = f" (target {target} ms)" if target else ""
        print(
            f"{name:30} p50 {wall:8.1f} ms, p95 {percentile(walls, 95):8.1f} ms, of our processor time p50 "
            f"{cpu:.1f} ms{aim}"
        )
    ChargeMonth.objects.update(fresh=False)
    query = questions["month by project, by its time"][0]
    slow, walls, _cpus = _asked(lambda: client.get(f"{API}/usage/?{query}"), 2)
    ChargeMonth.objects.update(fresh=True)
    if slow["totals"] != told["month by project, by its time"]["totals"]:
        raise SystemExit("days and charges disagree")
    print(f"{'the same without days':30} p50 {percentile(walls, 50):8.1f} ms: the same to the last digit")
    return missed


def _asked(ask: Callable[[], Any], rounds: int) -> tuple[Any, list[float], list[float]]:
    walls, cpus = [], []
    for _round in range(max(2, rounds)):
        with clock() as taken:
            answer = ask()
        assert answer.status_code == 200, answer.status_code
        walls.append(1000 * taken.wall)
        cpus.append(1000 * taken.cpu)
    return answer.json(), walls, cpus


def measure_streams() -> bool:
    """Everything there is, in memory that does not grow with it."""
    client, missed = _client(), False
    for path in (f"{API}/charges/", f"{API}/allocations/"):
        for form in ("ndjson", "csv"):
            period = f"billed={MONTH:%Y-%m}&" if "charges" in path else ""
            answer: Any = client.get(f"{path}?{period}format={form}")
            assert answer.status_code == 200, answer.status_code
            lines = size = 0
            parts = iter(answer.streaming_content)
            first = next(parts)
            lines, size, before, highest = first.count(b"\n"), len(first), memory_mib(), 0.0
            with clock() as taken:
                for number, part in enumerate(parts):
                    lines, size = lines + part.count(b"\n"), size + len(part)
                    if number % 200 == 0:
                        highest = max(highest, memory_mib())
            grown = max(0.0, highest - before)
            missed |= grown > TARGET_GROWTH_MIB
            print(
                f"{path} as {form}: {lines} rows   {taken}   {size / 2**20:.0f} MiB; memory grew by "
                f"{grown:.0f} MiB"
            )
    return missed


def tell_sizes(allocations: int) -> None:
    """What a month takes of the database."""
    from django.db import connection

    from claims.models import Allocation, Charge, ChargeDay

    print(f"a month of {DEVICES} devices, {allocations} allocations:")
    for model in (Allocation, Charge, ChargeDay):
        table = model._meta.db_table
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_table_size(%s), pg_indexes_size(%s)", [table, table])
            else:
                cursor.execute(
                    "SELECT SUM(CASE WHEN name = %s THEN pgsize END), "
                    "SUM(CASE WHEN name != %s THEN pgsize END) FROM dbstat "
                    "WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = %s)",
                    [table, table, table],
                )
            rows, indexes = (value or 0 for value in cursor.fetchone())
        count = model.objects.count()
        print(
            f"  {table:22} {count:>9} rows, {rows / 2**20:7.1f} MiB and {indexes / 2**20:7.1f} MiB of "
            f"indexes; {(rows + indexes) / max(1, count):.0f} bytes a row"
        )


def _client() -> Any:
    from django.test import Client

    from portal.accounts.models import User

    user, _new = User.objects.get_or_create(
        username="program", defaults={"password": "!", "is_auditor": True}
    )
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


if __name__ == "__main__":
    sys.exit(main())
