"""First sync of a large cluster, and a full list in which nothing has changed.

    python -m benchmarks.sync_first [--nodes 5000] [--devices 8] [--pods 50000] [--kubeconfig PATH
    [--context C]]

Starts an embedded cluster of that size (without controllers, so that it rests), or takes the cluster of a
kubeconfig, and follows it with an empty database: SQLite in a temporary directory, or the server that
DATABASE_URL names. Prints how long each resource took, the whole, the peak memory of the follower, and
what a second full list costs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET_SECONDS = 30
TARGET_MIB = 400


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
    if options.measure:
        return measure(options.kubeconfig, options.context)
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        kubeconfig, server = options.kubeconfig, None
        if not kubeconfig:
            kubeconfig = str(Path(directory) / "kubeconfig")
            fleet = f"nodes={options.nodes},devices={options.devices},pods={options.pods}"
            server = _serve(fleet, kubeconfig)
        try:
            return _measure_apart(directory, kubeconfig, options.context)
        finally:
            if server is not None:
                server.terminate()
                server.wait()


def _serve(fleet: str, kubeconfig: str) -> "subprocess.Popen[str]":
    print(f"embedded cluster with {fleet} …", flush=True)
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "portal.demo", "--port", "0", "--no-controllers"),
            *("--fleet", fleet, "--kubeconfig-out", kubeconfig),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("listening on "):
            return server
    raise SystemExit("the embedded cluster did not start")


def _measure_apart(directory: str, kubeconfig: str, context: str) -> int:
    """In a process of its own, so that its peak memory is the follower's."""
    environment = {
        "CLAIMDESK_SECRET_KEY": "only for benchmarks",
        **os.environ,
        "CLAIMDESK_DATA_DIR": directory,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    command = [sys.executable, "-m", "benchmarks.sync_first", "--measure", "--kubeconfig", kubeconfig]
    return subprocess.call([*command, "--context", context], env=environment, cwd=ROOT)


def measure(kubeconfig: str, context: str) -> int:
    """Migrate, add the cluster, follow it until everything is there, and list again."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.utils import timezone

    from inventory import clusters, signals
    from inventory.models import Device, Observation, Pod, ResourceSlice

    call_command("migrate", verbosity=0)
    # Those who listen want a queue, which is not measured here.
    signals.observed.receivers.clear()
    cluster = clusters.add(name="bench", kubeconfig_path=kubeconfig, context=context, now=timezone.now())
    before = _peak_mib()
    seconds, listed = follow_until_listed(cluster, since=None)
    print(f"database: {connection.vendor}; {time.process_time():.1f} s of processor time so far")
    for plural, at in sorted(listed.items(), key=lambda entry: entry[1]):
        print(f"{plural:24} {at:6.1f} s")
    print(
        f"all {seconds:26.1f} s   (target {TARGET_SECONDS} s)  "
        f"{ResourceSlice.objects.count()} slices, {Device.objects.count()} devices, "
        f"{Pod.objects.count()} Pods that use devices, {Observation.objects.count()} observations"
    )
    peak = _peak_mib()
    print(f"peak memory {peak:16.0f} MiB (target {TARGET_MIB} MiB; {before:.0f} MiB before it began)")

    clusters.request_sync(cluster=cluster, now=timezone.now())
    version = type(cluster).objects.values_list("mirror_version", flat=True).get(pk=cluster.pk)
    again, _ = follow_until_listed(cluster, since=timezone.now())
    changed = type(cluster).objects.values_list("mirror_version", flat=True).get(pk=cluster.pk) - version
    print(f"list without a change {again:8.1f} s   transactions that changed the mirror: {changed}")
    return int(seconds > TARGET_SECONDS or peak > TARGET_MIB)


def follow_until_listed(cluster: Any, *, since: Any) -> tuple[float, dict[str, float]]:
    """Follow until every resource was listed (after `since`); seconds in all and per resource."""
    from datetime import timedelta

    from inventory.follow.follower import Follower
    from inventory.models import Stream

    listed: dict[str, float] = {}
    began = time.monotonic()

    def done() -> bool:
        streams = Stream.objects.filter(cluster=cluster).exclude(listed_at=None)
        if since is not None:
            streams = streams.filter(listed_at__gte=since)
        for plural in streams.values_list("resource", flat=True):
            listed.setdefault(plural, time.monotonic() - began)
        return len(listed) == 7 or time.monotonic() - began > 600

    follower = Follower(
        cluster_id=cluster.pk, lease_duration=timedelta(seconds=20), full_list_interval=timedelta(hours=1)
    )
    follower.run(should_stop=done)
    return time.monotonic() - began, listed


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
