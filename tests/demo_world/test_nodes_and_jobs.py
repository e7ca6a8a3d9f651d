"""Kubelets, node health, Jobs and garbage."""

import asyncio
from collections.abc import Callable

import pytest

from portal.demo.controllers import nodes
from portal.demo.fleet import RUN_SECONDS_ANNOTATION, build
from portal.demo.fleet.build import Object
from tests.demo_world.conftest import SPACE, Story, Town, fresh_store, governed

Play = Callable[[Story], None]


def ready(town: Town, node: str) -> str:
    conditions = town.store.get("nodes", node)["status"].get("conditions", ())
    return next((item["status"] for item in conditions if item["type"] == "Ready"), "")


def taints(town: Town, node: str) -> list[str]:
    return [taint["key"] for taint in town.store.get("nodes", node)["spec"].get("taints", ())]


def job(town: Town, name: str, *, seconds: str = "0", **spec: object) -> Object:
    template = {
        "metadata": {"annotations": {RUN_SECONDS_ANNOTATION: seconds}},
        "spec": build.pod_spec(restart="Never"),
    }
    return town.store.create(
        "jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"template": template, **spec},
        },
    )


def test_a_node_that_somebody_creates_becomes_ready_and_has_a_lease(play: Play) -> None:
    async def story(town: Town) -> None:
        body = build.node("fresh", zone="hall", cpu=8, memory="64Gi")
        name = town.store.create("nodes", body)["metadata"]["name"]
        await town.until(lambda: ready(town, name) == "True", "the node ready")
        await town.until(lambda: not taints(town, name), "no taint left")
        await town.until(lambda: town.exists("leases", name, "kube-node-lease"), "a lease")

    play(story)


def test_a_node_whose_kubelet_is_stopped_stays_tainted(play: Play) -> None:
    async def story(town: Town) -> None:
        ill, well = town.node("ill", ready=False), town.node("well")
        await town.until(lambda: town.exists("leases", well, "kube-node-lease"), "the other's lease")
        assert taints(town, ill) == [nodes.NOT_READY]
        assert not town.exists("leases", ill, "kube-node-lease")

    play(story)


def test_cordoning_taints_and_uncordoning_clears(play: Play) -> None:
    async def story(town: Town) -> None:
        node = town.node()
        town.store.patch("nodes", node, {"spec": {"unschedulable": True}})
        await town.until(lambda: taints(town, node) == [nodes.CORDONED], "the taint")
        town.store.patch("nodes", node, {"spec": {"unschedulable": None}})
        await town.until(lambda: not taints(town, node), "no taint")

    play(story)


def test_a_node_that_falls_silent_becomes_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "SILENCE_SECONDS", 0.1)

    async def evening() -> None:
        store = fresh_store()
        async with governed(store) as town:
            node = town.node()
            await town.until(lambda: town.exists("leases", node, "kube-node-lease"), "a lease")
        async with governed(store, kubelet=False) as town:
            await town.until(lambda: ready(town, node) == "Unknown", "the node unknown")
            await town.until(lambda: taints(town, node) == [nodes.UNREACHABLE], "the taint")

    asyncio.run(evening())


def test_pods_and_slices_of_a_deleted_node_go_with_it(play: Play) -> None:
    async def story(town: Town) -> None:
        town.device_class()
        node = town.node(gpus=1)
        town.claim("one")
        town.pod("user", claims={"gpu": "one"})
        await town.until_running("user")
        town.store.delete("nodes", node)
        await town.until(lambda: not town.exists("pods", "user"), "the Pod gone")
        await town.until(lambda: not town.store.list("resourceslices"), "the slices gone")
        await town.until_free("one")

    play(story)


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({"command": ["sleep", "0"]}, "Succeeded"),
        ({"command": ["/bin/sleep"], "args": ["0"]}, "Succeeded"),
        ({}, "Running"),
        ({"command": ["sleep", "infinity"]}, "Running"),
    ],
)
def test_how_long_a_pod_runs_follows_from_what_it_says(play: Play, spec: Object, phase: str) -> None:
    async def story(town: Town) -> None:
        town.node()
        body = build.pod("worker", SPACE, build.pod_spec(restart="Never"))
        body["spec"]["containers"][0] |= spec
        town.store.create("pods", body)
        await town.until(lambda: town.phase("worker") == phase, phase)
        await asyncio.sleep(0.02)
        assert town.phase("worker") == phase

    play(story)


def test_a_pod_that_overstays_its_deadline_has_failed(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        body = build.pod("hold", SPACE, build.pod_spec())
        body["spec"]["activeDeadlineSeconds"] = 1
        town.store.create("pods", body)
        await town.until(lambda: town.phase("hold") == "Failed", "the Pod failed")
        assert town.get_pod("hold")["status"]["reason"] == "DeadlineExceeded"

    play(story)


def test_a_job_runs_its_pods_side_by_side_until_enough_succeeded(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        job(town, "members", parallelism=2, completions=5)
        await town.until(
            lambda: town.store.get("jobs", "members", namespace=SPACE)["status"].get("completionTime"),
            "complete",
        )
        status = town.store.get("jobs", "members", namespace=SPACE)["status"]
        assert (status["succeeded"], status.get("active"), status.get("failed")) == (5, None, None)
        assert status["conditions"][0]["type"] == "Complete"
        pods = town.store.list("pods", namespace=SPACE, labels="batch.kubernetes.io/job-name=members")
        assert len(pods) == 5

    play(story)


def test_a_deleted_job_takes_its_pods_along(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        job(town, "endless", seconds="3600", parallelism=2, completions=2)
        await town.until(lambda: len(town.store.list("pods", namespace=SPACE)) == 2, "two Pods")
        town.store.delete("jobs", "endless", namespace=SPACE)
        await town.until(lambda: not town.store.list("pods", namespace=SPACE), "no Pods")

    play(story)


def test_a_suspended_job_has_no_pods(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        job(town, "later", seconds="3600", suspend=True)
        await town.until(
            lambda: (
                [
                    (item["type"], item["status"])
                    for item in town.store.get("jobs", "later", namespace=SPACE)["status"].get(
                        "conditions", ()
                    )
                ]
                == [("Suspended", "True")]
            ),
            "the Job seen",
        )
        assert "startTime" not in town.store.get("jobs", "later", namespace=SPACE)["status"]
        assert town.store.list("pods", namespace=SPACE) == []
        town.store.patch("jobs", "later", {"spec": {"suspend": False}}, namespace=SPACE)
        await town.until(lambda: town.store.list("pods", namespace=SPACE), "a Pod")

    play(story)


def test_a_finished_job_goes_when_its_time_to_live_is_over(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        job(town, "brief", ttlSecondsAfterFinished=0)
        await town.until(lambda: not town.exists("jobs", "brief"), "the Job gone")
        await town.until(lambda: not town.store.list("pods", namespace=SPACE), "its Pod gone")

    play(story)


def test_what_belongs_to_nobody_any_more_goes_but_a_namesake_of_the_owner_is_no_owner(play: Play) -> None:
    async def story(town: Town) -> None:
        town.node()
        owner = town.pod("owner")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner"}
        for name, uid in (
            ("kept", owner["metadata"]["uid"]),
            ("stray", "00000000-0000-0000-0000-000000000000"),
        ):
            body = build.resource_claim(name, SPACE, build.claim_spec([build.exact_request("gpu", "any")]))
            body["metadata"]["ownerReferences"] = [{**reference, "uid": uid}]
            town.store.create("resourceclaims", body)
        await town.until(lambda: not town.exists("resourceclaims", "stray"), "the stray one gone")
        assert town.exists("resourceclaims", "kept")
        town.store.delete("pods", "owner", namespace=SPACE)
        await town.until(lambda: not town.exists("resourceclaims", "kept"), "the other gone with its owner")

    play(story)
