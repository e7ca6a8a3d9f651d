"""How the first sync grows with the fleet: linearly in time, and hardly in memory.

    python -m benchmarks.sync_growth [--devices 200000] [--per-node 8]

Follows embedded clusters with a quarter, a half and the whole of that many devices, each with an empty
database (SQLite in a temporary directory). `--devices 1000000` is meant for a quiet hour.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks._bench import clock, desk, load, memory_mib, peak_mib
from benchmarks._fleet import add_cluster, cluster, follow_until_listed, measure_apart


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=200_000)
    parser.add_argument("--per-node", type=int, default=8)
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        with desk() as directory:
            return measure(options.measure, directory)
    if os.environ.pop("DATABASE_URL", ""):
        print("each size needs an empty database: measured on SQLite")
    status = 0
    for part in (4, 2, 1):
        nodes = max(1, options.devices // part // options.per_node)
        fleet = f"nodes={nodes},devices={options.per_node}"
        with (
            tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory,
            cluster(fleet, directory) as kubeconfig,
        ):
            status |= measure_apart("sync_growth", "--measure", kubeconfig)
    return status


def measure(kubeconfig: str, directory: str) -> int:
    """One size."""
    from inventory.models import Device

    bench = add_cluster(kubeconfig, "")
    before = memory_mib()
    with clock() as taken:
        follow_until_listed(bench)
    count = Device.objects.count()
    size = sum(path.stat().st_size for path in Path(directory).glob("claimdesk.sqlite3*"))
    print(
        f"{count:9,} devices   {taken}   {1e6 * taken.cpu / count:.0f} µs of processor time each   "
        f"memory {before:.0f} MiB before, peak {peak_mib():.0f} MiB   database {size / 2**20:.0f} MiB   "
        f"{load()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
