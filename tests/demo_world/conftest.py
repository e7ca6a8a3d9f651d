"""A store with its controllers in one event loop, without HTTP and without waiting for containers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest

from portal.demo import controllers
from portal.demo.controllers import kubelet, nodes, scheduling
from portal.demo.errors import ApiError
from portal.demo.fleet import build
from portal.demo.fleet.build import Object
from portal.demo.namespaces import found_first
from portal.demo.store import Store

T = TypeVar("T")
SPACE = "lab"
DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
DEADLINE = 5.0


class Town:
    """A small cluster under its controllers, and words for what tests do with it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # Making

    def node(self, short: str = "one", *, gpus: int = 0, **options: Any) -> str:
        """A ready machine with plain GPUs; gives its full name."""
        body = build.node(short, zone="hall", cpu=8, memory="64Gi", **options)
        name = str(body["metadata"]["name"])
        devices = [{"name": f"gpu-{index}"} for index in range(gpus)]
        slices = (
            build.resource_slices(driver=DRIVER, node=name, contents=[{"devices": devices}]) if gpus else []
        )
        self.store.load([body, *slices])
        return name

    def device_class(self, name: str = CLASS, **options: Any) -> str:
        self.store.create("deviceclasses", build.device_class(name, **options))
        return name

    def claim(self, name: str, *, count: int = 1, device_class: str = CLASS) -> Object:
        spec = build.claim_spec([build.exact_request("gpu", device_class, count=count)])
        return self.store.create("resourceclaims", build.resource_claim(name, SPACE, spec))

    def template(self, name: str, *, device_class: str = CLASS) -> Object:
        spec = build.claim_spec([build.exact_request("gpu", device_class)])
        return self.store.create("resourceclaimtemplates", build.resource_claim_template(name, SPACE, spec))

    def pod(self, name: str, *, annotations: Mapping[str, str] | None = None, **options: Any) -> Object:
        body = build.pod(name, SPACE, build.pod_spec(**options), annotations=annotations)
        return self.store.create("pods", body)

    # Looking

    def get_pod(self, name: str) -> Object:
        return self.store.get("pods", name, namespace=SPACE)

    def get_claim(self, name: str) -> Object:
        return self.store.get("resourceclaims", name, namespace=SPACE)

    def phase(self, name: str) -> str:
        return str(self.get_pod(name).get("status", {}).get("phase", ""))

    def devices(self, claim: str) -> list[tuple[str, str]]:
        """(pool, device) of what a claim holds; empty if nothing."""
        allocation = (self.get_claim(claim).get("status") or {}).get("allocation") or {
            "devices": {"results": []}
        }
        return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]

    def consumers(self, claim: str) -> list[str]:
        return [entry["name"] for entry in (self.get_claim(claim).get("status") or {}).get("reservedFor", ())]

    def exists(self, plural: str, name: str, namespace: str = SPACE) -> bool:
        return self.store.find(plural, name, namespace=namespace) is not None

    def why_pending(self, name: str) -> str:
        """What the scheduler says about a Pod; empty as long as it says nothing."""
        for condition in self.get_pod(name).get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return ""

    async def until(self, look: Callable[[], T], what: str) -> T:
        """Let the controllers work until what is seen is true."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DEADLINE
        while True:
            try:
                if seen := look():
                    return seen
            except ApiError as error:
                if error.status_code != 404:
                    raise
            if loop.time() > end:
                raise AssertionError(f"not within {DEADLINE} s: {what}")
            await asyncio.sleep(0.005)

    async def until_running(self, *names: str) -> None:
        for name in names:
            await self.until(lambda name=name: self.phase(name) == "Running", f"Pod {name} running")  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    async def until_free(self, claim: str) -> None:
        await self.until(lambda: not self.get_claim(claim).get("status"), f"claim {claim} free")


@contextlib.asynccontextmanager
async def governed(store: Store, **options: Any) -> AsyncIterator[Town]:
    """The controllers at work on a store; a controller that fails fails the test."""
    tasks = [asyncio.create_task(controllers.run(store, **options))]
    try:
        yield Town(store)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def fresh_store() -> Store:
    """A store with the first namespaces and the one of the tests."""
    store = Store()
    found_first(store)
    store.create("namespaces", build.namespace(SPACE))
    return store


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet, "START_SECONDS", 0.0)
    monkeypatch.setattr(kubelet, "STOP_SECONDS", 0.0)
    monkeypatch.setattr(nodes, "ORPHAN_SECONDS", 0.05)
    monkeypatch.setattr(scheduling, "FIRST_BACKOFF", 0.01)


Story = Callable[[Town], Awaitable[None]]


@pytest.fixture
def play() -> Callable[[Story], None]:
    """Run an async story against a fresh cluster."""

    def run(story: Story) -> None:
        async def evening() -> None:
            async with governed(fresh_store()) as town:
                await story(town)

        asyncio.run(evening())

    return run
