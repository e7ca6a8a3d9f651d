"""Steady state: how long after the API's answer a change is a committed row, while the cluster keeps moving.

    python -m benchmarks.sync_steady [--churn claims=200,pods=100] [--seconds 30] [--nodes 5000]
    [--devices 8] [--pods 50000] [--kubeconfig PATH [--context C] [--namespace default]]

An embedded cluster changes its claims and touches Pods that use no devices at that rate, while the follower
runs in a process of its own. Meanwhile probes change annotations of claims of their own through the API, one
after the other; the time from the API's answer to a probe until the transaction with that version of the
claim is committed is what counts. With a kubeconfig the probes are all that changes.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from benchmarks._bench import ROOT, desk, load, peak_mib, percentile
from benchmarks._fleet import add_cluster, cluster, follower, listed, read_json_lines

TARGET_P99_SECONDS = 1.0
PROBES = 20
PROBE_INTERVAL = 0.05
# What is on its way when the probes stop may still arrive.
DRAIN_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--churn", default="claims=200,pods=100")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--kubeconfig", default="")
    parser.add_argument("--context", default="")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        with desk():
            return measure(options.kubeconfig, options.context, Path(options.measure))
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory:
        if options.kubeconfig:
            return watch_and_probe(options.kubeconfig, directory, options)
        fleet = f"nodes={options.nodes},devices={options.devices},pods={options.pods}"
        with cluster(fleet, directory, churn=options.churn) as kubeconfig:
            return watch_and_probe(kubeconfig, directory, options)


def watch_and_probe(kubeconfig: str, directory: str, options: argparse.Namespace) -> int:
    """Start the follower, probe once everything is listed, and compare the two sides."""
    committed = Path(directory) / "committed.jsonl"
    command = [sys.executable, "-m", "benchmarks.sync_steady", "--measure", str(committed)]
    command += ["--kubeconfig", kubeconfig, "--context", options.context]
    measuring = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert measuring.stdout is not None
        if not any(line.startswith("in step") for line in measuring.stdout):
            raise SystemExit("the follower did not get in step")
        print(f"in step; probing for {options.seconds:.0f} s; {load()}", flush=True)
        answered = probe(kubeconfig, options)
        time.sleep(DRAIN_SECONDS)
        measuring.send_signal(signal.SIGTERM)
        print(measuring.stdout.read(), end="")
    finally:
        measuring.terminate()
        measuring.wait()
    return report(answered, committed)


def probe(kubeconfig: str, options: argparse.Namespace) -> dict[str, float]:
    """Change claims of ours for a while: resourceVersion → when the API had answered."""
    from inventory.follow.discovery import preferred
    from portal.kube.client import Client
    from portal.kube.config import Credentials

    answered: dict[str, float] = {}
    with Client(Credentials.from_kubeconfig(kubeconfig, context=options.context)) as client:
        claims = preferred(client)["resourceclaims"]
        names = [f"claimdesk-bench-{number:02}" for number in range(PROBES)]
        for name in names:
            client.create(claims, _claim(claims.api_version, name), namespace=options.namespace)
        try:
            ends_at, turn = time.monotonic() + options.seconds, 0
            while time.monotonic() < ends_at:
                body = {"metadata": {"annotations": {"bench.example.com/turn": str(turn)}}}
                name = names[turn % PROBES]
                stored = client.patch(claims, name, body, namespace=options.namespace)
                answered[stored["metadata"]["resourceVersion"]] = time.time()
                turn += 1
                time.sleep(PROBE_INTERVAL)
        finally:
            for name in names:
                client.delete(claims, name, namespace=options.namespace)
    return answered


def _claim(api_version: str, name: str) -> dict[str, Any]:
    wanted: dict[str, Any] = {"deviceClassName": "bench.example.com"}
    request = {"name": "one", **({"exactly": wanted} if api_version != "resource.k8s.io/v1beta1" else wanted)}
    return {
        "apiVersion": api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }


def report(answered: dict[str, float], committed: Path) -> int:
    """Both sides together. A version that was overtaken before the writer saw it is in a later one."""
    stored: dict[str, float] = dict(read_json_lines(committed))
    waits = [stored[version] - at for version, at in answered.items() if version in stored]
    if len(waits) < 2:
        print("too few probes arrived")
        return 1
    p99 = percentile(waits, 99)
    print(
        f"{len(answered)} probes, {len(waits)} seen committed: from the API's answer to the row "
        f"p50 {1000 * percentile(waits, 50):.0f} ms, p99 {1000 * p99:.0f} ms, "
        f"longest {1000 * max(waits):.0f} ms (target p99 {1000 * TARGET_P99_SECONDS:.0f} ms)   {load()}"
    )
    return int(p99 > TARGET_P99_SECONDS or len(waits) < len(answered))


# --- the follower's side --------------------------------------------------------------------------------


def measure(kubeconfig: str, context: str, committed: Path) -> int:
    """Follow until told to stop; note when which version of a claim was committed."""
    from django.db import connection

    from inventory.follow import follower as following

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    bench = add_cluster(kubeconfig, context)
    began = time.monotonic()
    done, _ = listed(bench, since=None, began=began)
    desk_follower = follower(bench)
    with committed.open("w", encoding="utf-8") as file:
        notes = Notes(file, desk_follower._messages)
        at = [0.0, 0.0]

        def should_stop() -> bool:
            if not at[0] and done():
                at[:] = time.monotonic(), time.process_time()
                notes.reset()
                print(f"in step after {time.monotonic() - began:.1f} s", flush=True)
            return stop.is_set()

        with patch.object(following, "Writer", notes.writer()):
            desk_follower.run(should_stop=should_stop)
    wall, cpu = time.monotonic() - at[0], time.process_time() - at[1]
    print(
        f"{connection.vendor}: {notes.items / wall:.0f} changes a second stored in {notes.transactions} "
        f"transactions of {1000 * notes.seconds / max(1, notes.transactions):.0f} ms on average; at most "
        f"{notes.deepest} batches waited; {100 * cpu / wall:.0f} % of one core; "
        f"peak memory {peak_mib():.0f} MiB"
    )
    return 0


class Notes:
    """What the writer did, and when."""

    def __init__(self, file: TextIO, messages: Any) -> None:
        self._file = file
        self._messages = messages
        self.reset()

    def reset(self) -> None:
        self.items = self.transactions = self.deepest = 0
        self.seconds = 0.0

    def writer(self) -> Any:
        """The writer's class, with a note after each commit."""
        from inventory.mirror.writer import Writer

        notes = self

        class NotingWriter(Writer):
            def apply(self, batches: Sequence[Any]) -> int:
                began = time.monotonic()
                appended = super().apply(batches)
                notes.take(batches, seconds=time.monotonic() - began)
                return appended

        return NotingWriter

    def take(self, batches: Sequence[Any], *, seconds: float) -> None:
        now = time.time()
        self.transactions += 1
        self.seconds += seconds
        self.deepest = max(self.deepest, self._messages.qsize())
        for batch in batches:
            self.items += len(batch.items)
            if batch.resource.plural == "resourceclaims":
                self._file.writelines(f"{json.dumps([item.resource_version, now])}\n" for item in batch.items)


if __name__ == "__main__":
    sys.exit(main())
