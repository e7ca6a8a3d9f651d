"""Jobs that wait in queues: admitted in turn, started, stopped, and told what they wait for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from portal.demo.fleet import RUN_SECONDS_ANNOTATION, build
from portal.demo.fleet.build import Object
from tests.demo_world.conftest import CLASS, SPACE, Story, Town, fresh_store, governed

GPU = "nvidia.com/gpu"
WORKLOADS, CLUSTER, LOCAL = (
    f"{plural}.kueue.x-k8s.io" for plural in ("workloads", "clusterqueues", "localqueues")
)


@pytest.fixture
def play() -> Callable[[Story], None]:
    """Run a story against a cluster in which Kueue is installed."""

    def run(story: Story) -> None:
        async def evening() -> None:
            store = fresh_store()
            store.installed = frozenset({"kueue"})
            async with governed(store, device_class_mappings={CLASS: GPU}) as town:
                await story(town)

        asyncio.run(evening())

    return run


Play = Callable[[Story], None]


def queue(town: Town, *, gpus: int = 2, flavor: Object | None = None, **spec: Any) -> None:
    quotas = (("cpu", "100"), ("memory", "1Ti"), (GPU, gpus))
    group = {
        "coveredResources": [name for name, _ in quotas],
        "flavors": [
            {"name": "any", "resources": [{"name": name, "nominalQuota": amount} for name, amount in quotas]}
        ],
    }
    town.store.create("resourceflavors.kueue.x-k8s.io", {"metadata": {"name": "any"}, "spec": flavor or {}})
    body = {"metadata": {"name": "all"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec}}
    town.store.create(CLUSTER, body)
    local = {"metadata": {"name": "team", "namespace": SPACE}, "spec": {"clusterQueue": "all"}}
    town.store.create(LOCAL, local)


def job(town: Town, name: str, *, seconds: str = "1000", parallelism: int = 1, **pod: Any) -> Object:
    template = {
        "metadata": {"annotations": {RUN_SECONDS_ANNOTATION: seconds}},
        "spec": build.pod_spec(restart="Never", **pod),
    }
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    metadata = {"name": name, "namespace": SPACE, "labels": labels}
    return town.store.create("jobs", {"metadata": metadata, "spec": spec})


def workload(town: Town, job_name: str) -> Object:
    found = [
        item
        for item in town.store.list(WORKLOADS, namespace=SPACE)
        if item["metadata"]["ownerReferences"][0]["name"] == job_name
    ]
    return found[0] if found else {}


def condition(obj: Object, kind: str) -> tuple[str, str, str]:
    for item in obj.get("status", {}).get("conditions", ()):
        if item["type"] == kind:
            return item["status"], item["reason"], item["message"]
    return "", "", ""


def pods(town: Town) -> list[Object]:
    return town.store.list("pods", namespace=SPACE)


def counts(town: Town, plural: str = CLUSTER, name: str = "all") -> tuple[int, int]:
    """(pending, admitted) as the queue tells."""
    namespace = SPACE if plural == LOCAL else ""
    status = town.store.get(plural, name, namespace=namespace).get("status", {})
    return status.get("pendingWorkloads", 0), status.get("admittedWorkloads", 0)


def used(town: Town, resource: str = GPU) -> str:
    flavors = town.store.get(CLUSTER, "all").get("status", {}).get("flavorsUsage", ())
    totals = {item["name"]: str(item["total"]) for flavor in flavors for item in flavor["resources"]}
    return totals.get(resource, "")


def test_a_job_that_fits_runs_and_one_that_does_not_waits_for_its_end(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node(extended={GPU: "4"})
        queue(town)
        assert job(town, "first", limits={GPU: "2"})["spec"]["suspend"] is True
        await town.until(lambda: [pod["status"]["phase"] for pod in pods(town)] == ["Running"], "a Pod")
        first = workload(town, "first")
        assert condition(first, "Admitted")[:2] == ("True", "Admitted")
        (assignment,) = first["status"]["admission"]["podSetAssignments"]
        assert (assignment["flavors"][GPU], assignment["resourceUsage"][GPU]) == ("any", "2")
        job(town, "second", limits={GPU: "1"})
        await town.until(lambda: condition(workload(town, "second"), "QuotaReserved")[0], "a verdict")
        lacking = "insufficient unused quota for nvidia.com/gpu in flavor any, 1 more needed"
        why = f"couldn't assign flavors to pod set main: {lacking}"
        assert condition(workload(town, "second"), "QuotaReserved") == ("False", "Pending", why)
        await town.until(lambda: counts(town) == (1, 1), "one pending, one admitted")
        assert counts(town, LOCAL, "team") == (1, 1)
        assert used(town) == "2"
        assert len(pods(town)) == 1
        town.store.delete("jobs", "first", namespace=SPACE, propagation="Background")
        await town.until(lambda: counts(town) == (0, 1) and used(town) == "1", "the second's turn")
        await town.until(
            lambda: not town.store.get("jobs", "second", namespace=SPACE)["spec"]["suspend"], "it goes"
        )

    play(story)


def test_an_end_frees_the_quota(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node(extended={GPU: "4"})
        queue(town)
        job(town, "short", seconds="0", limits={GPU: "2"})
        await town.until(lambda: condition(workload(town, "short"), "Finished")[0] == "True", "its end")
        await town.until(lambda: counts(town) == (0, 0) and used(town) == "0", "nothing used")

    play(story)


def test_devices_count_by_their_claim_templates(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        town.node(gpus=4)
        queue(town)
        town.template("one-gpu")
        job(town, "pair", parallelism=2, templates={"gpu": "one-gpu"})
        await town.until(lambda: used(town) == "2", "two devices counted")
        job(town, "many", parallelism=3, templates={"gpu": "one-gpu"})
        await town.until(lambda: condition(workload(town, "many"), "QuotaReserved")[0], "a verdict")
        message = condition(workload(town, "many"), "QuotaReserved")[2]
        assert "current podset request (3) > maximum capacity (2)" in message

    play(story)


def test_what_no_quota_could_let_in_is_named(play: Play) -> None:
    async def story(town: Town) -> None:
        queue(town)
        town.claim("mine")
        job(town, "direct", claims={"gpu": "mine"})
        await town.until(
            lambda: condition(workload(town, "direct"), "QuotaReserved")[1] == "Inadmissible", "a verdict"
        )
        town.template("strange", device_class="strange.example.com")
        job(town, "unmapped", templates={"gpu": "strange"})
        await town.until(
            lambda: (
                "strange.example.com is not mapped"
                in condition(workload(town, "unmapped"), "QuotaReserved")[2]
            ),
            "a verdict",
        )

    play(story)


def test_a_template_that_comes_later_is_counted_then(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        queue(town)
        job(town, "early", templates={"gpu": "one-gpu"})
        await town.until(
            lambda: (
                "ResourceClaimTemplate one-gpu: not found"
                in condition(workload(town, "early"), "QuotaReserved")[2]
            ),
            "a verdict",
        )
        town.template("one-gpu")
        await town.until(lambda: used(town) == "1", "a device counted")

    play(story)


def test_an_admission_written_by_hand_upsets_nobody(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        queue(town)
        job(town, "one", limits={GPU: "9"})
        await town.until(lambda: condition(workload(town, "one"), "QuotaReserved")[0], "a verdict")
        found = workload(town, "one")
        stamp = town.store.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        admitted = {"type": "Admitted", "status": "True", "reason": "ByHand", "message": ""}
        found["status"] = {"admission": {}, "conditions": [{**admitted, "lastTransitionTime": stamp}]}
        town.store.update_status(WORKLOADS, found)
        await town.until(
            lambda: not town.store.get("jobs", "one", namespace=SPACE)["spec"]["suspend"], "it goes"
        )
        job(town, "other")
        await town.until(lambda: condition(workload(town, "other"), "Admitted")[0] == "True", "the other too")

    play(story)


def test_a_queue_that_leads_nowhere_says_so(play: Play) -> None:
    async def story(town: Town) -> None:
        job(town, "early")
        await town.until(
            lambda: (
                condition(workload(town, "early"), "QuotaReserved")
                == ("False", "Inadmissible", "LocalQueue team doesn't exist")
            ),
            "a verdict",
        )
        local = {"metadata": {"name": "team", "namespace": SPACE}, "spec": {"clusterQueue": "all"}}
        town.store.create(LOCAL, local)
        await town.until(
            lambda: (
                condition(town.store.get(LOCAL, "team", namespace=SPACE), "Active")[1]
                == "ClusterQueueDoesNotExist"
            ),
            "the LocalQueue's word",
        )

    play(story)


def test_a_missing_flavor_makes_the_queue_inactive(play: Play) -> None:
    async def story(town: Town) -> None:
        queue(town)
        await town.until(lambda: condition(town.store.get(CLUSTER, "all"), "Active")[0] == "True", "active")
        town.store.delete("resourceflavors.kueue.x-k8s.io", "any")
        await town.until(
            lambda: condition(town.store.get(CLUSTER, "all"), "Active")[1] == "FlavorNotFound", "inactive"
        )

    play(story)


def test_a_flavor_sends_pods_to_its_nodes(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node("plain")
        special = town.node("special", labels={"hall": "south"})
        queue(town, flavor={"nodeLabels": {"hall": "south"}})
        job(town, "one")
        await town.until(lambda: [pod["spec"].get("nodeName") for pod in pods(town)] == [special], "a Pod")

    play(story)


def test_a_deactivated_workload_stops_its_job(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        queue(town)
        job(town, "one")
        await town.until(lambda: len(pods(town)) == 1, "a Pod")
        name = workload(town, "one")["metadata"]["name"]
        town.store.patch(WORKLOADS, name, {"spec": {"active": False}}, namespace=SPACE)
        await town.until(lambda: not pods(town), "no Pod")
        assert condition(workload(town, "one"), "Evicted")[1] == "Deactivated"
        stopped = town.store.get("jobs", "one", namespace=SPACE)
        assert stopped["spec"]["suspend"] is True
        await town.until(
            lambda: "startTime" not in town.store.get("jobs", "one", namespace=SPACE)["status"], "not started"
        )
        town.store.patch(WORKLOADS, name, {"spec": {"active": True}}, namespace=SPACE)
        await town.until(lambda: len(pods(town)) == 1, "a Pod again")

    play(story)


def test_strict_order_lets_nobody_overtake(play: Play) -> None:
    async def story(town: Town) -> None:
        queue(town, queueingStrategy="StrictFIFO")
        job(town, "a-large", limits={GPU: "3"})
        await town.until(lambda: condition(workload(town, "a-large"), "QuotaReserved")[0], "a verdict")
        job(town, "b-small", limits={GPU: "1"})
        await town.until(lambda: counts(town) == (2, 0), "both wait")
        town.store.patch(CLUSTER, "all", {"spec": {"queueingStrategy": "BestEffortFIFO"}})
        await town.until(lambda: counts(town) == (1, 1), "the small one goes")

    play(story)


def test_without_kueue_labels_mean_nothing() -> None:
    async def evening() -> None:
        async with governed(fresh_store()) as town:
            town.node()
            assert job(town, "one")["spec"]["suspend"] is False
            await town.until(lambda: len(pods(town)) == 1, "a Pod")

    asyncio.run(evening())
