"""kill -9 of a follower at random instants, while the cluster goes on living."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.kube import errors
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import PODS, RESOURCE_CLAIMS
from tests.embedded import EmbeddedCluster

ROOT = Path(__file__).resolve().parents[3]


class Desk:
    """The portal's commands over a database of their own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.environment = {
            **os.environ,
            "CLAIMDESK_DATA_DIR": str(directory),
            # A dead follower's lease must run out soon for the next round.
            "CLAIMDESK_FOLLOWER_LEASE_SECONDS": "1",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        self.environment.pop("DATABASE_URL", None)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def following(self, *, end: signal.Signals) -> Iterator[None]:
        """A follower in a process of its own, ended by a signal."""
        process = subprocess.Popen(
            [sys.executable, "manage.py", "follow", "demo"],
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.send_signal(end)
            process.wait(10)


@contextlib.contextmanager
def busy(kubeconfig: Path, *, seed: int) -> Iterator[None]:
    """A life on the cluster: claims are made and used, released and deleted, in quick succession."""
    stop = threading.Event()
    chance = random.Random(seed)

    def live() -> None:
        with Client(Credentials.from_kubeconfig(kubeconfig, context="admin")) as client:
            for number in range(100_000):
                if stop.wait(0.03):
                    return
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    _act(client, chance, number)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def _act(client: Client, chance: random.Random, number: int) -> None:
    # Few names, so that objects come back under names that others had.
    name = f"job-{chance.randrange(8)}"
    act = chance.randrange(4)
    if act == 0:
        client.create(RESOURCE_CLAIMS, _claim(name), namespace="default")
    elif act == 1:
        client.create(PODS, _pod(f"{name}-{chance.randrange(2)}", name), namespace="default")
    elif act == 2:
        pod = f"{name}-{chance.randrange(2)}"
        client.delete(PODS, pod, namespace="default", grace_period_seconds=0)
    elif number % 5 == 0:
        client.delete(RESOURCE_CLAIMS, name, namespace="default")


def _claim(name: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def _pod(name: str, claim: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        },
    }


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.long)], ids=str)
@pytest.mark.timeout(900)
def test_a_follower_that_is_killed_at_random_leaves_no_hole_and_no_duplicate(
    tmp_path: Path, rounds: int
) -> None:
    embedded = EmbeddedCluster(tmp_path / "cluster", fleet="nodes=8,devices=2,pods=20").start()
    chance = random.Random(rounds)
    desk = Desk(tmp_path / "desk")
    try:
        desk.run("manage.py", "migrate", "--verbosity", "0")
        began = time.monotonic()
        desk.run("manage.py", "cluster", "add", "demo", "--kubeconfig", str(embedded.kubeconfig))
        # As long as it takes to start here and now, which is most of it.
        starting = time.monotonic() - began
        with busy(embedded.kubeconfig, seed=rounds):
            for _ in range(rounds):
                with desk.following(end=signal.SIGKILL):
                    # Some rounds end before the work begins, most in the middle of it.
                    time.sleep(chance.uniform(0.5, 2.0) * starting)
        with desk.following(end=signal.SIGTERM):
            report = json.loads(desk.run("-m", "tests.inventory.audit_mirror", "demo"))
    finally:
        embedded.stop()
    assert report["faults"] == []
    assert report["allocations"] > rounds
