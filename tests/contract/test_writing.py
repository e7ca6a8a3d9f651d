"""What a cluster accepts, what it refuses, and what a dry-run leaves behind (nothing)."""

import pytest

from portal.kube.errors import Forbidden, Invalid, NotFound
from portal.kube.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
)
from tests.contract import objects
from tests.contract.room import Room


def test_a_dry_run_answers_as_the_real_thing_and_creates_nothing(room: Room) -> None:
    body = objects.claim("rehearsed", [objects.request(room.device_class())])
    answer = room.client.create(RESOURCE_CLAIMS, body, namespace=room.namespace, dry_run=True)
    assert answer["spec"] == body["spec"]
    assert answer["metadata"]["uid"]
    with pytest.raises(NotFound):
        room.get_claim("rehearsed")


def test_a_dry_run_refuses_what_would_be_refused(room: Room) -> None:
    body = objects.claim("wrong", [objects.request(room.device_class(), "device.driver ==")])
    with pytest.raises(Invalid) as refused:
        room.client.create(RESOURCE_CLAIMS, body, namespace=room.namespace, dry_run=True)
    assert refused.value.status == 422
    field = "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    assert {cause.field for cause in refused.value.causes} == {field}


def test_a_dry_run_does_not_look_whether_the_class_exists(room: Room) -> None:
    body = objects.claim("hopeful", [objects.request(room.name("no-such-class"))])
    answer = room.client.create(RESOURCE_CLAIMS, body, namespace=room.namespace, dry_run=True)
    assert answer["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == room.name(
        "no-such-class"
    )


def test_a_field_that_is_not_known_is_dropped_silently(room: Room) -> None:
    body = objects.claim("odd", [objects.request(room.device_class())])
    body["spec"]["devices"]["notAField"] = True
    answer = room.client.create(RESOURCE_CLAIMS, body, namespace=room.namespace, dry_run=True)
    assert "notAField" not in answer["spec"]["devices"]


def test_defaults_are_filled_in(room: Room) -> None:
    device_class = room.device_class()
    bare = {"name": "device", "exactly": {"deviceClassName": device_class}}
    made = room.client.create(
        RESOURCE_CLAIMS, objects.claim("bare", [bare]), namespace=room.namespace, dry_run=True
    )
    exactly = made["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)


def test_a_template_cannot_be_changed_but_a_class_can(room: Room) -> None:
    device_class = room.device_class()
    template = room.template("wish", objects.request(device_class))
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    with pytest.raises(Invalid):
        room.client.replace(RESOURCE_CLAIM_TEMPLATES, "wish", template, namespace=room.namespace)
    current = room.client.get(DEVICE_CLASSES, device_class)
    expression = f"device.driver == '{room.driver}' && true"
    current["spec"]["selectors"] = [{"cel": {"expression": expression}}]
    changed = room.client.replace(DEVICE_CLASSES, device_class, current)
    assert changed["metadata"]["generation"] == current["metadata"]["generation"] + 1


def test_a_namespaced_object_needs_its_namespace(room: Room) -> None:
    body = objects.claim("homeless", [objects.request(room.device_class())])
    with pytest.raises(NotFound):
        room.client.create(RESOURCE_CLAIMS, body, namespace=room.name("nowhere"))


def test_a_quota_counts_the_devices_that_claims_ask_for(room: Room) -> None:
    device_class = room.device_class()
    key = f"{device_class}.deviceclass.resource.k8s.io/devices"
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "devices"},
        "spec": {"hard": {key: "3"}},
    }
    room.create(RESOURCE_QUOTAS, quota)
    room.wait_for(lambda: _quota_status(room).get("hard") == {key: "3"}, "the quota's first sync")
    room.wait_for(lambda: room.is_admitted(device_class), "admission knows the quota's status too")
    room.claim("two", objects.request(device_class, count=2))
    room.wait_for(lambda: _quota_status(room).get("used") == {key: "2"}, "two devices counted")
    with pytest.raises(Forbidden) as refused:
        room.claim("too-many", objects.request(device_class, count=2))
    message = refused.value.message
    assert "exceeded quota: devices" in message
    for part in (f"requested: {key}=2", f"used: {key}=2", f"limited: {key}=3"):
        assert part in message
    # Held or not does not matter: no Pod has named the first claim.
    assert not room.get_claim("two").get("status")
    room.claim("one", objects.request(device_class))
    room.client.delete(RESOURCE_CLAIMS, "two", namespace=room.namespace)
    room.wait_for(
        lambda: _quota_status(room).get("used") == {key: "1"}, "the deleted claim's devices given back"
    )


def _quota_status(room: Room) -> objects.Object:
    return dict(room.client.get(RESOURCE_QUOTAS, "devices", namespace=room.namespace).get("status") or {})


def test_a_namespace_takes_everything_in_it_along(room: Room) -> None:
    room.claim("one", objects.request(room.device_class()))
    room.client.delete(NAMESPACES, room.namespace)
    room.until_gone(NAMESPACES, room.namespace)
    with pytest.raises(NotFound):
        room.get_claim("one")
