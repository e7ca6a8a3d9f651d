"""An embedded cluster of a given size for benchmarks, and the follower that is measured on it.

The follower runs in a process of its own, so that its memory and its processor time are its own.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks._bench import ROOT

_WRITES = re.compile(r'(?:INSERT(?: OR IGNORE)? INTO|UPDATE|DELETE FROM)\s+"?(\w+)')
# A fleet is listed by then, or never: on a busy machine a million devices take their time.
LONGEST_SECONDS = 3600


@contextmanager
def cluster(fleet: str, directory: str, *, churn: str = "") -> Iterator[str]:
    """An embedded cluster without controllers, so that only `churn` moves it; yields its kubeconfig."""
    kubeconfig = str(Path(directory) / "kubeconfig")
    command = [sys.executable, "-m", "portal.demo", "--port", "0", "--no-controllers", "--tls"]
    command += ["--fleet", fleet, "--kubeconfig-out", kubeconfig]
    if churn:
        command += ["--churn", churn]
    print(f"embedded cluster with {fleet} {churn and 'and ' + churn} …", flush=True)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert server.stdout is not None
        if not any(line.startswith("listening on ") for line in server.stdout):
            raise SystemExit("the embedded cluster did not start")
        yield kubeconfig
    finally:
        server.terminate()
        server.wait()


def measure_apart(module: str, *arguments: str) -> int:
    """Run the measuring part of a benchmark in a process of its own; its exit status."""
    return subprocess.call([sys.executable, "-m", f"benchmarks.{module}", *arguments], cwd=ROOT)


def add_cluster(kubeconfig: str, context: str) -> Any:
    """The cluster's row. Those who listen to the mirror are silenced: they want a queue."""
    from django.utils import timezone

    from inventory import clusters, signals

    signals.observed.receivers.clear()
    return clusters.add(name="bench", kubeconfig_path=kubeconfig, context=context, now=timezone.now())


def follower(cluster: Any, client_for: Any = None) -> Any:
    """A follower of the cluster with the intervals of production."""
    from inventory.follow.follower import Follower

    return Follower(
        cluster_id=cluster.pk,
        lease_duration=timedelta(seconds=20),
        full_list_interval=timedelta(hours=1),
        client_for=client_for,
    )


def listed(
    cluster: Any, *, since: Any, began: float, only: Collection[str] = ()
) -> tuple[Callable[[], bool], dict[str, float]]:
    """Whether every resource that the cluster serves was listed (after `since`), to be asked again and
    again; and after how many seconds each was."""
    from inventory.models import Stream

    seconds: dict[str, float] = {}

    def done() -> bool:
        waiting = False
        streams = Stream.objects.filter(cluster=cluster)
        if only:
            streams = streams.filter(resource__in=only)
        for stream in streams.values("resource", "state", "listed_at"):
            if stream["listed_at"] is not None and (since is None or stream["listed_at"] >= since):
                seconds.setdefault(stream["resource"], time.monotonic() - began)
            elif stream["state"] not in (Stream.State.NOT_SERVED, Stream.State.NOT_PERMITTED):
                waiting = True
        if time.monotonic() - began > LONGEST_SECONDS:
            raise SystemExit(f"not everything was listed within {LONGEST_SECONDS} s")
        return bool(seconds) and not waiting

    return done, seconds


def follow_until_listed(
    cluster: Any, *, since: Any = None, only: Collection[str] = (), client_for: Any = None
) -> tuple[float, dict[str, float]]:
    """Follow until every resource (or those of `only`) was listed after `since`; seconds in all, and until
    each was."""
    began = time.monotonic()
    done, seconds = listed(cluster, since=since, began=began, only=only)
    outcome = follower(cluster, client_for).run(should_stop=done)
    if not done():
        raise SystemExit(f"the follower ended too early: {outcome.value}")
    return time.monotonic() - began, seconds


@contextmanager
def written_rows() -> Iterator[dict[str, int]]:
    """Counts the statements that write (and the rows of those that are run for many), by table."""
    from django.db import connection

    counts: dict[str, int] = {}

    def note(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if found := _WRITES.match(sql):
            counts[found[1]] = counts.get(found[1], 0) + (len(params) if many else 1)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield counts


def read_json_lines(path: Path) -> Iterator[Any]:
    """What another process has written, one JSON value a line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
