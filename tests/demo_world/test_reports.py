"""What drivers report of the devices that running Pods use."""

from collections.abc import Callable

from portal.demo.fleet import build, vendors
from portal.demo.fleet.build import Object
from portal.dra.features import Features
from tests.demo_world.conftest import DRIVER, SPACE, Story, Town

Play = Callable[[Story], None]
TAINT = {"key": "gpu.example.com/xid", "value": "79", "effect": "NoSchedule"}


def health(town: Town, pod: str) -> list[tuple[str, str, str]]:
    """(name of the resource, device, health) of everything that the Pod's container reports."""
    (status,) = town.get_pod(pod)["status"]["containerStatuses"]
    return [
        (entry["name"], resource["resourceID"], resource["health"])
        for entry in status.get("allocatedResourcesStatus", ())
        for resource in entry["resources"]
    ]


def taint(town: Town, *taints: Object) -> None:
    (item,) = town.store.list("resourceslices")
    item["spec"]["devices"][0]["taints"] = list(taints)
    item["spec"]["pool"]["generation"] += 1
    town.store.update("resourceslices", item)


async def one_user(town: Town) -> str:
    town.device_class()
    node = town.node(gpus=1)
    town.claim("one")
    town.pod("user", claims={"gpu": "one"})
    await town.until_running("user")
    return f"{DRIVER}/{node}/gpu-0"


def test_the_health_of_a_device_follows_its_drivers_taint(play: Play) -> None:
    async def story(town: Town) -> None:
        device = await one_user(town)
        assert health(town, "user") == [("claim:gpu", device, "Healthy")]
        taint(town, TAINT)
        await town.until(lambda: health(town, "user") == [("claim:gpu", device, "Unhealthy")], "the alarm")
        (status,) = town.get_pod("user")["status"]["containerStatuses"]
        assert status["ready"] is True
        (entry,) = status["allocatedResourcesStatus"]
        assert entry["resources"][0]["message"] == "gpu.example.com/xid=79"
        taint(town)
        await town.until(lambda: health(town, "user") == [("claim:gpu", device, "Healthy")], "the all-clear")

    play(story)


def test_a_persons_rule_says_nothing_about_health(play: Play) -> None:
    async def story(town: Town) -> None:
        device = await one_user(town)
        rule = {"metadata": {"name": "spare"}, "spec": {"deviceSelector": {"driver": DRIVER}, "taint": TAINT}}
        town.store.create("devicetaintrules", rule)
        town.pod("second", claims={"gpu": "one"})
        await town.until_running("second")
        assert health(town, "second") == [("claim:gpu", device, "Healthy")]

    play(story)


def test_before_136_nothing_is_reported(play: Play) -> None:
    async def story(town: Town) -> None:
        town.store.features = Features.for_version("1.35")
        await one_user(town)
        assert health(town, "user") == []

    play(story)


def test_a_network_driver_tells_what_it_has_set_up(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class("dra.net")
        town.node()
        node = build.node_name("one")
        devices = vendors.nics(node="one-01", buses=["18:01"])[1:]
        town.store.load(
            build.resource_slices(driver=vendors.NETWORK, node=node, contents=[{"devices": devices}])
        )
        town.claim("link", device_class="dra.net")
        town.pod("user", claims={"nic": "link"})
        await town.until(lambda: town.get_claim("link")["status"].get("devices"), "a report")
        (report,) = town.get_claim("link")["status"]["devices"]
        assert report["conditions"][0]["type"] == "Ready"
        assert report["networkData"]["interfaceName"] == "ibp24s0"
        town.store.delete("pods", "user", namespace=SPACE)
        await town.until_free("link")

    play(story)


def test_a_taint_without_effect_is_no_alarm(play: Play) -> None:
    async def story(town: Town) -> None:
        device = await one_user(town)
        taint(town, {**TAINT, "effect": "None"})
        taint(town, {**TAINT, "effect": "NoSchedule"})
        await town.until(lambda: health(town, "user")[0][2] == "Unhealthy", "the alarm")
        taint(town, {**TAINT, "effect": "None"})
        await town.until(lambda: health(town, "user") == [("claim:gpu", device, "Healthy")], "all clear")

    play(story)
