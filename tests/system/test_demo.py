"""`manage.py demo` itself: how it starts, what it says, how it ends, and that it ends wholly."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from portal.env import BASE_DIR
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from portal.management.people import PASSWORD
from portal.stack import free_port, port_is_free
from tests.system.desk import processes_of, until
from tests.visitor import Visitor

pytestmark = [pytest.mark.xdist_group("system"), pytest.mark.timeout(300), pytest.mark.nodatabase]


_STARTED: list["Demo"] = []


@pytest.fixture(autouse=True)
def _every_demo_ends() -> Iterator[None]:
    yield
    while _STARTED:
        _STARTED.pop().end_at_last()


@dataclass
class Demo:
    """One run of the command, in a process group of its own as a shell would give it."""

    data_dir: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None
    log: Path = field(init=False)

    def start(self) -> "Demo":
        environment = {**os.environ, "CLAIMDESK_DATA_DIR": str(self.data_dir), "PYTHONUNBUFFERED": "1"}
        environment.pop("DATABASE_URL", None)
        self.log = self.data_dir.parent / f"said-{self.port}"
        _STARTED.append(self)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "demo", "--port", str(self.port)],
                cwd=BASE_DIR,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    @property
    def said(self) -> str:
        return self.log.read_text()

    def until_ready(self) -> str:
        """The address that it tells."""

        def look() -> str:
            assert self.process is not None
            assert self.process.poll() is None, self.said
            found = re.search(r"ready after .*(http://\S+)", self.said)
            return found[1] if found and "Ctrl-C stops" in self.said else ""

        return until(look, "the demo is ready")

    def end(self, number: signal.Signals, *, group: bool = False) -> int:
        """Send a signal (to the whole process group, as a terminal does) and give the exit status."""
        assert self.process is not None
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        status = self.process.wait(40)
        until(lambda: not processes_of(self.data_dir), "no process is left behind")
        return status

    def end_at_last(self) -> None:
        """After a test, however it went: nothing of it outlives it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(40)
        until(lambda: not processes_of(self.data_dir), "no process is left behind")

    def seen_on_cluster(self) -> set[tuple[str, str, str, str]]:
        """Identity and version of what does not change by itself."""
        kubeconfig = self.data_dir / "cluster" / "kubeconfig"
        with Client(Credentials.from_kubeconfig(kubeconfig, context="admin")) as client:
            return {
                (kind.plural, row["metadata"]["name"], row["metadata"]["uid"], _version(kind, row))
                for kind in (NODES, RESOURCE_SLICES, RESOURCE_CLAIMS, PODS)
                for row in client.list_all(kind)
            }


def _version(kind: Any, row: dict[str, Any]) -> str:
    # The kubelet goes on reporting on nodes and Pods.
    return "" if kind in (NODES, PODS) else str(row["metadata"]["resourceVersion"])


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def _ask(address: str) -> str:
    visitor = Visitor(address)
    visitor.sign_in("rhea", PASSWORD)
    # The first lists of a fresh desk take a moment, and devices are read after their classes.
    until(lambda: "free" in visitor.get("/devices/?class=gpu.nvidia.com").states, "the devices of the class")
    page = visitor.get("/requests/new/", project="protein-folding", cluster="northern")
    made = visitor.submit(
        page, page.form(having="purpose"), device_class="gpu.nvidia.com", purpose="kept over restarts"
    )
    assert "/requests/" in made.path, made.text[:500]
    assert made.status == 200, made.text[:1000]
    until(lambda: visitor.get(made.path).states[:1] == ["waiting-for-pod"], "the claim")
    return made.path


def test_the_demo_ends_wholly_however_it_is_ended_and_goes_on_with_the_same_data(tmp_path: Path) -> None:
    data_dir = tmp_path / "desk"
    with taken_port() as taken:
        demo = Demo(data_dir, taken).start()
        address = demo.until_ready()
        assert f"Port {taken} is taken by another program" in demo.said
        assert f":{taken}/" not in address

        second = Demo(data_dir, free_port()).start()
        assert second.process is not None
        assert second.process.wait(40) != 0
        until(lambda: "Another Claimdesk already runs over" in second.said, "the reason")
        assert "Traceback" not in second.said

    path = _ask(address)
    before = demo.seen_on_cluster()
    # Ctrl-C in a terminal reaches the whole group.
    assert demo.end(signal.SIGINT, group=True) == 0
    assert "Stopped." in demo.said
    assert "Traceback" not in demo.said
    assert port_is_free(int(address.rstrip("/").rpartition(":")[2]))

    demo = Demo(data_dir, free_port()).start()
    address = demo.until_ready()
    assert demo.seen_on_cluster() == before
    visitor = Visitor(address)
    visitor.sign_in("rhea", PASSWORD)
    assert visitor.get(path).states[:1] == ["waiting-for-pod"]
    demo.end(signal.SIGKILL)

    demo = Demo(data_dir, free_port()).start()
    address = demo.until_ready()
    assert demo.seen_on_cluster() == before
    visitor = Visitor(address)
    visitor.sign_in("rhea", PASSWORD)
    assert "kept over restarts" in visitor.get(path).text
    assert demo.end(signal.SIGTERM) == 0
    assert "Stopped." in demo.said


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_demo_in_the_background_that_is_ended_while_it_starts_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    # As shells do for a script's `make demo &`.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        demo = Demo(tmp_path / "desk", free_port()).start()
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: len(processes_of(demo.data_dir)) > 3, "its first parts run")
    demo.end(number)
    assert "Traceback" not in demo.said
