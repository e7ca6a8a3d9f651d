"""How a mirror reads: pages of one state, watches that go on from there, and "too old"."""

import time

import msgspec
import pytest

from portal.kube.client import Client, Request
from portal.kube.errors import Conflict, Gone
from portal.kube.resources import (
    ACCESS_REVIEWS,
    EVENTS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from portal.kube.watch import Bookmark, Event
from tests.contract import objects
from tests.contract.kubelet import LEASES
from tests.contract.room import Room


def names(items: list[msgspec.Raw]) -> list[str]:
    return [msgspec.json.decode(item)["metadata"]["name"] for item in items]


def version(obj: objects.Object) -> str:
    return str(obj["metadata"]["resourceVersion"])


def test_pages_of_a_list_are_one_state_whatever_happens_in_between(room: Room) -> None:
    device_class = room.device_class()
    for number in range(7):
        room.claim(f"claim-{number}", objects.request(device_class))
    pages = room.client.list_pages(RESOURCE_CLAIMS, namespace=room.namespace, limit=3)
    first = next(pages)
    room.client.delete(RESOURCE_CLAIMS, "claim-5", namespace=room.namespace)
    room.claim("claim-4a", objects.request(device_class))
    rest = list(pages)
    assert names(first.items) + [name for page in rest for name in names(page.items)] == [
        f"claim-{number}" for number in range(7)
    ]
    assert {page.resource_version for page in rest} == {first.resource_version}
    assert [page.last for page in (first, *rest)] == [False, False, True]


def test_a_watch_goes_on_exactly_where_a_list_ended(room: Room) -> None:
    device_class = room.device_class()
    room.claim("before", objects.request(device_class))
    (page,) = room.client.list_pages(RESOURCE_CLAIMS, namespace=room.namespace)
    room.claim("after", objects.request(device_class))
    room.client.patch(
        RESOURCE_CLAIMS, "after", {"metadata": {"labels": {"a": "b"}}}, namespace=room.namespace
    )
    room.client.delete(RESOURCE_CLAIMS, "before", namespace=room.namespace)
    seen: list[tuple[str, str]] = []
    with room.client.watch(
        RESOURCE_CLAIMS, resource_version=page.resource_version, namespace=room.namespace, timeout_seconds=20
    ) as watch:
        for batch in watch:
            seen += [(event.type, names([event.object])[0]) for event in batch if isinstance(event, Event)]
            if len(seen) >= 3:
                break
    assert seen == [("ADDED", "after"), ("MODIFIED", "after"), ("DELETED", "before")]


def test_a_watch_carries_bookmarks_from_which_another_can_go_on(room: Room) -> None:
    device_class = room.device_class()
    (page,) = room.client.list_pages(RESOURCE_CLAIMS, namespace=room.namespace)
    room.claim("one", objects.request(device_class))
    bookmarks: list[str] = []
    with room.client.watch(
        RESOURCE_CLAIMS, resource_version=page.resource_version, namespace=room.namespace, timeout_seconds=8
    ) as watch:
        for batch in watch:
            bookmarks += [event.resource_version for event in batch if isinstance(event, Bookmark)]
    assert bookmarks, "an API server sends one shortly before it ends a watch"
    room.claim("two", objects.request(device_class))
    with room.client.watch(
        RESOURCE_CLAIMS, resource_version=bookmarks[-1], namespace=room.namespace, timeout_seconds=20
    ) as watch:
        event = next(event for batch in watch for event in batch if isinstance(event, Event))
    assert (event.type, names([event.object])) == ("ADDED", ["two"])


def test_a_version_from_long_ago_is_gone(room: Room, is_real: bool) -> None:
    device_class = room.device_class()
    room.claim("restless", objects.request(device_class))
    for number in range(520):
        body = {"metadata": {"labels": {"turn": str(number)}}}
        room.client.patch(RESOURCE_CLAIMS, "restless", body, namespace=room.namespace)
    if is_gone(room.client, RESOURCE_CLAIMS):
        return
    # A real API server forgets only what is older than a minute or so, and that only when there is much of
    # it. Of what it has, Leases are written most often.
    assert is_real, "the embedded cluster under test has a short memory"
    if not is_gone(room.client, LEASES):
        pytest.skip("the cluster is so young that it remembers everything since its first version")


def is_gone(client: Client, resource: Resource) -> bool:
    """Whether a watch from the first version of all is refused as too old: at once, or as its first event."""
    try:
        with client.watch(resource, resource_version="1", timeout_seconds=3) as watch:
            list(watch)
    except Gone:
        return True
    return False


def test_a_write_based_on_an_old_version_is_refused(room: Room) -> None:
    claim = room.claim("contended", objects.request(room.device_class()))
    room.client.patch(
        RESOURCE_CLAIMS, "contended", {"metadata": {"labels": {"a": "b"}}}, namespace=room.namespace
    )
    claim["metadata"]["labels"] = {"c": "d"}
    with pytest.raises(Conflict):
        room.client.replace(RESOURCE_CLAIMS, "contended", claim, namespace=room.namespace)


def test_a_delete_meant_for_another_object_of_that_name_is_refused(room: Room) -> None:
    room.claim("namesake", objects.request(room.device_class()))
    with pytest.raises(Conflict):
        room.client.delete(
            RESOURCE_CLAIMS, "namesake", namespace=room.namespace, uid="00000000-0000-0000-0000-000000000000"
        )
    assert not room.get_claim("namesake")["metadata"].get("deletionTimestamp")


def test_selectors_narrow_lists_and_watches(room: Room) -> None:
    node = room.node()
    made = room.publish(node, [objects.device("gpu-0")])
    listed = room.client.list_all(RESOURCE_SLICES, field_selector=f"spec.nodeName={node}")
    assert [item["metadata"]["name"] for item in listed] == [made["metadata"]["name"]]
    assert len(room.client.list_all(RESOURCE_SLICES, field_selector=f"spec.driver={room.driver}")) == 1
    room.claim("plain", objects.request(room.device_class()))
    room.client.patch(
        RESOURCE_CLAIMS, "plain", {"metadata": {"labels": {"kept-by": "desk"}}}, namespace=room.namespace
    )
    labelled = room.client.list_all(RESOURCE_CLAIMS, namespace=room.namespace, label_selector="kept-by=desk")
    assert [item["metadata"]["name"] for item in labelled] == ["plain"]
    others = room.client.list_all(RESOURCE_CLAIMS, namespace=room.namespace, label_selector="kept-by!=desk")
    assert others == []


def test_items_of_a_list_carry_versions_that_grow_with_changes(room: Room) -> None:
    claim = room.claim("one", objects.request(room.device_class()))
    changed = room.client.patch(
        RESOURCE_CLAIMS, "one", {"metadata": {"labels": {"a": "b"}}}, namespace=room.namespace
    )
    assert int(version(changed)) > int(version(claim))
    (listed,) = room.client.list_all(RESOURCE_CLAIMS, namespace=room.namespace)
    assert version(listed) == version(changed)


def test_the_cluster_says_what_it_serves(client: Client) -> None:
    served = client.served("resource.k8s.io")
    assert "resource.k8s.io/v1" in served
    assert {"resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"} <= set(
        served["resource.k8s.io/v1"]
    )
    minor = int(str(client.version()["minor"]).rstrip("+"))
    assert minor >= 34


def test_an_account_can_ask_what_it_may_do(client: Client, room: Room) -> None:
    review = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "group": "resource.k8s.io",
                "resource": "resourceclaims",
                "verb": "create",
                "namespace": room.namespace,
            }
        },
    }
    assert client.create(ACCESS_REVIEWS, review)["status"]["allowed"] is True


def test_events_are_found_by_the_uid_of_what_they_are_about(room: Room) -> None:
    room.claim("one", objects.request(room.machine("gpu-0")))
    pod = room.pod("user", claims={"device": "one"})
    room.until_running("user")
    room.wait_for(lambda: room.events_of(pod), "Events about the Pod")
    assert all(event["involvedObject"]["uid"] == pod["metadata"]["uid"] for event in room.events_of(pod))
    strangers = room.client.list_all(
        EVENTS,
        namespace=room.namespace,
        field_selector="involvedObject.uid=00000000-0000-0000-0000-000000000000",
    )
    assert strangers == []


def test_an_answer_carries_the_clusters_clock(client: Client) -> None:
    answer = client.send(Request("GET", PODS.path(), {"limit": "1"}))
    assert answer.date is not None
    assert abs(answer.date.timestamp() - time.time()) < 3600
