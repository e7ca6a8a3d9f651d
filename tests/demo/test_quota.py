"""ResourceQuota: what a namespace may ask for, and what its status says."""

import asyncio
from contextlib import suppress

import pytest

from portal.demo.errors import ApiError
from portal.demo.quota import keep_quotas, refresh
from portal.demo.store import Store
from tests.demo.api import Object, claim, pod

DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"


def limit(store: Store, **hard: str) -> None:
    store.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}, namespace="lab")


def wanting(name: str, **exactly: object) -> Object:
    body = claim(name)
    body["spec"]["devices"]["requests"][0]["exactly"].update(exactly)
    return body


def refusal(store: Store, plural: str, body: Object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        store.create(plural, body, namespace="lab")
    return caught.value


def test_devices_are_counted_as_claims_ask_for_them(store: Store) -> None:
    limit(store, **{DEVICES: "3"})
    store.create("resourceclaims", wanting("a", count=2), namespace="lab")
    error = refusal(store, "resourceclaims", wanting("b", count=2))
    assert (error.status_code, error.reason) == (403, "Forbidden")
    assert error.message == (
        'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, '
        f"requested: {DEVICES}=2, used: {DEVICES}=2, limited: {DEVICES}=3"
    )
    store.create("resourceclaims", wanting("c", count=1), namespace="lab")


def test_a_deleted_claim_gives_its_room_back(store: Store) -> None:
    limit(store, **{DEVICES: "1"})
    store.create("resourceclaims", claim("a"), namespace="lab")
    store.delete("resourceclaims", "a", namespace="lab")
    assert store.create("resourceclaims", claim("b"), namespace="lab")["metadata"]["name"] == "b"


def test_all_counts_as_the_most_that_a_claim_can_get(store: Store) -> None:
    limit(store, **{DEVICES: "31"})
    assert refusal(store, "resourceclaims", wanting("a", allocationMode="All")).status_code == 403


def test_of_alternatives_the_largest_counts(store: Store) -> None:
    limit(store, **{DEVICES: "3"})
    body = claim("a")
    body["spec"]["devices"]["requests"] = [
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "many", "deviceClassName": "gpu.example.com", "count": 4},
                {"name": "one", "deviceClassName": "gpu.example.com", "count": 1},
            ],
        }
    ]
    assert "requested: " + DEVICES + "=4" in refusal(store, "resourceclaims", body).message


def test_other_namespaces_and_classes_are_not_concerned(store: Store) -> None:
    limit(store, **{DEVICES: "0"})
    assert store.create("resourceclaims", claim("a"), namespace="default")
    assert store.create("resourceclaims", wanting("b", deviceClassName="nic.example.com"), namespace="lab")


def test_objects_can_be_counted(store: Store) -> None:
    limit(store, **{"count/resourceclaims.resource.k8s.io": "1", "pods": "1"})
    store.create("resourceclaims", claim("a"), namespace="lab")
    assert refusal(store, "resourceclaims", claim("b")).status_code == 403
    store.create("pods", pod("a"), namespace="lab")
    assert refusal(store, "pods", pod("b")).message.startswith('pods "b" is forbidden: exceeded quota: q')


def test_extended_resources_count_until_the_pod_is_done(store: Store) -> None:
    limit(store, **{"requests.example.com/gpu": "1"})
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    made = store.create("pods", body, namespace="lab")
    body["metadata"]["name"] = "b"
    assert refusal(store, "pods", body).status_code == 403
    store.update_status("pods", {**made, "status": {"phase": "Succeeded"}})
    assert store.create("pods", body, namespace="lab")["metadata"]["name"] == "b"


def test_claims_count_for_the_extended_resource_of_their_class(store: Store) -> None:
    spec = {"extendedResourceName": "example.com/gpu"}
    store.create("deviceclasses", {"metadata": {"name": "gpu.example.com"}, "spec": spec})
    limit(store, **{"requests.example.com/gpu": "2"})
    store.create("resourceclaims", wanting("a", count=2), namespace="lab")
    body = pod("b")
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    assert "used: requests.example.com/gpu=2" in refusal(store, "pods", body).message


def test_a_claim_made_for_a_pods_extended_resource_is_not_counted_twice(store: Store) -> None:
    spec = {"extendedResourceName": "example.com/gpu"}
    store.create("deviceclasses", {"metadata": {"name": "gpu.example.com"}, "spec": spec})
    limit(store, **{"requests.example.com/gpu": "1"})
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    store.create("pods", body, namespace="lab")
    special = claim("b", annotations={"resource.kubernetes.io/extended-resource-claim": "true"})
    assert store.create("resourceclaims", special, namespace="lab")["metadata"]["name"] == "b"


def test_a_dry_run_is_checked_too(store: Store) -> None:
    limit(store, **{DEVICES: "0"})
    with pytest.raises(ApiError, match="exceeded quota"):
        store.create("resourceclaims", claim("a"), namespace="lab", dry_run=True)


def test_the_status_tells_what_is_used(store: Store) -> None:
    limit(store, **{DEVICES: "5", "pods": "2"})
    store.create("resourceclaims", wanting("a", count=2), namespace="lab")
    refresh(store, "lab")
    status = store.get("resourcequotas", "q", namespace="lab")["status"]
    assert status == {"hard": {DEVICES: "5", "pods": "2"}, "used": {DEVICES: "2", "pods": "0"}}


async def _follow(store: Store) -> dict[str, str]:
    keeper = asyncio.create_task(keep_quotas(store, settle_seconds=0.0))
    try:
        async with asyncio.timeout(5):
            async for event in store.watch("resourcequotas"):
                used: dict[str, str] = event.object["status"].get("used", {})
                if not used:
                    await asyncio.sleep(0)
                    store.create("resourceclaims", claim("a"), namespace="lab")
                elif used[DEVICES] == "1":
                    return used
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
    raise AssertionError("the watch ended")


def test_the_status_follows_the_objects(store: Store) -> None:
    limit(store, **{DEVICES: "5"})
    assert asyncio.run(_follow(store)) == {DEVICES: "1"}
