"""Walks the main job over HTTP as people would: ``python -m tests.smoke [--kubeconfig PATH]``.

On free ports and in a temporary directory the whole desk is started, over an embedded cluster or, with
``--kubeconfig``, over a real one; there a node, devices, a class and a namespace of a unique name are made,
and the desk's account as ``deploy/cluster`` describes it, and removed afterwards. The desk itself has no more
rights than that account. Every step is printed with its time; the exit status is 0 only if every step held.
"""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import requests
import yaml
from django.conf import settings

from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.errors import ClusterError, Forbidden
from portal.kube.resources import (
    ACCESS_REVIEWS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from portal.management.people import PASSWORD
from portal.stack import Stack, UnableToStart, free_port
from tests.contract import objects
from tests.contract.kubelet import FakeKubelet
from tests.contract.room import Room
from tests.contract.shipped import shipped_account
from tests.visitor import Page, Visitor

T = TypeVar("T")
CLUSTER = "smoke"
# The account of the embedded cluster that may do what deploy/cluster gives the desk.
DESK_CONTEXT = "portal"
PROJECT = "protein-folding"
STEP_SECONDS = 60.0
# A namespace goes with everything in it, which takes a namespace controller some seconds.
LEAVE_SECONDS = 90.0


class StepFailed(Exception):
    """What was expected at a step did not happen."""


class Walk:
    """The people, and what they have found so far."""

    def __init__(self, stack: Stack, room: Room, kubeconfig: Path) -> None:
        self.stack = stack
        self.room = room
        self.kubeconfig = kubeconfig
        self.researcher = Visitor(stack.url)
        self.lead = Visitor(stack.url)
        self.stranger = Visitor(stack.url)
        self.administrator = Visitor(stack.url)
        self.finance = Visitor(stack.url)
        self.class_name = ""
        self.request_path = ""
        self.claim_name = ""
        self.device = ""
        self.token = ""

    # Steps, in their order

    def refuse_the_desk(self) -> str:
        """the cluster refuses the desk's account what is not the desk's"""
        context = "" if self.stack.cluster_port is None else DESK_CONTEXT
        foreign = self.room.template("foreign", objects.request("foreign.example.com"))
        with Client(Credentials.from_kubeconfig(self.kubeconfig, context=context), timeout=30.0) as desk:
            if is_allowed(desk, "create", NODES):
                return "not enforced: this cluster lets every account do everything"
            made = refused(lambda: desk.create(NODES, {"metadata": {"name": self.room.name("x")}}))
            expect(made, "the desk's account may make nodes")
            if self.stack.cluster_port is not None:
                return "a node"

            # A policy is in force some seconds after it was made.
            def delete() -> object:
                name = foreign["metadata"]["name"]
                return desk.delete(
                    RESOURCE_CLAIM_TEMPLATES, name, namespace=self.room.namespace, dry_run=True
                )

            self._until(lambda: refused(delete), bool, "the policy protects the templates of others")
        return "a node, and a template of somebody else"

    def add_cluster(self) -> str:
        """an operator adds the cluster"""
        context = [] if self.stack.cluster_port is None else ["--context", DESK_CONTEXT]
        command = ("cluster", "add", CLUSTER, "--kubeconfig", str(self.kubeconfig), *context)
        self._manage(*command)
        return self._manage("cluster", "list").splitlines()[-1].strip()

    def sign_in(self) -> str:
        """two researchers, lead, administrator and finance sign in"""
        for visitor, name in (
            (self.researcher, "rhea"),
            (self.stranger, "mika"),
            (self.lead, "leo"),
            (self.administrator, "ada"),
            (self.finance, "finn"),
        ):
            page = visitor.sign_in(name, PASSWORD)
            expect(page.status == 200 and page.path == "/", f"{name} came to {page.path}: {page.text[:300]}")
        return "rhea, mika, leo, ada, finn"

    def bind_namespace(self) -> str:
        """the administrator binds a namespace to the project"""
        page = self.administrator.get(f"/projects/{PROJECT}/")
        form = page.form(action="/namespaces/")
        cluster = _choice(form.choices["cluster"], CLUSTER)
        after = self.administrator.submit(page, form, cluster=cluster, namespace=self.room.namespace)
        expect(self.room.namespace in after.text, after.text[:500])
        return f"{self.room.namespace} → {PROJECT}"

    def publish_devices(self) -> str:
        """a driver publishes two devices"""
        self.class_name = self.room.machine("gpu-0", "gpu-1")
        return f"{self.class_name} on {self.room.name('a')}"

    def browse(self) -> str:
        """the researcher finds them free in the device list"""
        page = self._until(
            self._devices,
            lambda found: found.states.count("free") == 2,
            "two free devices in the list",
        )
        link = re.search(r'href="(/devices/\d+/)"', page.response.text)
        expect(link is not None, "no link to a device page")
        assert link is not None
        device = self.researcher.get(link[1])
        expect(device.status == 200 and self.room.driver in device.text, device.text[:300])
        return link[1]

    def refuse_nonsense(self) -> str:
        """the form refuses a memory of “eighty” next to the field and keeps what was typed"""
        page = self._ask(count="1", min_memory="eighty", purpose="a smoke run")
        expect(page.status in {200, 422} and "/requests/" in page.path, page.path)
        form = page.form(having="purpose")
        expect(form.fields["min_memory"] == "eighty", f"typed text lost: {form.fields}")
        expect(form.fields["purpose"] == "a smoke run", f"typed text lost: {form.fields}")
        claims = self.room.client.list_all(RESOURCE_CLAIMS, namespace=self.room.namespace)
        expect(not claims, f"a claim was made: {claims}")
        return "nothing was made"

    def request(self) -> str:
        """the researcher asks for one device"""
        page = self._ask(count="1", min_memory="40Gi", purpose="a smoke run")
        expect(
            re.fullmatch(r"/requests/[0-9a-f-]{36}/", page.path) is not None,
            f"{page.path}: {page.text[:600]}",
        )
        self.request_path = page.path
        return self.request_path

    def waiting_for_pod(self) -> str:
        """a claim exists on the cluster and waits for a Pod"""
        page = self._until_state("waiting-for-pod")
        claims = self.room.client.list_all(RESOURCE_CLAIMS, namespace=self.room.namespace)
        expect(len(claims) == 1, f"{len(claims)} claims on the cluster")
        (claim,) = claims
        self.claim_name = claim["metadata"]["name"]
        expect(not (claim.get("status") or {}).get("allocation"), "it is allocated without any Pod")
        expect(self.claim_name in page.element("pod-snippet"), "the snippet does not name the claim")
        return self.claim_name

    def hide_from_strangers(self) -> str:
        """to a stranger the request does not exist, and finance may not read it"""
        for visitor, wanted in ((self.stranger, 404), (self.finance, 403)):
            page = visitor.get(self.request_path)
            expect(page.status == wanted, f"{page.status} instead of {wanted}")
        return "404, 403"

    def hold(self) -> str:
        """one click holds the device"""
        page = self.researcher.get(self.request_path)
        after = self.researcher.submit(page, page.form(action="/hold/"))
        expect(after.status == 200, after.text[:300])
        self._until_state("allocated")
        ((_pool, self.device),) = self.room.devices_of(self.claim_name)
        page = self._until(
            lambda: self.researcher.get(self.request_path),
            lambda found: self.device in found.text and self.room.name("a") in found.text,
            "the page names device and node",
        )
        return f"{self.device} on {self.room.name('a')}"

    def show_held(self) -> str:
        """everybody sees the device held by the project"""
        page = self._until(
            lambda: self._devices(self.finance),
            lambda found: "held" in found.states and "Protein folding" in found.text,
            "one held device",
        )
        expect(sorted(page.states) == ["free", "held"], str(page.states))
        return "held by Protein folding"

    def join(self) -> str:
        """a workload Pod made from the page's example joins"""
        example = self.researcher.get(self.request_path).element("pod-example")
        pod: dict[str, Any] = yaml.safe_load(example)
        pod["spec"]["nodeSelector"] = self.room.label
        self.room.client.create(PODS, pod, namespace=self.room.namespace)
        name = str(pod["metadata"]["name"])
        self.room.until_running(name)
        self._until_state("in-use")
        self.workload = name
        return name

    def history(self) -> str:
        """the history says who holds it since when, as a page and as CSV"""
        page = self._until(
            lambda: self.lead.get("/history/", q=self.device, project=PROJECT),
            lambda found: self.device in found.text and self.claim_name in found.text,
            "the device and its claim in the history",
        )
        expect(page.status == 200, str(page.status))
        link = re.search(r'href="([^"]*\.csv[^"]*)"', page.response.text)
        assert link is not None, "no CSV link"
        csv = self.lead.get(link[1].replace("&amp;", "&"))
        expect(csv.status == 200 and self.claim_name in csv.response.text, csv.response.text[:300])
        return f"{len(csv.response.text.splitlines()) - 1} line(s) of CSV"

    def cost(self) -> str:
        """the cost page shows what the project pays"""
        page = self.finance.get("/cost/")
        expect(page.status == 200 and "Protein folding" in page.text, page.text[:500])
        amount = re.search(r"€\s?[\d.,]+", page.text)
        expect(amount is not None, f"no amount: {page.text[:800]}")
        assert amount is not None
        return amount[0]

    def rest(self) -> str:
        """the same over REST, with a token from the page"""
        page = self.researcher.get("/tokens/")
        form = page.form(having="name")
        scopes = list(form.choices["scopes"])
        after = self.researcher.submit(page, form, name="smoke", scopes=scopes)
        token = re.search(r"\bcdesk_[0-9a-f]{40,}\b", after.text)
        expect(token is not None, f"no token is shown: {after.text[:600]}")
        assert token is not None
        self.token = token[0]
        rows = self._api("requests/")["results"]
        expect([row["state"] for row in rows] == ["in-use"], str(rows))
        devices = self._api("devices/", q=self.room.driver)["results"]
        expect({device["state"] for device in devices} == {"held", "free"}, str(devices))
        allocations = self._allocations()
        expect([row["device"] for row in allocations] == [self.device], str(allocations))
        lines = [
            row for row in self._api("charges/lines/")["lines"] if row["device_class"] == self.class_name
        ]
        expect(len(lines) == 1 and int(lines[0]["exact_numerator"]) > 0, str(lines))
        refused = requests.get(f"{self.stack.url}/api/v1/devices/", timeout=10)
        expect(refused.status_code == 401, f"without a token: {refused.status_code}")
        return f"{len(devices)} devices, 1 request, 1 allocation"

    def release(self) -> str:
        """the workload ends and the researcher releases the device"""
        self.room.client.delete(PODS, self.workload, namespace=self.room.namespace)
        self.room.until_gone(PODS, self.workload)
        self._until_state("allocated")
        page = self.researcher.get(f"{self.request_path}release/")
        after = self.researcher.submit(page, page.form(action="/release/"))
        expect(after.status == 200, after.text[:300])
        self._until_state("ended")
        self.room.until_gone(RESOURCE_CLAIMS, self.claim_name)
        return "claim and hold are gone"

    def free_again(self) -> str:
        """both devices are free again, and the history has an end"""
        self._until(self._devices, lambda found: found.states.count("free") == 2, "two free devices")

        (row,) = self._until(
            self._allocations, lambda rows: bool(rows and rows[0]["ended_at"]), "the allocation has an end"
        )
        return f"{row['started_at']} – {row['ended_at']}"

    STEPS = (
        *(
            refuse_the_desk,
            add_cluster,
            sign_in,
            bind_namespace,
            publish_devices,
            browse,
            refuse_nonsense,
            request,
        ),
        *(waiting_for_pod, hide_from_strangers, hold, show_held, join, history, cost, rest),
        *(release, free_again),
    )

    # Helps

    def _ask(self, **fields: str) -> Page:
        page = self.researcher.get("/requests/new/", project=PROJECT, cluster=CLUSTER)
        form = page.form(having="purpose")
        query = {
            "project": _choice(form.choices["project"], PROJECT, "Protein folding"),
            "cluster": _choice(form.choices["cluster"], CLUSTER),
        }
        page = self.researcher.get("/requests/new/", **query)
        form = page.form(having="purpose")
        choice = {"device_class": self.class_name, "shape": "claim", "duration": "2"}
        if "namespace" in form.choices:
            choice["namespace"] = self.room.namespace
        return self.researcher.submit(page, form, **query, **choice, **fields)

    def _devices(self, visitor: Visitor | None = None) -> Page:
        return (visitor or self.researcher).get("/devices/", q=self.room.driver)

    def _api(self, path: str, **query: str) -> dict[str, Any]:
        answer = requests.get(
            f"{self.stack.url}/api/v1/{path}",
            params=query,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=20,
        )
        expect(answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}")
        found: dict[str, Any] = answer.json()
        return found

    def _allocations(self) -> list[dict[str, Any]]:
        """The history of this run's claim."""
        return [row for row in self._api("allocations/")["results"] if row["claim"] == self.claim_name]

    def _until_state(self, state: str) -> Page:
        return self._until(
            lambda: self.researcher.get(self.request_path),
            lambda page: page.states[:1] == [state],
            f"the request is {state}",
        )

    def _until(self, look: Callable[[], T], good: Callable[[T], bool], what: str) -> T:
        deadline = time.monotonic() + STEP_SECONDS
        while True:
            self.stack.check()
            seen = look()
            if good(seen):
                return seen
            if time.monotonic() > deadline:
                shown = f"{seen.states} {seen.text[:1200]}" if isinstance(seen, Page) else str(seen)
                raise StepFailed(f"not within {STEP_SECONDS:.0f} s: {what}. Last seen: {shown}")
            time.sleep(0.1)

    def _manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env=self.stack.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        expect(done.returncode == 0, f"manage.py {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout


def expect(held: bool, otherwise: str) -> None:
    if not held:
        raise StepFailed(otherwise)


def refused(call: Callable[[], object]) -> bool:
    """Whether the cluster answers a call with Forbidden."""
    try:
        call()
    except Forbidden:
        return True
    return False


def is_allowed(client: Client, verb: str, resource: Resource) -> bool:
    """What the cluster says that an account may do."""
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
    body = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    return bool(client.create(ACCESS_REVIEWS, body)["status"]["allowed"])


def _choice(choices: dict[str, str], *names: str) -> str:
    """The value of the choice that is, or whose label contains, one of the names."""
    for value, label in choices.items():
        if value and any(name == value or name in label for name in names):
            return value
    raise StepFailed(f"no choice of {', '.join(names)} among {choices}")


@contextlib.contextmanager
def running_desk(directory: Path, kubeconfig: Path | None) -> Iterator[tuple[Stack, Path]]:
    """The whole desk over a data directory, with the sample people; gives it and the cluster's kubeconfig."""
    stack = Stack(directory / "desk", free_port(), None if kubeconfig else free_port())
    try:
        stack.claim_directory()
        stack.start_valkey()
        if kubeconfig is None:
            stack.start_cluster()
        for command in (("migrate", "--verbosity", "0"), ("sample",)):
            subprocess.run(
                [sys.executable, "manage.py", *command],
                env=stack.environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        stack.start_portal()
        if kubeconfig is None:
            stack.wait_for_cluster()
        stack.wait_for_web()
        yield stack, kubeconfig or stack.cluster_kubeconfig
    finally:
        stack.stop()


def run(kubeconfig: Path | None) -> int:
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="claimdesk-smoke-") as directory,
        contextlib.ExitStack() as cleanup,
    ):
        try:
            stack, used = cleanup.enter_context(running_desk(Path(directory), kubeconfig))
            _say(time.monotonic() - started, "the whole desk is up", stack.url)
            client = cleanup.enter_context(Client(Credentials.from_kubeconfig(used), timeout=30.0))
            own = cleanup.enter_context(Client(Credentials.from_kubeconfig(used), timeout=30.0))
            kubelet = FakeKubelet(own).start()
            cleanup.callback(kubelet.stop)
            room = Room(client, kubelet)
            cleanup.callback(_leave, room)
            room.open()
            if kubeconfig is not None:
                used = cleanup.enter_context(
                    shipped_account(
                        client, kubeconfig=kubeconfig, namespace=room.namespace, directory=Path(directory)
                    )
                )
            walk = Walk(stack, room, used)
            for step in Walk.STEPS:
                before = time.monotonic()
                told = step(walk)
                _say(time.monotonic() - before, " ".join((step.__doc__ or "").split()), told)
        except (
            StepFailed,
            AssertionError,
            UnableToStart,
            ClusterError,
            requests.RequestException,
        ) as failure:
            sys.stdout.write(f"FAILED: {failure}\n")
            for log in sorted((Path(directory) / "desk" / "logs").glob("*.log")):
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
                sys.stdout.write(f"--- {log.name}\n{tail}\n")
            return 1
        before = time.monotonic()
    _say(time.monotonic() - before, "everything is removed and stopped", "")
    sys.stdout.write(f"Every step held, in {time.monotonic() - started:.1f} s.\n")
    return 0


def _leave(room: Room) -> None:
    """Remove what was made, and see that it is gone."""
    room.close()
    room.wait_for(room.is_gone, f"namespace {room.namespace} gone", seconds=LEAVE_SECONDS)


def _say(seconds: float, what: str, told: str) -> None:
    sys.stdout.write(f"{seconds:6.2f} s  {what}{': ' if told else ''}{told}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make smoke", description=__doc__)
    parser.add_argument(
        "--kubeconfig", type=Path, help="a real cluster; its current context may do everything"
    )
    kubeconfig = parser.parse_args(arguments).kubeconfig
    # This process only visits the desk: the errors of `portal.kube` stay in English.
    settings.configure(USE_I18N=False)
    return run(kubeconfig)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
