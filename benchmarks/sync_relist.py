"""A full list in which nothing has changed: what it writes, and what it takes.

    python -m benchmarks.sync_relist [--nodes 5000] [--devices 8] [--pods 50000] [--kubeconfig PATH
    [--context C]]

Such a list comes every few minutes, for every cluster. The mirror knows every object in the version that the
list shows, so nothing but "heard at that time" is to be written. Exits 1 when the mirror's version goes up.
"""

import argparse
import sys
import tempfile

from benchmarks._bench import clock, desk, load, peak_mib
from benchmarks._fleet import add_cluster, cluster, follow_until_listed, measure_apart, written_rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--context", default="")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure or options.kubeconfig:
        with desk():
            return measure(options.kubeconfig, options.context)
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        fleet = f"nodes={options.nodes},devices={options.devices},pods={options.pods}"
        with cluster(fleet, directory) as kubeconfig:
            return measure_apart("sync_relist", "--measure", "--kubeconfig", kubeconfig)


def measure(kubeconfig: str, context: str) -> int:
    """List once, then once more."""
    from django.db import connection
    from django.utils import timezone

    from inventory import clusters
    from inventory.models import Cluster

    bench = add_cluster(kubeconfig, context)
    with clock() as first:
        follow_until_listed(bench)
    print(f"database: {connection.vendor}; {load()}\nfirst lists        {first}")
    version = Cluster.objects.values_list("mirror_version", flat=True).get(pk=bench.pk)
    clusters.request_sync(cluster=bench, now=timezone.now())
    with clock() as again, written_rows() as rows:
        follow_until_listed(bench, since=timezone.now())
    changed = Cluster.objects.values_list("mirror_version", flat=True).get(pk=bench.pk) - version
    of_mirror = {table: count for table, count in rows.items() if table not in _KEEPING_TIME}
    print(f"nothing changed    {again}   peak memory {peak_mib():.0f} MiB")
    print(f"transactions that changed the mirror: {changed}; statements that write:")
    for table, count in sorted(rows.items()):
        print(f"  {table:32} {count}")
    return int(bool(changed or of_mirror))


# The lease, and how far each stream has come.
_KEEPING_TIME = frozenset({"inventory_cluster", "inventory_stream"})


if __name__ == "__main__":
    sys.exit(main())
