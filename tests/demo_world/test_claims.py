"""Claims under their controller: made from templates, held by Pods, freed by the last one."""

import asyncio
from collections.abc import Callable

from portal.demo.controllers.claims import FINALIZER, POD_CLAIM_NAME
from portal.demo.fleet import build
from tests.demo_world.conftest import SPACE, Story, Town, fresh_store, governed

Play = Callable[[Story], None]


def test_a_claim_that_no_pod_names_stays_empty(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=2)
        town.claim("idle")
        town.claim("asked")
        town.pod("user", claims={"gpu": "asked"})
        await town.until_running("user")
        assert not town.get_claim("idle").get("status")

    play(story)


def test_the_first_pod_is_given_devices_and_reserves_them(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        node = town.node(gpus=1)
        town.claim("one")
        pod = town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        claim = town.get_claim("one")
        assert town.devices("one") == [(node, "gpu-0")]
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "user", "uid": pod["metadata"]["uid"]}
        ]
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert claim["status"]["allocation"]["allocationTimestamp"]

    play(story)


def test_the_last_consumer_frees_the_devices_and_an_earlier_one_does_not(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        uid = town.claim("shared")["metadata"]["uid"]
        town.pod("first", claims={"gpu": "shared"})
        town.pod("second", claims={"gpu": "shared"})
        await town.until_running("first", "second")
        town.store.delete("pods", "first", namespace=SPACE)
        await town.until(lambda: town.consumers("shared") == ["second"], "one consumer left")
        assert town.devices("shared")
        town.store.delete("pods", "second", namespace=SPACE)
        await town.until_free("shared")
        assert town.get_claim("shared")["metadata"]["uid"] == uid

    play(story)


def test_no_write_shows_a_claim_with_devices_but_without_consumer(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        town.claim("one")
        town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        seen: list[bool] = []

        async def look() -> None:
            async for event in town.store.watch("resourceclaims", since=town.store.revision):
                status = event.object.get("status") or {}
                seen.append(bool(status.get("allocation")) and not status.get("reservedFor"))

        watching = asyncio.create_task(look())
        await asyncio.sleep(0)
        town.store.delete("pods", "user", namespace=SPACE)
        await town.until_free("one")
        await town.until(lambda: len(seen) >= 1, "the change seen")
        watching.cancel()
        assert not any(seen)

    play(story)


def test_a_finished_pod_gives_its_devices_back_but_stays(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        town.claim("one")
        annotations = {"demo.claimdesk.example/run-seconds": "0"}
        town.pod("batch", claims={"gpu": "one"}, restart="Never", annotations=annotations)
        await town.until(lambda: town.phase("batch") == "Succeeded", "the Pod succeeded")
        await town.until_free("one")

    play(story)


def test_a_template_gives_each_pod_a_claim_of_its_own(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=2)
        town.template("wish")
        owner = town.pod("user", templates={"gpu": "wish"})
        town.pod("other", templates={"gpu": "wish"})
        await town.until_running("user", "other")
        (status,) = town.get_pod("user")["status"]["resourceClaimStatuses"]
        claim = town.get_claim(status["resourceClaimName"])
        assert claim["metadata"]["annotations"] == {POD_CLAIM_NAME: "gpu"}
        assert claim["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
        assert len(town.store.list("resourceclaims", namespace=SPACE)) == 2
        town.store.delete("pods", "user", namespace=SPACE)
        name = claim["metadata"]["name"]
        await town.until(lambda: not town.exists("resourceclaims", name), "the generated claim gone")

    play(story)


def test_a_generated_claim_goes_when_its_pod_has_finished(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        town.template("wish")
        annotations = {"demo.claimdesk.example/run-seconds": "0"}
        town.pod("batch", templates={"gpu": "wish"}, restart="Never", annotations=annotations)
        await town.until(lambda: town.phase("batch") == "Succeeded", "the Pod succeeded")
        await town.until(lambda: not town.store.list("resourceclaims", namespace=SPACE), "no claim left")

    play(story)


def test_a_missing_template_is_reported_and_waited_for(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        town.pod("early", templates={"gpu": "late"})
        events = await town.until(lambda: town.store.list("events", namespace=SPACE), "an Event")
        await town.until(
            lambda: any(
                event["reason"] == "FailedResourceClaimCreation"
                for event in town.store.list("events", namespace=SPACE)
            ),
            "a warning about the template",
        )
        assert events
        town.template("late")
        await town.until_running("early")

    play(story)


def test_a_deleted_claim_waits_for_its_pod(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=1)
        town.claim("doomed")
        town.pod("user", claims={"gpu": "doomed"})
        await town.until_running("user")
        town.store.delete("resourceclaims", "doomed", namespace=SPACE)
        assert town.get_claim("doomed")["metadata"]["deletionTimestamp"]
        assert town.consumers("doomed") == ["user"]
        town.store.delete("pods", "user", namespace=SPACE)
        await town.until(lambda: not town.exists("resourceclaims", "doomed"), "the claim gone")

    play(story)


def test_the_reservation_of_a_pod_that_vanished_during_an_outage_is_ended() -> None:
    async def evening() -> None:
        store = fresh_store()
        async with governed(store) as town:
            town.device_class()
            town.node(gpus=1)
            town.claim("one")
            town.pod("user", claims={"gpu": "one"})
            await town.until_running("user")
        store.delete("pods", "user", namespace=SPACE, grace_period_seconds=0)
        assert town.consumers("one") == ["user"]
        async with governed(store) as town:
            await town.until_free("one")

    asyncio.run(evening())


def test_a_namesake_of_the_consumer_does_not_keep_the_reservation() -> None:
    async def evening() -> None:
        store = fresh_store()
        async with governed(store) as town:
            town.device_class()
            town.node(gpus=1)
            town.claim("one")
            town.pod("user", claims={"gpu": "one"})
            await town.until_running("user")
        store.delete("pods", "user", namespace=SPACE, grace_period_seconds=0)
        town.pod("user")
        async with governed(store) as town:
            await town.until_free("one")

    asyncio.run(evening())


def test_a_pod_that_comes_with_a_node_joins_what_is_allocated_there(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        node = town.node(gpus=1)
        town.claim("shared")
        town.pod("first", claims={"gpu": "shared"})
        await town.until_running("first")
        body = build.pod("placed", SPACE, build.pod_spec(claims={"gpu": "shared"}))
        body["spec"]["nodeName"] = node
        town.store.create("pods", body)
        await town.until_running("placed")
        assert town.consumers("shared") == ["first", "placed"]

    play(story)
