"""A desk that has grown for years: what its tables take, and what its pages cost, at 10,000,000 allocations.

    python -m tests.postgres python -m benchmarks.sizing [--allocations 10000000] [--clusters 10]
    [--nodes 5000] [--rounds 9] [--followers]

PostgreSQL only. Plants 1,000 people in 200 projects, mirrors of ten clusters with 5,000 nodes of 8 devices,
two years of allocations (`benchmarks._grown`) and the charges of all months but the last; rates that one with
the product's own code, audits a cluster, asks for pages as members, auditors and programs do, and tells rows
and bytes of every table. Times are processor time of this process and of the server's process that works for
it, which has no helpers; beside them the time on the clock. With ``--followers`` it follows as many clusters
of that size as ``--clusters`` says in one process instead, and tells its memory.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, timedelta
from threading import Thread
from typing import Any

from benchmarks import _grown
from benchmarks._bench import clock, desk, load, memory_mib, peak_mib, percentile
from benchmarks._grown import MONTH
from benchmarks.browse import keep_in_step, spending

API = "/api/v1"
# Of the database: tables below this are not worth a line.
SHOWN_BYTES = 4 * 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--allocations", type=int, default=10_000_000)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--followers", action="store_true", help="only follow, and tell the memory")
    options = parser.parse_args()
    with desk():
        from django.db import connection

        if connection.vendor != "postgresql":
            print("on PostgreSQL only: python -m tests.postgres python -m benchmarks.sizing")
            return 2
        print(load())
        if options.followers:
            follow(options.clusters, options.nodes)
        else:
            _grown.plant(allocations=options.allocations, clusters=options.clusters, nodes=options.nodes)
            tell_sizes()
            rate()
            look(options.rounds)
            judge()
        tell_sizes()
        print(f"peak memory {peak_mib():.0f} MiB; {load()}")
    return 0


def rate() -> None:
    """The last month, as the task does it every minute: all of it, then nothing new."""
    from claims.money import rollup
    from claims.money.months import Month
    from claims.money.rated import rate_month

    month = Month.of(MONTH, UTC)
    for what in ("rate a month", "rate it again"):
        with clock() as taken:
            told = rate_month(month=month, zone=UTC)
        print(f"{what:30} {taken}   {told.charges} charges, {told.added} written", flush=True)
    with clock() as taken:
        rollup.refresh(zone=UTC)
    print(f"{'add it up by day':30} {taken}", flush=True)


def judge() -> None:
    """The audit of one cluster, which reads all of its ledger."""
    from django.utils import timezone

    from claims.ledger.audit import audit
    from inventory.models import Cluster

    with clock() as taken:
        found = audit(cluster=Cluster.objects.earliest("pk"), now=timezone.now())
    print(f"{'audit one cluster':30} {taken}   {found.pieces} pieces", flush=True)


def look(rounds: int) -> None:
    """Pages of somebody who sees two projects, of an auditor, and of programs."""
    from django.db import connection
    from django.test import Client

    from claims.models import Request
    from inventory.models import Cluster, Device
    from portal.accounts.models import User
    from portal.garbage import settle

    member = Client(SERVER_NAME="localhost")
    member.force_login(User.objects.get(username="person-0007"))
    auditor = Client(SERVER_NAME="localhost")
    auditor.force_login(User.objects.create(username="auditor", password="!", is_auditor=True))
    device = Device.objects.select_related("pool").latest("pk")
    request = Request.objects.filter(project__slug="project-007").latest("pk")
    day = f"from={MONTH:%Y-%m}-07&to={MONTH:%Y-%m}-07"
    whole = f"from={MONTH:%Y-%m}-01&to={MONTH:%Y-%m}-31"
    pages = {
        "history": "/history/",
        "history, last page": "/history/?page=200",
        "history, one project": "/history/?project=project-007",
        "history, a project in a day": f"/history/?project=project-007&{day}",
        "history, one device": f"/history/?device={device.hardware_id}",
        "history, one node": f"/history/?node={device.node_name}",
        "history, a day": f"/history/?{day}",
        "history, an early day": "/history/?from=2025-02-07&to=2025-02-07",
        "history, a day half way": "/history/?from=2025-11-07&to=2025-11-07",
        "history, a product": "/history/?product=Accelerator+03",
        "history, a cluster": "/history/?cluster=cluster-03",
        "history, still running": "/history/?running=1",
        "requests": "/requests/",
        "requests, all": "/requests/?mine=",
        "one request": f"/requests/{request.key}/",
        "one device": f"/devices/{device.pk}/",
        "devices": "/devices/",
        "cost of the month": f"/cost/?{whole}",
        "statements": "/statements/",
        "home": "/",
    }
    programs = {
        "allocations, first page": f"{API}/allocations/?limit=100",
        "allocations, page 1000": _page(auditor, f"{API}/allocations/?limit=100", 1000),
        "allocations of a project": f"{API}/allocations/?limit=100&project=project-007",
        "month by project, billed": f"{API}/usage/?billed={MONTH:%Y-%m}&group_by=project",
        "month by project, by time": f"{API}/usage/?{whole}&group_by=project",
        "charges of a month, first page": f"{API}/charges/?billed={MONTH:%Y-%m}&limit=100",
    }
    spent = spending(connection)
    settle()
    print(f"{'page':32} {'who':8} {'first':>9} {'p50':>9} {'p95':>9} {'on the clock p50':>18}")
    for who, client, asked in (
        ("member", member, pages),
        ("auditor", auditor, pages),
        ("program", auditor, programs),
    ):
        for name, path in asked.items():
            keep_in_step(Cluster)
            times, walls = _measure(client, path, spent, rounds)
            print(
                f"{name:32} {who:8} {times[0]:6.0f} ms {percentile(times[1:], 50):6.0f} ms "
                f"{percentile(times[1:], 95):6.0f} ms {percentile(walls[1:], 50):15.0f} ms",
                flush=True,
            )


def _measure(
    client: Any, path: str, spent: Callable[[], float], rounds: int
) -> tuple[Sequence[float], Sequence[float]]:
    """Milliseconds of processor time, and on the clock. What takes long is asked for three times only."""
    times: list[float] = []
    walls: list[float] = []
    while len(times) < 3 or (len(times) <= rounds and sum(walls) < 20_000):
        begun, at = spent(), time.perf_counter()
        response = client.get(path)
        times.append(spent() - begun)
        walls.append(1000 * (time.perf_counter() - at))
        assert response.status_code == 200, (path, response.status_code)
    return times, walls


def _page(client: Any, path: str, number: int) -> str:
    """The address of a page that is reached through all before it."""
    for _page_before in range(number - 1):
        following = client.get(path).json()["next"]
        if not following:
            break
        path = following.partition("localhost")[2]
        path = path[path.index("/") :]
    return path


def tell_sizes() -> None:
    """Rows and bytes of what is worth a line, with the indexes of the largest."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute(
            "SELECT relname, reltuples::bigint, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace "
            "AND pg_total_relation_size(oid) > %s ORDER BY pg_total_relation_size(oid) DESC",
            [SHOWN_BYTES],
        )
        tables = cursor.fetchall()
        print(f"\n{'table':32} {'rows':>12} {'MiB':>9} {'indexes':>9} {'bytes a row':>12}")
        for name, rows, size, indexes in tables:
            print(
                f"{name:32} {rows:12,} {size / 2**20:9.0f} {indexes / 2**20:9.0f} "
                f"{(size + indexes) / max(1, rows):12.0f}"
            )
        for name, *_rest in tables[:3]:
            cursor.execute(
                "SELECT c.relname, pg_relation_size(c.oid) FROM pg_index i JOIN pg_class c "
                "ON c.oid = i.indexrelid WHERE i.indrelid = %s::regclass ORDER BY 2 DESC",
                [name],
            )
            for index, size in cursor.fetchall():
                print(f"    {index:60} {size / 2**20:9.0f} MiB")
        cursor.execute("SELECT pg_database_size(current_database())")
        print(f"the whole database: {cursor.fetchone()[0] / 2**30:.1f} GiB\n", flush=True)


def follow(clusters: int, nodes: int) -> None:
    """As many embedded clusters, by as many threads of this process: first one, then all."""
    from benchmarks._fleet import cluster
    from inventory import signals
    from inventory.models import Device

    signals.observed.receivers.clear()
    before = memory_mib()
    with ExitStack() as stack:
        added = []
        for number in range(clusters):
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="claimdesk-bench-"))
            fleet = f"nodes={nodes},devices=8,pods={2 * nodes}"
            added.append(_added(number, stack.enter_context(cluster(fleet, directory))))
        for count in sorted({1, clusters}):
            with clock() as taken:
                threads = [Thread(target=_follow_for, args=(one,)) for one in added[:count]]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            print(
                f"{count} clusters of {nodes} nodes followed in one process   {taken}   "
                f"{Device.objects.count()} devices; memory {before:.0f} MiB before, {memory_mib():.0f} MiB "
                f"at the end, at most {peak_mib():.0f} MiB",
                flush=True,
            )


def _added(number: int, kubeconfig: str) -> Any:
    from django.utils import timezone

    from inventory import clusters

    return clusters.add(
        name=f"cluster-{number:02}", kubeconfig_path=kubeconfig, context="", now=timezone.now()
    )


def _follow_for(cluster: Any) -> None:
    """Until everything is listed, and for ten seconds of its watches."""
    from django.db import connection

    from benchmarks._fleet import follower, listed

    done, _seconds = listed(cluster, since=None, began=time.monotonic())
    at: list[float] = []

    def enough() -> bool:
        if not at and done():
            at.append(time.monotonic())
        return bool(at) and time.monotonic() - at[0] > timedelta(seconds=10).total_seconds()

    follower(cluster).run(should_stop=enough)
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
