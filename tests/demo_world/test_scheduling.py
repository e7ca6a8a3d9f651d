"""Where Pods go, what is said when they go nowhere, and what survives a crash in between."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from portal.demo.controllers.fit import demand
from portal.demo.errors import ApiError
from portal.demo.fleet import build
from portal.demo.store import Store
from portal.dra.model import Pod, decode_object
from tests.demo_world.conftest import CLASS, SPACE, Story, Town, fresh_store, governed

Play = Callable[[Story], None]
HELPLESS = "Preemption is not helpful for scheduling."


def test_a_pod_that_fits_nowhere_hears_why_in_the_schedulers_words(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node("one", gpus=1)
        town.node("two", gpus=1, cordoned=True)
        town.node("three", gpus=1, ready=False)
        town.claim("much", count=2)
        town.pod("waiting", claims={"gpus": "much"})
        message = await town.until(lambda: town.why_pending("waiting"), "a message")
        assert message == (
            "0/3 nodes are available: 1 cannot allocate all claims, 1 node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable. still not schedulable, "
            f"preemption: 0/3 nodes are available: 3 {HELPLESS}"
        )
        events = town.store.list("events", namespace=SPACE, fields="reason=FailedScheduling")
        assert [event["message"] for event in events] == [message]
        assert not town.get_claim("much").get("status")

    play(story)


def test_a_pod_without_claims_is_told_what_is_short(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        town.pod("greedy", limits={"cpu": "64"})
        message = await town.until(lambda: town.why_pending("greedy"), "a message")
        assert message.startswith("0/1 nodes are available: 1 Insufficient cpu. preemption:")

    play(story)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("absent", 'resourceclaim.resource.k8s.io "absent" not found'),
        ("classless", "request gpu: device class no-such-class does not exist"),
    ],
)
def test_what_is_missing_is_named(play: Play, named: str, message: str) -> None:
    async def story(town: Town) -> None:
        town.node(gpus=1)
        town.claim("classless", device_class="no-such-class")
        town.pod("waiting", claims={"gpu": named})
        assert message in await town.until(lambda: town.why_pending("waiting"), "a message")

    play(story)


def test_what_was_missing_is_noticed_when_it_comes(play: Play) -> None:
    async def story(town: Town) -> None:
        town.pod("waiting", claims={"gpu": "one"})
        await town.until(lambda: town.why_pending("waiting"), "a message")
        town.claim("one")
        town.device_class()
        town.node(gpus=1)
        await town.until_running("waiting")

    play(story)


def test_a_device_is_held_by_one_claim_at_a_time(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=3)
        for number in range(5):
            town.claim(f"claim-{number}")
            town.pod(f"pod-{number}", claims={"gpu": f"claim-{number}"})
        held = await town.until(
            lambda: (
                [d for n in range(5) for d in town.devices(f"claim-{n}")]
                if sum(town.phase(f"pod-{n}") == "Running" for n in range(5)) == 3
                else []
            ),
            "three Pods running",
        )
        assert len(held) == len(set(held)) == 3

    play(story)


def test_a_second_consumer_goes_to_where_the_claim_is(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node("one", gpus=1)
        town.claim("shared")
        town.pod("first", claims={"gpu": "shared"})
        await town.until_running("first")
        town.node("two", gpus=1)
        town.node("three", gpus=1)
        town.pod("second", claims={"gpu": "shared"})
        await town.until_running("second")
        assert town.get_pod("second")["spec"]["nodeName"] == town.get_pod("first")["spec"]["nodeName"]

    play(story)


def test_the_emptier_node_is_taken_first(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node("one")
        town.node("two")
        for number in range(4):
            town.pod(f"pod-{number}")
            await town.until_running(f"pod-{number}")
        placed = [town.get_pod(f"pod-{number}")["spec"]["nodeName"] for number in range(4)]
        assert {placed.count(node) for node in placed} == {2}

    play(story)


def test_uncordoning_a_node_wakes_the_pods_that_wait(play: Play) -> None:
    async def story(town: Town) -> None:
        node = town.node(cordoned=True)
        town.pod("waiting")
        await town.until(lambda: town.why_pending("waiting"), "a message")
        raw = town.store.get("nodes", node)
        del raw["spec"]["unschedulable"]
        town.store.update("nodes", raw)
        await town.until_running("waiting")
        assert not town.store.get("nodes", node)["spec"].get("taints")

    play(story)


def test_an_extended_resource_is_served_by_the_nodes_plugin_where_it_has_one(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class(extended_resource="example.com/gpu")
        town.node("old", extended={"example.com/gpu": "1"})
        town.pod("user", limits={"example.com/gpu": "1"})
        await town.until_running("user")
        assert not town.store.list("resourceclaims", namespace=SPACE)
        town.pod("next", limits={"example.com/gpu": "1"})
        assert "Insufficient example.com/gpu" in await town.until(
            lambda: town.why_pending("next"), "a message"
        )

    play(story)


def test_an_extended_resource_becomes_a_claim_where_drivers_serve_it(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class(extended_resource="example.com/gpu")
        node = town.node("new", gpus=2)
        pod = town.pod("user", limits={"example.com/gpu": "2"})
        await town.until_running("user")
        status = town.get_pod("user")["status"]["extendedResourceClaimStatus"]
        name = status["resourceClaimName"]
        assert status["requestMappings"] == [
            {
                "containerName": "main",
                "resourceName": "example.com/gpu",
                "requestName": "container-0-request-0",
            }
        ]
        claim = town.get_claim(name)
        assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        assert town.devices(name) == [(node, "gpu-0"), (node, "gpu-1")]
        town.store.delete("pods", "user", namespace=SPACE)
        await town.until(lambda: not town.exists("resourceclaims", name), "the scheduler's claim gone")

    play(story)


def test_a_class_can_be_asked_for_by_its_implicit_resource_name(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        node = town.node(gpus=1)
        town.pod("user", limits={f"deviceclass.resource.kubernetes.io/{CLASS}": "1"})
        await town.until_running("user")
        name = town.get_pod("user")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert town.devices(name) == [(node, "gpu-0")]

    play(story)


class Interrupted(Store):
    """A store whose process ends after a number of writes: every later one fails as if nobody were there."""

    writes_left = 10**9

    def _spend(self) -> None:
        if self.writes_left <= 0:
            raise ApiError(503, "ServiceUnavailable", "the process has ended")
        self.writes_left -= 1

    def create(self, *args: Any, **options: Any) -> Any:
        self._spend()
        return super().create(*args, **options)

    def update(self, *args: Any, **options: Any) -> Any:
        self._spend()
        return super().update(*args, **options)

    def update_status(self, *args: Any, **options: Any) -> Any:
        self._spend()
        return super().update_status(*args, **options)

    def bind(self, *args: Any, **options: Any) -> Any:
        self._spend()
        return super().bind(*args, **options)

    def delete(self, *args: Any, **options: Any) -> Any:
        self._spend()
        return super().delete(*args, **options)


@pytest.mark.parametrize("writes", range(1, 12))
@pytest.mark.parametrize("kind", ["claim", "template", "extended"])
def test_a_crash_after_any_write_leaves_something_to_go_on_from(kind: str, writes: int) -> None:
    async def evening() -> None:
        store = Interrupted()
        setup = fresh_store()
        store.load(obj for plural in ("namespaces", "serviceaccounts") for obj in _clean(setup.list(plural)))
        town = Town(store)
        town.device_class(extended_resource="example.com/gpu")
        node = town.node(gpus=1)
        town.claim("one")
        town.template("wish")
        wishes: dict[str, Any] = {
            "claim": {"claims": {"gpu": "one"}},
            "template": {"templates": {"gpu": "wish"}},
            "extended": {"limits": {"example.com/gpu": "1"}},
        }
        town.pod("user", **wishes[kind])
        store.writes_left = writes
        async with governed(store, kubelet=False):
            await town.until(
                lambda: store.writes_left <= 0 or town.get_pod("user")["spec"].get("nodeName"),
                "the last write",
            )
        store.writes_left = 10**9
        async with governed(store):
            await town.until_running("user")
            claims = [claim for claim in store.list("resourceclaims", namespace=SPACE) if claim.get("status")]
            (claim,) = claims
            assert town.devices(claim["metadata"]["name"]) == [(node, "gpu-0")]
            assert len(claim["status"]["reservedFor"]) == 1
            if kind == "extended":
                told = town.get_pod("user")["status"]["extendedResourceClaimStatus"]
                assert told["resourceClaimName"] == claim["metadata"]["name"]
                assert [entry["requestName"] for entry in told["requestMappings"]] == [
                    "container-0-request-0"
                ]
            store.delete("pods", "user", namespace=SPACE)
            await town.until(
                lambda: not any(c.get("status") for c in store.list("resourceclaims", namespace=SPACE)),
                "the device free again",
            )
            await town.until(
                lambda: (
                    [c["metadata"]["name"] for c in store.list("resourceclaims", namespace=SPACE)] == ["one"]
                ),
                "only the claim that a person made left",
            )

    asyncio.run(evening())


def _clean(objects: list[build.Object]) -> list[build.Object]:
    for obj in objects:
        obj["metadata"].pop("resourceVersion", None)
    return objects


def test_what_a_pod_demands_is_the_greater_of_its_containers_and_any_init_container() -> None:
    def container(name: str, cpu: str, **more: Any) -> build.Object:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    pod = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "containers": [container("a", "1"), container("b", "500m")],
                "initContainers": [container("i", "2"), container("s", "1", restartPolicy="Always")],
            },
        }
    )
    assert isinstance(pod, Pod)
    assert demand(pod) == {"cpu": 2_500_000_000}
