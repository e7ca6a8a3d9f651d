"""Pods leave devices that carry a NoExecute taint, unless they tolerate it."""

from collections.abc import Callable
from datetime import UTC, datetime

from portal.demo.fleet import build
from portal.demo.fleet.build import Object
from tests.demo_world.conftest import CLASS, DRIVER, SPACE, Story, Town

Play = Callable[[Story], None]


def taint_first_device(town: Town, effect: str) -> None:
    (item,) = town.store.list("resourceslices")
    added = build.timestamp(datetime.now(UTC))
    item["spec"]["devices"][0]["taints"] = [{"key": "example.com/ill", "effect": effect, "timeAdded": added}]
    item["spec"]["pool"]["generation"] += 1
    town.store.update("resourceslices", item)


def claim_that_tolerates(town: Town, toleration: Object) -> None:
    request = build.exact_request("gpu", CLASS)
    request["exactly"]["tolerations"] = [{"key": "example.com/ill", "operator": "Exists", **toleration}]
    town.store.create("resourceclaims", build.resource_claim("one", SPACE, build.claim_spec([request])))


def test_a_taint_that_only_keeps_newcomers_away_leaves_the_pod_alone(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=2)
        town.claim("one")
        town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        taint_first_device(town, "NoSchedule")
        town.claim("two")
        town.pod("next", claims={"gpu": "two"})
        await town.until_running("next")
        assert town.phase("user") == "Running"
        assert [device for _, device in town.devices("two")] == ["gpu-1"]

    play(story)


def test_an_executing_taint_evicts_the_pod_and_frees_the_device(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        town.claim("one")
        town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        taint_first_device(town, "NoExecute")
        await town.until(lambda: not town.exists("pods", "user"), "the Pod evicted")
        await town.until_free("one")
        reasons = [event["reason"] for event in town.store.list("events", namespace=SPACE)]
        assert "DeviceTaintManagerEviction" in reasons

    play(story)


def test_a_pod_that_tolerates_the_taint_stays_for_as_long_as_it_said(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        claim_that_tolerates(town, {"tolerationSeconds": 1})
        town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        taint_first_device(town, "NoExecute")
        await town.until(lambda: not town.exists("pods", "user"), "the Pod evicted")

    play(story)


def test_a_rule_taints_what_it_selects(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        claim_that_tolerates(town, {})
        town.pod("tolerant", claims={"gpu": "one"})
        await town.until_running("tolerant")
        rule = {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "recall"},
            "spec": {
                "deviceSelector": {"driver": DRIVER},
                "taint": {"key": "example.com/recalled", "effect": "NoExecute"},
            },
        }
        town.store.create("devicetaintrules", rule)
        await town.until(lambda: not town.exists("pods", "tolerant"), "the Pod evicted")

    play(story)


def rule(name: str, effect: str) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": DRIVER},
            "taint": {"key": "example.com/ill", "effect": effect},
        },
    }


def said_of(town: Town, name: str) -> Object:
    conditions: list[Object] = (
        town.store.get("devicetaintrules", name).get("status", {}).get("conditions", [])
    )
    return conditions[0] if conditions else {}


def test_only_a_toleration_of_no_execute_keeps_a_pod_and_the_shortest_of_several_counts(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=3)
        said: dict[str, list[Object]] = {
            "vague": [{}],
            "short": [
                {"effect": "NoExecute", "tolerationSeconds": 0},
                {"effect": "NoExecute", "tolerationSeconds": 9000},
            ],
            "loyal": [{"effect": "NoExecute"}],
        }
        for name, tolerations in said.items():
            request = build.exact_request("gpu", CLASS)
            request["exactly"]["tolerations"] = [
                {"key": "example.com/ill", "operator": "Exists", **more} for more in tolerations
            ]
            town.store.create(
                "resourceclaims", build.resource_claim(name, SPACE, build.claim_spec([request]))
            )
            town.pod(name, claims={"gpu": name})
            await town.until_running(name)
        town.store.create("devicetaintrules", rule("recall", "NoExecute"))
        await town.until(
            lambda: not town.exists("pods", "vague") and not town.exists("pods", "short"), "two Pods evicted"
        )
        assert town.phase("loyal") == "Running"

    play(story)


def test_the_status_of_a_rule_without_effect_says_what_it_would_do(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=2)
        town.claim("one")
        town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        town.store.create("devicetaintrules", rule("trial", "None"))
        await town.until(lambda: bool(said_of(town, "trial")), "a status")
        condition = said_of(town, "trial")
        assert (condition["reason"], condition["status"]) == ("NoEffect", "False")
        assert condition["message"].startswith(
            "2 published devices selected. 1 allocated device selected. "
            "1 pod would be evicted in 1 namespace if the effect was NoExecute."
        )
        assert town.phase("user") == "Running"

    play(story)
