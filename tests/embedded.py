"""Starts the embedded cluster as a process of its own, as a test would meet a real one: over HTTP only."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from portal.stack import free_port

START_DEADLINE = 30.0


@dataclass
class EmbeddedCluster:
    """One embedded cluster on a port that stays the same over stops and kills.

    `fleet` is what ``python -m portal.demo --fleet`` takes; `options` are further arguments of it, `module`
    is run in its place by tests of servers that are put together otherwise.
    """

    directory: Path
    fleet: str = "none"
    options: tuple[str, ...] = ()
    module: str = "portal.demo"
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[str] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """With the contexts ``admin``, ``portal`` and ``reader``."""
        return self.directory / "kubeconfig"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def start(self) -> "EmbeddedCluster":
        """Start (again) with the objects that it had; returns when it answers."""
        assert self.process is None, "it is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", self.module, "--port", str(self.port)),
                    *("--data", str(self.directory / "data"), "--fleet", self.fleet),
                    *("--kubeconfig-out", str(self.kubeconfig), *self.options),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        deadline = time.monotonic() + START_DEADLINE
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("listening on "):
                return self
            assert time.monotonic() < deadline, self.log
        raise AssertionError(f"the embedded cluster ended at its start:\n{self.log}")

    def stop(self) -> None:
        """End it cleanly, as Ctrl-C does."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
            process.wait()
            raise AssertionError("the embedded cluster did not end within 10 s")
        if process.stdout is not None:
            process.stdout.close()
