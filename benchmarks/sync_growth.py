"""How the first sync grows with the fleet: linearly in time, and hardly in memory.

    python -m benchmarks.sync_growth [--devices 200000] [--per-node 8]

Follows clusters with a quarter, a half and the whole of that many devices, each with an empty database
(SQLite in a temporary directory, or a database on the server that DATABASE_URL names). Nodes and slices are
made up page by page as they are asked for, after one of an embedded cluster, which answers all other calls:
a server that holds a million devices would take longer to fill than the mirror. Exits 1 when a device of the
largest fleet takes half as much processor time again as one of the smallest, or the peak memory is over the
target. `--devices 1000000` takes some minutes.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks._bench import clock, desk, load, memory_mib, peak_mib
from benchmarks._fleet import add_cluster, cluster, follow_until_listed, measure_apart

TARGET_MIB = 400


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=200_000)
    parser.add_argument("--per-node", type=int, default=8)
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    parser.add_argument("--nodes", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        with desk() as directory:
            return measure(options, directory)
    status = 0
    each: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory,
        cluster(f"nodes=1,devices={options.per_node}", directory) as kubeconfig,
    ):
        for part in (4, 2, 1):
            nodes = max(1, options.devices // part // options.per_node)
            result = Path(directory) / f"result-{part}"
            arguments = ["--measure", kubeconfig, "--nodes", str(nodes), "--result", str(result)]
            status |= measure_apart("sync_growth", *arguments)
            each += [float(result.read_text())] if result.exists() else []
    return int(bool(status) or len(each) < 3 or each[-1] > 1.5 * each[0])


@dataclass(frozen=True)
class Sample:
    """An object of the embedded cluster as JSON, and what in it differs from node to node."""

    raw: bytes
    node: bytes
    pieces: tuple[bytes, ...] = ()

    def of_node(self, number: int) -> bytes:
        """The same object of another node."""
        made = self.raw.replace(self.node, b"made-%07d.example" % number)
        for index, piece in enumerate(self.pieces):
            made = made.replace(piece, b"GPU-%08d-%04d" % (number, index))
        return made


def measure(options: argparse.Namespace, directory: str) -> int:
    """One size."""
    from django.db import connection

    from inventory.models import Device

    bench = add_cluster(options.measure, "")
    before = memory_mib()
    with clock() as taken:
        follow_until_listed(bench, client_for=lambda row: _client(row, options.nodes))
    count = Device.objects.count()
    size = sum(path.stat().st_size for path in Path(directory).glob("claimdesk.sqlite3*"))
    stored = f"database {size / 2**20:.0f} MiB   " if connection.vendor == "sqlite" else ""
    print(
        f"{count:9,} devices, {connection.vendor}   {taken}   {1e6 * taken.cpu / count:.0f} µs of processor "
        f"time each   memory {before:.0f} MiB before, peak {peak_mib():.0f} MiB   {stored}{load()}",
        flush=True,
    )
    options.result.write_text(str(taken.cpu / count))
    return int(peak_mib() > TARGET_MIB)


def _client(row: Any, nodes: int) -> Any:
    """A client of the embedded cluster that lists that many nodes and slices instead of its own."""
    import msgspec

    from inventory import clusters
    from portal.kube.resources import RESOURCE_SLICES

    client: Any = clusters.client_for(row)
    own = client.list_pages
    found = client.list_all(RESOURCE_SLICES)[0]
    node = found["spec"]["nodeName"].encode()
    uuids = [
        attributes["uuid"]["string"].encode()
        for attributes in (device["attributes"] for device in found["spec"]["devices"])
        if "uuid" in attributes
    ]

    def list_pages(resource: Any, *, limit: int = 500, **selectors: Any) -> Iterator[Any]:
        if resource.plural not in ("nodes", "resourceslices"):
            yield from own(resource, limit=limit, **selectors)
            return
        (page,) = own(resource, limit=limit, **selectors)
        raw = next(bytes(item) for item in page.items if node in bytes(item))
        sample = Sample(raw, node, tuple(uuids) if resource.plural == "resourceslices" else ())
        for start in range(0, nodes, limit):
            made = range(start, min(start + limit, nodes))
            yield replace(
                page,
                items=[msgspec.Raw(sample.of_node(number)) for number in made],
                first=not start,
                last=start + limit >= nodes,
            )

    client.list_pages = list_pages
    return client


if __name__ == "__main__":
    sys.exit(main())
