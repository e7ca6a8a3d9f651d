"""The sample institute and generated fleets: valid, reproducible, and with one of every oddity."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable

import pytest

from portal.demo.fleet import UnknownFleet, oddities, plant, plugins, queues, sample_objects
from portal.demo.fleet.build import Object
from portal.demo.fleet.sample import (
    CORDONED_NODE,
    INCOMPLETE_POOL_NODE,
    NOT_READY_NODE,
    TAINTED_DEVICE,
    TWICE_ADVERTISED_NODE,
)
from portal.demo.load import FleetSize, generate
from portal.demo.namespaces import found_first
from portal.demo.resources import BY_KIND
from portal.demo.store import Store
from tests.demo_world.conftest import governed


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == kind]


def devices(node: str) -> list[Object]:
    slices = [item for item in of_kind(sample_objects(), "ResourceSlice") if item["spec"]["nodeName"] == node]
    return [device for item in slices for device in item["spec"].get("devices", ())]


def test_the_sample_is_the_same_each_time() -> None:
    assert json.dumps(sample_objects()) == json.dumps(sample_objects())


def test_an_api_server_accepts_every_object_of_the_sample() -> None:
    store = Store()
    found_first(store)
    for obj in sample_objects():
        store.create(BY_KIND[obj["apiVersion"], obj["kind"]].key, obj)
    assert len(store.list("resourceslices")) == len(of_kind(sample_objects(), "ResourceSlice"))


def test_nothing_of_the_sample_is_dropped_by_an_api_server() -> None:
    store = Store()
    found_first(store)
    for obj in sample_objects():
        if obj["kind"] == "Namespace":
            store.create("namespaces", obj)
        if obj["kind"] in (
            "ResourceSlice",
            "DeviceClass",
            "ResourceClaim",
            "ResourceFlavor",
            "Workload",
            "PodGroup",
        ):
            stored = store.create(BY_KIND[obj["apiVersion"], obj["kind"]].key, obj)
            assert stored["spec"] == obj["spec"], obj["metadata"]["name"]


def test_planting_again_after_an_interruption_completes_the_sample() -> None:
    store = Store()
    found_first(store)
    plant(store, "sample")
    store.delete("pods", "notebook-ines", namespace="protein-folding")
    store.delete("nodes", CORDONED_NODE)
    plant(store, "sample")
    assert store.find("pods", "notebook-ines", namespace="protein-folding") is not None
    assert store.find("nodes", CORDONED_NODE) is not None


def test_the_sample_has_one_of_every_oddity() -> None:
    nodes = {obj["metadata"]["name"]: obj for obj in of_kind(sample_objects(), "Node")}
    assert nodes[CORDONED_NODE]["spec"]["unschedulable"] is True
    assert nodes[NOT_READY_NODE]["status"]["conditions"][0]["status"] == "False"
    assert nodes[TWICE_ADVERTISED_NODE]["status"]["allocatable"]["nvidia.com/gpu"] == str(
        len(devices(TWICE_ADVERTISED_NODE))
    )
    _, pool, name = TAINTED_DEVICE
    tainted = [device["name"] for device in devices(pool) if device.get("taints")]
    assert tainted == [name]
    incomplete = [
        obj
        for obj in of_kind(sample_objects(), "ResourceSlice")
        if obj["spec"]["nodeName"] == INCOMPLETE_POOL_NODE
    ]
    assert len(incomplete) < incomplete[0]["spec"]["pool"]["resourceSliceCount"]


def test_vendors_of_every_kind_are_there() -> None:
    nodes = of_kind(sample_objects(), "Node")
    advertised = {name for node in nodes for name in node["status"]["allocatable"] if "/" in name}
    assert {
        "amd.com/gpu", "aws.amazon.com/neuron", "google.com/tpu", "gpu.intel.com/xe", "habana.ai/gaudi",
        "huawei.com/Ascend910", "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb",
        plugins.UNKNOWN_RESOURCE,
    } <= advertised  # fmt: skip
    kubelets = Counter(node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes)
    assert kubelets["v1.35.3"] == 1
    assert set(kubelets) == {"v1.35.3", "v1.36.2"}


def test_what_an_administrator_should_find_comes_true() -> None:
    async def evening() -> None:
        store = Store(installed=("kueue",))
        found_first(store)
        plant(store, "sample")
        async with governed(store) as town:
            await town.until(lambda: _sights(store) >= _EXPECTED, "all oddities")
            jobs = {name: store.get("jobs", name, namespace=space)
                    for space, name in (queues.ADMITTED_JOB, queues.PENDING_JOB)}  # fmt: skip
            assert [job["spec"]["suspend"] for job in jobs.values()] == [False, True]
            assert store.find("resourceslices", _slice_of(oddities.GONE_NODE)) is not None

    asyncio.run(evening())


_EXPECTED = {
    "prepare failed", "admin access", "ill device in use", "forgotten", "undying", "admitted", "pending",
    "half a group",
}  # fmt: skip


def _sights(store: Store) -> set[str]:
    """Which oddities can be seen by now."""
    operations, space = oddities.OPERATIONS, queues.POD_GROUP[0]

    def status(plural: str, namespace: str, name: str) -> Object:
        return store.get(plural, name, namespace=namespace).get("status") or {}

    def results(namespace: str, name: str) -> list[Object]:
        allocation = status("resourceclaims", namespace, name).get("allocation") or {}
        return list(allocation.get("devices", {}).get("results", ()))

    reasons = {event["reason"] for event in store.list("events", namespace=operations)}
    (diagnosis,) = status("pods", operations, "xid-diagnosis").get("containerStatuses") or [{}]
    health = [
        item["health"]
        for entry in diagnosis.get("allocatedResourcesStatus", ())
        for item in entry["resources"]
    ]
    research, teaching = (
        status("clusterqueues.kueue.x-k8s.io", "", name) for name in (queues.RESEARCH, queues.TEACHING)
    )
    undying = store.get("resourceclaims", oddities.UNDYING_CLAIM, namespace=space)
    ranks = {status("pods", space, f"detector-simulation-{rank}").get("phase") for rank in range(2)}
    seen = {
        "prepare failed": "FailedPrepareDynamicResources" in reasons,
        "admin access": [item.get("adminAccess") for item in results(operations, "gpu-watch")] == [True],
        "ill device in use": health == ["Unhealthy"],
        "forgotten": bool(results(space, oddities.FORGOTTEN_CLAIM)),
        "undying": "deletionTimestamp" in undying["metadata"] and "allocation" in undying["status"],
        "admitted": research.get("admittedWorkloads") == 1,
        "pending": teaching.get("pendingWorkloads") == 1,
        "half a group": ranks == {"Running", "Pending"},
    }
    return {name for name, holds in seen.items() if holds}


def _slice_of(node: str) -> str:
    slices = of_kind(sample_objects(), "ResourceSlice")
    return str(next(item["metadata"]["name"] for item in slices if item["spec"]["nodeName"] == node))


def test_partitions_never_promise_more_than_the_whole() -> None:
    node = "h100-01.norrvik.example"
    counters = next(
        item["spec"]["sharedCounters"]
        for item in of_kind(sample_objects(), "ResourceSlice")
        if item["spec"]["nodeName"] == node and "sharedCounters" in item["spec"]
    )
    supply = {entry["name"]: entry["counters"] for entry in counters}
    for device in devices(node):
        for use in device.get("consumesCounters", ()):
            for name, amount in use["counters"].items():
                assert name in supply[use["counterSet"]]
                assert int(amount["value"].removesuffix("Mi")) <= int(
                    supply[use["counterSet"]][name]["value"].removesuffix("Mi")
                )


def test_a_nic_shares_its_pcie_root_with_a_gpu() -> None:
    key = "resource.kubernetes.io/pcieRoot"
    found = devices("a100-01.norrvik.example")
    roots = Counter(device["attributes"][key]["string"] for device in found)
    nics = [device for device in found if device["attributes"].get("dra.net/rdma") == {"bool": True}]
    assert len(nics) == 4
    assert {roots[nic["attributes"][key]["string"]] for nic in nics} == {3}


def test_names_are_unique_and_uuids_too() -> None:
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in sample_objects()]
    assert len(keys) == len(set(keys))
    uuids = [
        device["attributes"]["uuid"]["string"]
        for obj in of_kind(sample_objects(), "ResourceSlice")
        for device in obj["spec"].get("devices", ())
        if "uuid" in device["attributes"]
    ]
    assert len(uuids) == len(set(uuids)) > 40


def test_a_generated_fleet_has_the_size_asked_for_and_is_reproducible() -> None:
    size = FleetSize.parse("nodes=50,devices=4,pods=300,used=0.2,seed=7")
    objects = list(generate(size))
    kinds = Counter(obj["kind"] for obj in objects)
    assert (kinds["Node"], kinds["ResourceSlice"], kinds["Pod"], kinds["ResourceClaim"]) == (50, 50, 300, 60)
    held = [
        (result["pool"], result["device"])
        for claim in of_kind(objects, "ResourceClaim")
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(held) == len(set(held)) == 60
    assert json.dumps(objects) == json.dumps(list(generate(size)))
    assert json.dumps(objects) != json.dumps(
        list(generate(FleetSize.parse("nodes=50,devices=4,pods=300,used=0.2,seed=8")))
    )


def test_a_generated_fleet_is_what_an_api_server_would_have_stored() -> None:
    store = Store()
    found_first(store)
    for obj in generate(FleetSize(nodes=3, devices=2, pods=6, used=0.5)):
        plural = BY_KIND[obj["apiVersion"], obj["kind"]].key
        stored = store.create(plural, obj)
        if obj["kind"] in ("ResourceClaim", "ResourceSlice"):
            assert stored["spec"] == obj["spec"]
        if obj["kind"] == "ResourceClaim":
            metadata = {**obj["metadata"], "uid": stored["metadata"]["uid"]}
            store.update_status("resourceclaims", {**obj, "metadata": metadata})


@pytest.mark.parametrize(
    "text",
    [
        "nodes=0",
        "nodes=many",
        "machines=3",
        "devices=8",
        "nodes=1,devices=129",
        "nodes=1,used=2",
        "nodes=1,pods=-1",
    ],
)
def test_a_fleet_that_makes_no_sense_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(UnknownFleet, match=r"."):
        FleetSize.parse(text)
