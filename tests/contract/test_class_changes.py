"""What the roll-out of a class relies on: rehearsal, apply as a field manager, conflicts, dropped fields."""

from collections.abc import Mapping
from typing import Any

import pytest

from inventory.proposals import writing
from inventory.proposals.writing import FIELD_MANAGER, Goal, Outcome, Present, Refused
from portal.kube.errors import ClusterError, Conflict, Invalid
from portal.kube.resources import DEVICE_CLASSES
from tests.contract.gates import is_on
from tests.contract.room import Room

Spec = dict[str, Any]


def rules(*expressions: str, **more: Any) -> Spec:
    return {"selectors": [{"cel": {"expression": text}} for text in expressions], **more}


@pytest.fixture
def name(room: Room) -> str:
    """Of a class that is removed at the end, whoever makes it."""
    name = room.name("reviewed")
    room.expect(DEVICE_CLASSES, name)
    return name


def look(room: Room, name: str) -> Present:
    return writing.look(room.client, writing.resource_of(room.client), name)


def change(
    room: Room, name: str, wanted: Spec | None, *, take_over: bool = False, labels: Any = None
) -> Mapping[str, Any] | None:
    """Look, rehearse, write; the object as it is then."""
    resource, present = writing.resource_of(room.client), look(room, name)
    way = writing.rehearse(
        room.client, resource, name, present=present, goal=Goal(wanted, labels), take_over=take_over
    )
    assert look(room, name).spec == present.spec, "a rehearsal changes nothing"
    return writing.write(room.client, resource, name, way=way, present=present, goal=Goal(wanted, labels))


def managers(room: Room, name: str) -> set[str]:
    """Who set fields of the spec."""
    body = look(room, name).body
    return {
        entry["manager"]
        for entry in body["metadata"].get("managedFields", ())
        if "f:spec" in entry.get("fieldsV1", {})
    }


def other(room: Room, name: str, spec: Spec) -> None:
    """Another tool applies the class under its own name."""
    body = {
        "apiVersion": DEVICE_CLASSES.api_version, "kind": "DeviceClass", "metadata": {"name": name},
        "spec": spec,
    }  # fmt: skip
    room.client.apply(DEVICE_CLASSES, name, body, field_manager="other-tool")


def test_a_class_is_made_changed_and_deleted_as_our_field_manager(room: Room, name: str) -> None:
    made = change(room, name, rules("false"))
    assert made is not None
    assert managers(room, name) == {FIELD_MANAGER}
    change(room, name, rules("true"))
    assert look(room, name).spec == rules("true")
    assert change(room, name, None) is None
    room.until_gone(DEVICE_CLASSES, name)


def test_what_another_manager_owns_is_a_conflict_that_names_it(room: Room, name: str) -> None:
    other(room, name, rules("false"))
    with pytest.raises(Refused) as refused:
        change(room, name, rules("true"))
    assert (refused.value.outcome, refused.value.managers) == (Outcome.CONFLICT, ["other-tool"])
    assert look(room, name).spec == rules("false")
    change(room, name, rules("true"), take_over=True)
    assert look(room, name).spec == rules("true")
    assert managers(room, name) == {FIELD_MANAGER}


def test_what_is_changed_between_looking_and_writing_is_not_overwritten(room: Room, name: str) -> None:
    change(room, name, rules("false"))
    resource, present = writing.resource_of(room.client), look(room, name)
    arguments: dict[str, Any] = {"present": present, "goal": Goal(rules("true"))}
    way = writing.rehearse(room.client, resource, name, take_over=True, **arguments)
    body = {**present.body, "spec": rules("1 == 1")}
    room.client.replace(DEVICE_CLASSES, name, body)
    with pytest.raises(Refused) as refused:
        writing.write(room.client, resource, name, way=way, **arguments)
    assert refused.value.outcome == Outcome.CHANGED
    with pytest.raises(Refused):
        writing.rehearse(room.client, resource, name, take_over=True, **arguments)
    gone = {**arguments, "goal": Goal(None)}
    with pytest.raises(Conflict):
        writing.write(room.client, resource, name, way=way, **gone)
    assert look(room, name).spec == rules("1 == 1")


def test_what_the_desk_wrote_before_by_replacing_is_its_own(room: Room, name: str) -> None:
    body = {
        "apiVersion": DEVICE_CLASSES.api_version, "kind": "DeviceClass", "metadata": {"name": name},
        "spec": rules("false"),
    }  # fmt: skip
    room.client.create(DEVICE_CLASSES, body)
    change(room, name, rules("true"))
    assert look(room, name).spec == rules("true")


def test_a_field_that_is_wanted_no_more_goes_whoever_set_it(room: Room, name: str) -> None:
    if not is_on(room.client, "DRAExtendedResource"):
        pytest.skip("without DRAExtendedResource there is only one field")
    with_name = rules("false", extendedResourceName=f"{room.driver}/gpu")
    change(room, name, with_name)
    change(room, name, rules("false"))
    assert look(room, name).spec == rules("false")
    other(room, name, with_name)
    with pytest.raises(Refused) as refused:
        change(room, name, rules("false"))
    assert refused.value.managers == ["other-tool"]
    change(room, name, rules("false"), take_over=True)
    assert look(room, name).spec == rules("false")


def test_a_field_is_kept_or_named_with_the_gate_that_is_off(room: Room, name: str) -> None:
    wanted = rules("false", extendedResourceName=f"{room.driver}/gpu")
    if is_on(room.client, "DRAExtendedResource"):
        change(room, name, wanted)
        assert look(room, name).spec == wanted
        return
    with pytest.raises(Refused) as refused:
        change(room, name, wanted)
    assert refused.value.outcome == Outcome.DROPPED
    assert refused.value.dropped == [{"field": "extendedResourceName", "gate": "DRAExtendedResource"}]
    assert look(room, name).spec is None


def test_a_field_that_no_server_knows_is_refused_and_not_lost(room: Room, name: str) -> None:
    with pytest.raises((Refused, ClusterError)):
        change(room, name, rules("false", noSuchField="x"))
    assert look(room, name).spec is None


def test_labels_are_set_removed_and_left_alone(room: Room, name: str) -> None:
    change(room, name, rules("false"), labels={"tier": "a", "team": "x"})
    change(room, name, rules("true"))
    assert look(room, name).labels == {"tier": "a", "team": "x"}
    change(room, name, rules("true"), labels={"tier": "b"})
    assert look(room, name).labels == {"tier": "b"}


def test_what_the_server_finds_invalid_is_told_by_the_rehearsal(room: Room, name: str) -> None:
    with pytest.raises(Invalid, match="selectors"):
        change(room, name, rules("device.driver =="))
    assert look(room, name).spec is None
