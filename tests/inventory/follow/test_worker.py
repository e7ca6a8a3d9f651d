"""Followers inside a real Celery worker: they start by themselves, and end when the worker is told to."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.embedded import EmbeddedCluster
from tests.inventory.follow.test_kill import ROOT, Desk

DEADLINE = 45.0


@contextmanager
def worker(desk: Desk, pool: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker with a beat of its own."""
    log = Path(desk.environment["CLAIMDESK_DATA_DIR"]) / "worker.log"
    command = [
        *(sys.executable, "-m", "celery", "-A", "portal.celery", "worker", "--queues", "default,follow"),
        *("--pool", pool, "--concurrency", "3", "--without-gossip", "--without-mingle"),
        *("--beat", "--schedule", str(log.with_name("schedule"))),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=desk.environment, cwd=ROOT, stdout=out, stderr=out)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def eventually(desk: Desk, check: Callable[[sqlite3.Connection], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE
    path = Path(desk.environment["CLAIMDESK_DATA_DIR"]) / "claimdesk.sqlite3"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        while time.monotonic() < deadline:
            if check(connection):
                return True
            time.sleep(0.2)
        return False
    finally:
        connection.close()


def state(connection: sqlite3.Connection) -> tuple[str, str]:
    row: tuple[str, str] = connection.execute("select state, lease_holder from inventory_cluster").fetchone()
    return row


@pytest.mark.timeout(150)
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_follows_and_leaves_soon_after_it_is_told_to_end(
    tmp_path: Path, embedded_cluster: EmbeddedCluster, pool: str
) -> None:
    desk = Desk(tmp_path / "desk")
    desk.environment["CLAIMDESK_FOLLOWER_LEASE_SECONDS"] = "20"
    # Queues of their own: other tests may use the same Valkey.
    desk.environment["REDIS_URL"] = os.environ["REDIS_URL"].removesuffix("/0") + (
        "/7" if pool == "threads" else "/8"
    )
    desk.run("manage.py", "migrate", "--verbosity", "0")
    desk.run("manage.py", "cluster", "add", "demo", "--kubeconfig", str(embedded_cluster.kubeconfig))
    with worker(desk, pool) as process:
        assert eventually(desk, lambda c: state(c)[0] == "synced" and state(c)[1] != "")
        process.send_signal(signal.SIGTERM)
        # Far less than a shift: the follower leaves, the worker does not wait for its end.
        process.wait(20)
    assert eventually(desk, lambda c: state(c)[1] == ""), "the lease was not given back"
