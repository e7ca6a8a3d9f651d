"""A corner of a cluster for one test: names of its own, waiting with a deadline, and nothing left behind."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from portal.kube.client import Client
from portal.kube.errors import ClusterError, Conflict, Forbidden, NotFound
from portal.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from tests.contract import objects
from tests.contract.kubelet import LEASE_NAMESPACE, LEASES, FakeKubelet
from tests.contract.objects import Object

T = TypeVar("T")
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts", namespaced=True, kind="ServiceAccount")
LABEL = "contract.claimdesk.example/room"
# A scheduler backs off for up to 10 s between two attempts at a Pod, and a node controller looks every 5 s.
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.05


class Room:
    """What one test makes of a cluster. All names begin with ``prefix``; ``driver`` is nobody else's."""

    def __init__(self, client: Client, kubelet: FakeKubelet) -> None:
        self.client = client
        self.kubelet = kubelet
        self.prefix = f"contract-{secrets.token_hex(4)}"
        self.driver = f"{self.prefix}.example.com"
        self.label = {LABEL: self.prefix}
        self.namespace = self.prefix
        self._made: list[tuple[Resource, str, str]] = []

    # Making things

    def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """Create an object that is removed at the end."""
        space = (namespace or self.namespace) if resource.namespaced else ""
        made = self.client.create(resource, body, namespace=space)
        self._made.append((resource, space, made["metadata"]["name"]))
        return made

    def expect(self, resource: Resource, name: str) -> None:
        """Have an object removed at the end that somebody else may make."""
        self._made.append((resource, self.namespace if resource.namespaced else "", name))

    def open(self) -> "Room":
        """Make the namespace, and wait until Pods can be made in it."""
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": self.label},
        }
        self.create(NAMESPACES, body)
        self.wait_for(lambda: self.find(SERVICE_ACCOUNTS, "default"), "the ServiceAccount default")
        return self

    def name(self, suffix: str) -> str:
        """A name that is this room's alone, for objects outside of namespaces."""
        return f"{self.prefix}-{suffix}"

    def node(self, suffix: str = "a", *, ready: bool = True, **spec: Any) -> str:
        """A node with a kubelet; gives its name."""
        name = self.name(suffix)
        self.create(NODES, objects.node(name, self.label, **spec))
        self._made.append((LEASES, LEASE_NAMESPACE, name))
        self.kubelet.adopt(name, ready=ready)
        if ready and not spec:
            self.wait_for(
                lambda: not self.client.get(NODES, name)["spec"].get("taints"), "a node without taints"
            )
        return name

    def publish(self, node: str, devices: Sequence[Object], *, suffix: str = "", **more: Any) -> Object:
        """A slice of this room's driver, in the pool that is named as the node."""
        number = len([entry for entry in self._made if entry[0] is RESOURCE_SLICES])
        more.setdefault("driver", self.driver)
        more.setdefault("pool", node)
        body = objects.resource_slice(
            self.name(f"slice-{number}{suffix}"), node=node, devices=devices, **more
        )
        return self.create(RESOURCE_SLICES, body)

    def device_class(self, suffix: str = "any", *expressions: str, **more: Any) -> str:
        """A class for the devices of this room; gives its name."""
        name = self.name(suffix)
        self.create(
            DEVICE_CLASSES,
            objects.device_class(name, f"device.driver == '{self.driver}'", *expressions, **more),
        )
        return name

    def machine(self, *devices: str, suffix: str = "a") -> str:
        """A ready node with plain devices and a class (named ``any``) for them; gives the class."""
        node = self.node(suffix)
        self.publish(node, [objects.device(name) for name in devices])
        return self.device_class()

    def claim(self, name: str, *requests: Object, **devices: Any) -> Object:
        """A claim in the room's namespace."""
        return self.create(RESOURCE_CLAIMS, objects.claim(name, requests, **devices))

    def template(self, name: str, *requests: Object) -> Object:
        """A claim template in the room's namespace."""
        return self.create(RESOURCE_CLAIM_TEMPLATES, objects.template(name, requests))

    def pod(self, name: str, **more: Any) -> Object:
        """A Pod that can only go to nodes of this room."""
        return self.create(PODS, objects.pod(name, node_selector=self.label, **more))

    # Looking

    def find(self, resource: Resource, name: str) -> Object | None:
        """An object of the room's namespace (or of the cluster), or None."""
        try:
            return self.client.get(resource, name, namespace=self.namespace)
        except NotFound:
            return None

    def get_claim(self, name: str) -> Object:
        return self.client.get(RESOURCE_CLAIMS, name, namespace=self.namespace)

    def get_pod(self, name: str) -> Object:
        return self.client.get(PODS, name, namespace=self.namespace)

    def wait_for(self, look: Callable[[], T], what: str, *, seconds: float = WAIT_SECONDS) -> T:
        """Look again and again until what is seen is true, and give it."""
        deadline = time.monotonic() + seconds
        while True:
            seen = look()
            if seen:
                return seen
            if time.monotonic() > deadline:
                trouble = (
                    f"; the fake kubelet had: {self.kubelet.errors[-1].message}"
                    if self.kubelet.errors
                    else ""
                )
                raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen: {seen!r}{trouble}")
            time.sleep(POLL_SECONDS)

    def until_allocated(self, name: str) -> Object:
        """The claim, once it has devices."""

        def look() -> Object | None:
            found = self.get_claim(name)
            return found if (found.get("status") or {}).get("allocation") else None

        return self.wait_for(look, f"claim {name} allocated") or {}

    def until_free(self, name: str) -> Object:
        """The claim, once it holds nothing and nobody reserves it."""

        def look() -> Object | None:
            found = self.get_claim(name)
            status = found.get("status") or {}
            return None if status.get("allocation") or status.get("reservedFor") else found

        return self.wait_for(look, f"claim {name} without devices") or {}

    def until_running(self, name: str) -> Object:
        """The Pod, once it runs."""

        def look() -> Object | None:
            found = self.get_pod(name)
            return found if found["status"].get("phase") == "Running" else None

        return self.wait_for(look, f"Pod {name} running") or {}

    def until_unschedulable(self, name: str, *words: str) -> str:
        """The scheduler's message, once it says that the Pod fits nowhere (and, if given, these words)."""

        def look() -> str:
            for condition in self.get_pod(name)["status"].get("conditions", ()):
                said = condition.get("message", "")
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return said if all(word in said for word in words) else ""
            return ""

        return self.wait_for(look, f"Pod {name} unschedulable {words}")

    def until_gone(self, resource: Resource, name: str) -> None:
        self.wait_for(lambda: self.find(resource, name) is None, f"{resource.plural} {name} gone")

    def devices_of(self, name: str) -> list[tuple[str, str]]:
        """(pool, device) of what a claim holds."""
        allocation = self.get_claim(name)["status"]["allocation"]
        return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]

    def is_admitted(self, device_class: str) -> bool:
        """Whether a claim for one device would be taken. Admission reads quotas from a cache of its own, and
        refuses all that they count as long as they have no status there."""
        body = objects.claim("probe", [objects.request(device_class)])
        try:
            return bool(self.client.create(RESOURCE_CLAIMS, body, namespace=self.namespace, dry_run=True))
        except Forbidden:
            return False

    def events_of(self, obj: Object) -> list[Object]:
        """The Events about an object."""
        uid = obj["metadata"]["uid"]
        return self.client.list_all(
            EVENTS, namespace=self.namespace, field_selector=f"involvedObject.uid={uid}"
        )

    def until_event(self, obj: Object, reason: str) -> Object:
        """An Event about an object that has this reason. What it says may be old: a scheduler that fails
        again adds to the series of its first Event, and keeps that one's message."""

        def look() -> Object | None:
            return next((event for event in self.events_of(obj) if event["reason"] == reason), None)

        return self.wait_for(look, f"an Event {reason}") or {}

    def delete_pod(self, name: str) -> None:
        """As a user deletes: gracefully."""
        self.client.delete(PODS, name, namespace=self.namespace)

    # Leaving

    def close(self) -> None:
        """Remove everything; the first thing that resists is reported after all others were tried.

        The namespace takes its time to go (`is_gone` tells); nobody waits for it here.
        """
        problems: list[ClusterError] = []
        for resource, _, name in self._made:
            if resource is NODES:
                self.kubelet.forget(name)
        for resource, space, name in self._made:
            if resource is JOBS:  # or it would make new Pods for those that go
                with _noting(problems):
                    self.client.delete(JOBS, name, namespace=space)
        self._remove_pods(problems)
        for claim in self._listed(RESOURCE_CLAIMS):
            with _noting(problems):
                self.client.delete(RESOURCE_CLAIMS, claim, namespace=self.namespace)
                self._let_go(claim)
        for resource, space, name in reversed(self._made):
            with _noting(problems):
                self.client.delete(resource, name, namespace=space)
        if problems:
            raise problems[0]

    def _remove_pods(self, problems: list[ClusterError]) -> None:
        """By force, since nobody serves their nodes any more; again, since a Job takes a moment to end."""
        deadline = time.monotonic() + 10
        while (pods := self._listed(PODS)) and time.monotonic() < deadline:
            for pod in pods:
                with _noting(problems):
                    self.client.delete(PODS, pod, namespace=self.namespace, grace_period_seconds=0)
            time.sleep(POLL_SECONDS)

    def is_gone(self) -> bool:
        """Whether nothing is left."""
        return self.find(NAMESPACES, self.namespace) is None

    def _listed(self, resource: Resource) -> list[str]:
        with contextlib.suppress(NotFound):
            return [
                obj["metadata"]["name"] for obj in self.client.list_all(resource, namespace=self.namespace)
            ]
        return []

    def _let_go(self, claim: str) -> None:
        """A claim that a test filled in by hand has no controller that would take its finalizers off."""
        deadline = time.monotonic() + 5
        while self.find(RESOURCE_CLAIMS, claim) is not None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.client.patch(
            RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": None}}, namespace=self.namespace
        )


@contextlib.contextmanager
def _noting(problems: list[ClusterError]) -> Iterator[None]:
    try:
        yield
    except (NotFound, Conflict):
        pass
    except ClusterError as error:
        problems.append(error)
