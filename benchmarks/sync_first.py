"""First sync of a large cluster: slices alone against kubectl, then everything.

    python -m benchmarks.sync_first [--nodes 5000] [--devices 8] [--pods 50000] [--rounds 3]
    [--kubeconfig PATH [--context C]] [--profile]

Starts an embedded cluster of that size (without controllers, so that it rests), or takes the cluster of a
kubeconfig, and follows it with an empty database: SQLite in a temporary directory, or the server that
DATABASE_URL names. First nodes and slices alone, in turns with what they are compared with: how long
kubectl takes to print the slices as JSON (where there is none, a plain list of ours is named beside it, and
compared with nothing). Both run on the same machine in the same minutes, so that their ratio says something
on a busy machine, too. Then everything: how long it took, and the peak memory of the follower.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks._bench import clock, desk, load, peak_mib, profiled
from benchmarks._fleet import add_cluster, cluster, follow_until_listed, measure_apart

TARGET_SECONDS = 30
TARGET_MIB = 400


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3, help="of slices and kubectl in turns")
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--context", default="")
    parser.add_argument("--profile", action="store_true", help="print where the writer's time goes")
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=("slices", "all"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        with desk():
            return measure(options)
    if options.kubeconfig:
        return both(options.kubeconfig, options)
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        fleet = f"nodes={options.nodes},devices={options.devices},pods={options.pods}"
        with cluster(fleet, directory) as kubeconfig:
            return both(kubeconfig, options)


def both(kubeconfig: str, options: argparse.Namespace) -> int:
    print(load())
    kubectl: list[float] = []
    ours: list[float] = []
    status = 0
    for _round in range(options.rounds):
        kubectl += print_with_kubectl(kubeconfig, options.context)
        seconds, failed = measured("slices", kubeconfig, options)
        ours += seconds
        status |= failed
    if kubectl and ours:
        ratio = median(ours) / median(kubectl)
        print(
            f"medians: kubectl {median(kubectl):.1f} s, stored {median(ours):.1f} s, which is "
            f"{ratio:.2f} of it   (target: less than 1)   {load()}"
        )
        status |= int(ratio >= 1)
    return status | measured("all", kubeconfig, options)[1]


def measured(what: str, kubeconfig: str, options: argparse.Namespace) -> tuple[list[float], int]:
    """Measure in a process of its own: the seconds that it took (none if it failed), and its status."""
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        result = Path(directory) / "seconds"
        arguments = ["--measure", what, "--kubeconfig", kubeconfig, "--context", options.context]
        arguments += ["--result", str(result), *(["--profile"] if options.profile else [])]
        status = measure_apart("sync_first", *arguments)
        return ([float(result.read_text())] if result.exists() else []), status


def print_with_kubectl(kubeconfig: str, context: str) -> list[float]:
    """The seconds that kubectl takes to print the slices; none where there is no kubectl."""
    found = shutil.which("kubectl")
    if found is None:
        print("no kubectl here: compared with nothing but the plain list below")
        return []
    command = [found, "--kubeconfig", kubeconfig, *(["--context", context] if context else [])]
    command += ["get", "resourceslices", "-o", "json"]
    began = time.perf_counter()
    answer = subprocess.run(command, capture_output=True, check=False)
    seconds = time.perf_counter() - began
    if answer.returncode:
        print(f"kubectl failed: {answer.stderr.decode(errors='replace').strip()[:300]}")
        return []
    print(
        f"kubectl get resourceslices   {seconds:8.2f} s  ({len(answer.stdout) / 2**20:.0f} MiB)", flush=True
    )
    return [seconds]


def measure(options: argparse.Namespace) -> int:
    """Add the cluster and follow it until everything is there."""
    from django.db import connection

    from inventory import clusters
    from inventory.follow import follower
    from inventory.models import Device, Observation, Pod, ResourceSlice
    from portal.kube.resources import RESOURCE_SLICES

    bench = add_cluster(options.kubeconfig, options.context)
    if options.measure == "slices":
        with clock() as plain, clusters.client_for(bench) as client:
            count = sum(len(page.items) for page in client.list_pages(RESOURCE_SLICES))
        print(f"plain list of {count} slices    {plain}")
        follower._ORDER = {"nodes": (), "resourceslices": ("nodes",)}
    before = peak_mib()
    with clock() as taken, profiled(wanted=options.profile):
        _, listed = follow_until_listed(bench, only=["resourceslices"] if options.measure == "slices" else ())
    counts = f"{ResourceSlice.objects.count()} slices, {Device.objects.count()} devices"
    if options.result:
        options.result.write_text(str(taken.wall))
    if options.measure == "slices":
        print(f"nodes and slices, {connection.vendor}   {taken}   {counts}")
        return 0
    for plural, at in sorted(listed.items(), key=lambda entry: entry[1]):
        print(f"  {plural:30} {at:6.1f} s")
    peak = peak_mib()
    print(
        f"everything, {connection.vendor}    {taken}   (target {TARGET_SECONDS} s)   {counts}, "
        f"{Pod.objects.count()} Pods that use devices, {Observation.objects.count()} observations"
    )
    print(f"peak memory {peak:.0f} MiB (target {TARGET_MIB} MiB; {before:.0f} MiB before)   {load()}")
    return int(taken.wall > TARGET_SECONDS or peak > TARGET_MIB)


if __name__ == "__main__":
    sys.exit(main())
