"""The whole desk over an embedded cluster, for tests that end its processes while people work with it."""

import base64
import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import requests

from portal.env import BASE_DIR
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from portal.management.people import PASSWORD
from portal.management.sample import CLUSTER
from portal.stack import Part, Stack, free_port
from tests.visitor import Page, Visitor

T = TypeVar("T")
PATIENCE = 60.0
NAMESPACE = "protein-folding"


def until(look: Callable[[], T], what: str, *, seconds: float = PATIENCE) -> T:
    """Look again and again until what is seen is true, and give it."""
    deadline = time.monotonic() + seconds
    seen: Any = None
    while time.monotonic() < deadline:
        seen = look()
        if seen:
            return seen  # type: ignore[no-any-return]  # mypy forgets T in a loop
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen: {str(seen)[:500]}")


def processes_of(data_dir: Path) -> list[str]:
    """Command lines of all living processes whose environment or arguments name the data directory."""
    found = []
    wanted = str(data_dir).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            # A zombie has no command line any more.
            if command and wanted in (entry / "environ").read_bytes() + command:
                found.append(f"{entry.name}: {command.decode(errors='replace')[:120]}")
    return found


@dataclass
class Desk:
    """A running desk, a researcher who is signed in, and an administrator's view of the cluster."""

    stack: Stack
    _sessions: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    # The desk's processes

    def kill(self, *names: str) -> None:
        """kill -9 of parts of the desk with what they have started (a web server has its worker), all before
        any of them is waited for."""
        for name in names:
            os.killpg(self.pid_of(name), signal.SIGKILL)
        for name in names:
            process = self.stack.part(name).process
            assert process is not None
            process.wait(10)

    def stop(self, *names: str) -> None:
        """End parts of the desk in the ordinary way, with whatever processes they have started."""
        for name in names:
            self.stack.part(name).signal(signal.SIGTERM)
        for name in names:
            process = self.stack.part(name).process
            assert process is not None
            process.wait(60)

    def restart(self, *names: str) -> None:
        for name in names:
            self.stack.restart(name)

    def second(self, name: str) -> str:
        """One more process like the part `name`, as a part named ``NAME-2``; gives the address it serves."""
        first, port = self.stack.part(name), str(free_port())
        # What no two of them may share: a worker's name, a web server's port.
        other = {"work@desk": "work2@desk", "follow@desk": "follow2@desk", str(self.stack.web_port): port}
        command = [other.get(word, word) for word in first.command]
        part = Part(f"{name}-2", command, first.log_path.with_name(f"{name}-2.log"))
        part.start(self.stack.environment)
        self.stack.parts.append(part)
        return f"http://127.0.0.1:{port}"

    def call_followers(self, times: int) -> None:
        """Queue the task that follows the cluster, as if beat had run wild."""
        self.run(
            "-c",
            "import django; django.setup()\n"
            "import portal.celery\n"
            "from inventory.models import Cluster\n"
            "from inventory.tasks import follow_cluster\n"
            "pk = Cluster.objects.get().pk\n"
            f"for _ in range({times}): follow_cluster.apply_async(args=(pk,), expires=10)",
        )

    def leader(self) -> int:
        """The process whose follower has the cluster's lease; 0 = none."""
        holder = self.run(
            "-c",
            "import django; django.setup()\n"
            "from inventory.models import Cluster\n"
            "print(Cluster.objects.get().lease_holder)",
        ).strip()
        return int(holder.split("/")[1]) if holder else 0

    def pid_of(self, name: str) -> int:
        process = self.stack.part(name).process
        assert process is not None
        return process.pid

    def run(self, *arguments: str) -> str:
        """A Python command in the desk's environment; gives what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.stack.environment,
            cwd=BASE_DIR,
            capture_output=True,
            text=True,
            # Migrations of a new database, on a machine that has other work.
            timeout=480,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def disturb(self, **faults: Any) -> None:
        """What goes wrong at the API server from now on: the fields of `portal.demo.faults.Faults`."""
        kubeconfig = json.loads(self.stack.cluster_kubeconfig.read_text())
        (cluster,) = (entry["cluster"] for entry in kubeconfig["clusters"])
        (user,) = (entry["user"] for entry in kubeconfig["users"] if entry["name"] == "admin")
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        request = urllib.request.Request(
            f"{cluster['server']}/claimdesk/faults",
            data=json.dumps(faults).encode(),
            headers={"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"},
            method="PUT",
        )
        trust = ssl.create_default_context(cadata=authority)
        urllib.request.urlopen(request, timeout=10, context=trust).close()

    def faults(self) -> list[str]:
        """What the desk tells wrong: see `tests.system.truth`. Waits until the desk is in step again."""
        told: list[str] = json.loads(self.run("-m", "tests.system.truth", CLUSTER))
        return told

    def add_cluster(self) -> None:
        self.run("-m", "tests.system.prepare", str(self.stack.cluster_kubeconfig))

    def close(self) -> None:
        self._sessions.close()

    # The cluster, as an administrator sees it

    @cached_property
    def cluster(self) -> Client:
        client = Client(Credentials.from_kubeconfig(self.stack.cluster_kubeconfig, context="admin"))
        return self._sessions.enter_context(client)

    def claims(self) -> list[dict[str, Any]]:
        """Claims on the cluster that the desk made."""
        return [
            claim
            for claim in self.cluster.list_all(RESOURCE_CLAIMS, namespace=NAMESPACE)
            if "claimdesk" in json.dumps(claim["metadata"].get("labels") or {})
        ]

    def devices_published(self) -> set[tuple[str, str, str]]:
        """(node, pool, device) of every device in a slice."""
        return {
            (piece["spec"].get("nodeName", ""), piece["spec"]["pool"]["name"], device["name"])
            for piece in self.cluster.list_all(RESOURCE_SLICES)
            for device in piece["spec"].get("devices") or ()
        }

    def delete_at_once(self, claim: str) -> float:
        """What an administrator does by hand: the Pods of the desk and the claim go. Gives when."""
        for pod in self.cluster.list_all(PODS, namespace=NAMESPACE):
            if claim in json.dumps(pod["spec"].get("resourceClaims") or []):
                with contextlib.suppress(errors.NotFound):
                    self.cluster.delete(
                        PODS, pod["metadata"]["name"], namespace=NAMESPACE, grace_period_seconds=0
                    )
        with contextlib.suppress(errors.NotFound):
            self.cluster.delete(RESOURCE_CLAIMS, claim, namespace=NAMESPACE)
        until(lambda: claim not in [c["metadata"]["name"] for c in self.claims()], "the claim gone")
        return time.time()

    # A person

    @cached_property
    def researcher(self) -> Visitor:
        visitor = Visitor(self.stack.url)
        page = visitor.sign_in("rhea", PASSWORD)
        assert page.path == "/", page.text[:300]
        return visitor

    def ask(self, **fields: str) -> Page:
        """Fill in the request form; gives the page that comes after it."""
        page = self.researcher.get("/requests/new/", project=NAMESPACE, cluster=CLUSTER)
        form = page.form(having="purpose")
        wish = {"device_class": "gpu.nvidia.com", "count": "1", "purpose": "a system test"} | fields
        return self.researcher.submit(page, form, **wish)

    def asked(self, **fields: str) -> str:
        """Ask with success; gives the request's path."""
        page = self.ask(**fields)
        assert re.fullmatch(r"/requests/[0-9a-f-]{36}/", page.path), f"{page.status} {page.text[:1000]}"
        return page.path

    def press(self, path: str, action: str) -> Page:
        page = self.researcher.get(path)
        return self.researcher.submit(page, page.form(action=action))

    def release(self, path: str) -> Page:
        page = self.researcher.get(f"{path}release/")
        return self.researcher.submit(page, page.form(action="/release/"))

    def state_of(self, path: str) -> str:
        states = self.researcher.get(path).states
        return states[0] if states else ""

    def until_state(self, path: str, state: str) -> Page:
        def look() -> Page | None:
            page = self.researcher.get(path)
            return page if page.states[:1] == [state] else None

        try:
            found = until(look, f"the request is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error} {self.researcher.get(path).text[:600]} {self.logs()}") from None
        assert found is not None
        return found

    def held(self) -> tuple[str, str]:
        """A request whose device the desk holds; (its path, the name of its claim)."""
        path = self.asked()
        self.until_state(path, "waiting-for-pod")
        self.press(path, "/hold/")
        self.until_state(path, "allocated")
        return path, self.claim_of(path)

    def claim_of(self, path: str) -> str:
        """The name of a request's claim."""
        name: str = self.api(f"requests{path.removeprefix('/requests')}")["name"]
        return name

    def logs(self) -> str:
        return "\n".join(f"--- {part.name}\n{part.last_lines()}" for part in self.stack.parts)

    # REST

    @cached_property
    def token(self) -> str:
        page = self.researcher.get("/tokens/")
        form = page.form(having="name")
        after = self.researcher.submit(page, form, name="system", scopes=list(form.choices["scopes"]))
        found = re.search(r"\bcdesk_[0-9a-f]{40,}\b", after.text)
        assert found is not None, after.text[:500]
        return found[0]

    def api(self, path: str, **query: str) -> dict[str, Any]:
        """A REST answer with status 200."""
        answer = requests.get(
            f"{self.stack.url}/api/v1/{path}",
            params=query,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=20,
        )
        assert answer.status_code == 200, answer.text[:500]
        found: dict[str, Any] = answer.json()
        return found

    def all_of(self, path: str) -> list[dict[str, Any]]:
        """All pages of a REST list."""
        answer = self.api(path, limit="500")
        rows = list(answer["results"])
        while answer["next"]:
            answer = self.api(answer["next"].partition("/api/v1/")[2])
            rows += answer["results"]
        return rows

    def history_of(self, claim: str) -> list[dict[str, Any]]:
        return [row for row in self.all_of("allocations/") if row["claim"] == claim]

    def cluster_told(self) -> dict[str, Any]:
        return self.api(f"clusters/{CLUSTER}/")

    def until_in_step(self) -> None:
        until(lambda: self.cluster_told()["in_step"], "the cluster in step")


@contextlib.contextmanager
def running(directory: Path, *, fleet: str = "sample", cluster: bool = True) -> Iterator[Desk]:
    """The desk with the sample people and projects; without `cluster`, `Desk.add_cluster` is to come."""
    stack = Stack(directory / "desk", free_port(), free_port(), fleet=fleet)
    desk = Desk(stack)
    try:
        stack.claim_directory()
        stack.start_valkey()
        stack.start_cluster()
        desk.run("-m", "tests.system.prepare")
        stack.wait_for_cluster()
        if cluster:
            desk.add_cluster()
        stack.start_portal()
        stack.wait_for_web()
        yield desk
    finally:
        desk.close()
        stack.stop()
