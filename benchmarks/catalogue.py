"""Server time of the catalogue at 100,000 devices: as long as nothing changed on the cluster, after a claim
was allocated, and after the first start.

    python -m benchmarks.catalogue [--devices 100000] [--flavors 12] [--rounds 10]

Runs on SQLite in a temporary directory, or on the server that DATABASE_URL names. Prints p50 and worst in
milliseconds and the number of queries; exits 1 when a page that was counted before takes more than 100 ms.
"""

import argparse
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
TARGET_MS = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--flavors", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        os.environ.setdefault("CLAIMDESK_SECRET_KEY", "only for this benchmark")
        os.environ["CLAIMDESK_DATA_DIR"] = directory
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        return run(devices=options.devices, flavors=options.flavors, rounds=options.rounds)


def run(*, devices: int, flavors: int, rounds: int) -> int:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.db.models import F
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from django.utils import timezone

    from benchmarks.browse import keep_in_step
    from claims.models import Flavor, Placement
    from inventory.models import Cluster, ResourceSlice
    from portal.accounts.models import User
    from tests.inventory_pages.factories import make_cluster, make_fleet

    call_command("migrate", verbosity=0)
    now = timezone.now()
    cluster = make_cluster()
    make_fleet(cluster, nodes=devices // 8, kinds=24)
    slices = list(ResourceSlice.objects.select_related("pool"))
    for row in slices:
        row.manifest = _manifest(row.name, row.pool.driver, row.pool.name)
    ResourceSlice.objects.bulk_update(slices, ["manifest"], batch_size=500)
    for number in range(flavors):
        made = Flavor.objects.create(
            slug=f"f{number}", name=f"Flavor {number}", position=number, created_at=now, changed_at=now,
            min_duration=timedelta(hours=1), default_duration=timedelta(hours=8),
            max_duration=timedelta(days=9),
        )  # fmt: skip
        Placement.objects.create(flavor=made, cluster=cluster, device_class=f"gpu-{number % 3}.example.com")
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create(username="reader", password="!"))

    def page() -> float:
        keep_in_step(Cluster)
        begun = time.perf_counter()
        assert client.get("/catalogue/").status_code == 200
        return 1000 * (time.perf_counter() - begun)

    print(f"{devices} devices, {flavors} flavors, on {connection.vendor}")
    print(f"first page after a start    {page():8.1f} ms")
    with CaptureQueriesContext(connection) as captured:
        page()
    queries = len(captured)
    known = [page() for _round in range(rounds)]
    print(f"nothing changed: p50        {median(known):8.1f} ms, worst {max(known):.1f}, {queries} queries")
    changed = []
    for _round in range(rounds):
        Cluster.objects.update(mirror_version=F("mirror_version") + 1)
        changed.append(page())
    print(f"a claim was allocated: p50  {median(changed):8.1f} ms, worst {max(changed):.1f}")
    return int(median(known) > TARGET_MS)


def _manifest(name: str, driver: str, node: str) -> "dict[str, object]":
    devices = [
        {"name": f"gpu-{number}", "attributes": {"uuid": {"string": f"{node}-{number}"}}}
        for number in range(8)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


if __name__ == "__main__":
    sys.exit(main())
