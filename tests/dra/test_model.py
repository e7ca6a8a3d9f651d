"""Objects are decoded from every served version, and a malformed one is a named error with its path."""

import json
from typing import Any

import pytest

from portal.dra.model import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceTaintRule,
    Malformed,
    Node,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    UnknownKind,
    decode_object,
    decode_page,
    encode,
    walk_list,
)
from tests.dra.builders import V1, claim, slice_of

SPEC = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}


def raw(kind: str, spec: Any, version: str = V1, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec, **rest}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (raw("ResourceSlice", SPEC), ResourceSlice),
        (raw("ResourceClaim", {}), ResourceClaim),
        (raw("ResourceClaimTemplate", {"spec": {}}), ResourceClaimTemplate),
        (raw("DeviceClass", {}), DeviceClass),
        (raw("DeviceTaintRule", {"taint": {"key": "k", "effect": "NoExecute"}}), DeviceTaintRule),
        (
            raw("DeviceTaintRule", {"taint": {"key": "k", "effect": "None"}}, "resource.k8s.io/v1alpha3"),
            DeviceTaintRule,
        ),
        (raw("Node", {}, "v1"), Node),
        (raw("Pod", {}, "v1"), Pod),
    ],
)
def test_each_kind_is_decoded_from_dict_and_bytes_alike(document: dict[str, Any], expected: type) -> None:
    found = decode_object(document)
    assert type(found) is expected
    assert decode_object(json.dumps(document).encode()) == found


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_slices_of_every_version_become_the_same(version: str) -> None:
    body = {"attributes": {"model": {"string": "A"}}, "capacity": {"memory": {"value": "1Gi"}}}
    found = {"name": "gpu-0", **body} if version != "v1beta1" else {"name": "gpu-0", "basic": body}
    decoded = decode_object(raw("ResourceSlice", {**SPEC, "devices": [found]}, f"resource.k8s.io/{version}"))
    assert decoded == decode_object(raw("ResourceSlice", {**SPEC, "devices": [{"name": "gpu-0", **body}]}))


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_a_v1beta1_request_is_nested_like_a_v1_request(kind: str) -> None:
    body = {"deviceClassName": "gpu", "count": 2, "adminAccess": True}

    def wrapped(request: dict[str, Any]) -> dict[str, Any]:
        spec = {"devices": {"requests": [request]}}
        return spec if kind == "ResourceClaim" else {"spec": spec}

    old = decode_object(raw(kind, wrapped({"name": "r", **body}), "resource.k8s.io/v1beta1"))
    assert old == decode_object(raw(kind, wrapped({"name": "r", "exactly": body})))


def test_a_v1beta1_prioritized_list_keeps_its_alternatives() -> None:
    request = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}
    spec = {"devices": {"requests": [request]}}
    old = decode_object(raw("ResourceClaim", spec, "resource.k8s.io/v1beta1"))
    assert old == decode_object(raw("ResourceClaim", spec))


def test_unknown_fields_are_kept_out_of_the_way() -> None:
    spec = {**SPEC, "colour": "red", "devices": [{"name": "gpu-0", "smell": {"kind": "new"}}]}
    found = decode_object(raw("ResourceSlice", spec, future=1))
    assert isinstance(found, ResourceSlice)
    assert found.spec.devices == (Device(name="gpu-0"),)


def test_null_means_not_set_as_in_go() -> None:
    document = raw("ResourceSlice", {**SPEC, "devices": None, "nodeSelector": None})
    document["metadata"]["creationTimestamp"] = None
    document["metadata"]["labels"] = None
    assert decode_object(document) == decode_object(raw("ResourceSlice", SPEC))


def test_null_in_a_drivers_own_parameters_is_left_alone() -> None:
    opaque = {"driver": "d", "parameters": {"mode": None}}
    document = raw("DeviceClass", {"config": [{"opaque": opaque}], "selectors": None})
    found = decode_object(document)
    assert isinstance(found, DeviceClass)
    assert found.spec.config[0].opaque is not None
    assert found.spec.config[0].opaque.parameters == {"mode": None}


@pytest.mark.parametrize("value", [64, "64", 1.5])
def test_a_quantity_may_be_written_as_a_number(value: str | float) -> None:
    found = decode_object(
        raw("ResourceSlice", {**SPEC, "devices": [{"name": "a", "capacity": {"cpu": {"value": value}}}]})
    )
    assert isinstance(found, ResourceSlice)
    assert found.spec.devices[0].capacity["cpu"].value == str(value)


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        (raw("ResourceSlice", {**SPEC, "driver": 5}), "spec.driver", "Expected `str`"),
        (raw("ResourceSlice", {"driver": "d"}), "spec", "missing required field `pool`"),
        (
            raw("ResourceSlice", {**SPEC, "devices": [{"name": "a"}, {}]}),
            "spec.devices[1]",
            "missing required field `name`",
        ),
        (
            raw(
                "DeviceTaintRule",
                {"taint": {"key": "k", "effect": "None"}, "deviceSelector": {"selectors": [{}]}},
            ),
            "spec.deviceSelector",
            "went with v1alpha3",
        ),
        (
            raw("ResourceSlice", {**SPEC, "devices": [{"name": "a", "capacity": {"m": {"value": "40Gx"}}}]}),
            "spec.devices[0].capacity[...]",
            "",
        ),
        (raw("ResourceClaim", {"devices": {"requests": {}}}), "spec.devices.requests", "Expected `array`"),
        (
            raw("ResourceClaim", {"devices": {"requests": [{"name": "r", "exactly": {"count": -1}}]}}),
            "spec.devices.requests[0].exactly.count",
            "Expected `int` >= 0",
        ),
        (
            raw("DeviceClass", {"selectors": [{"cel": {"expression": 1}}]}),
            "spec.selectors[0].cel.expression",
            "Expected `str`",
        ),
        (raw("Node", {"unschedulable": "yes"}, "v1"), "spec.unschedulable", "Expected `bool"),
    ],
)
def test_a_malformed_object_names_itself_and_the_field(
    document: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(Malformed) as caught:
        decode_object(document, source="file.yaml")
    assert caught.value.path == path
    assert caught.value.name == "file.yaml: x"
    assert caught.value.kind == document["kind"]
    assert words in caught.value.reason


@pytest.mark.parametrize("text", [b"", b"[]", b"nonsense", b"\xff", b"1", b'{"kind": 1}'])
def test_what_is_no_object_at_all_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        decode_object(text)


@pytest.mark.parametrize(
    "document",
    [
        raw("Gadget", {}),
        raw("ResourceSlice", SPEC, "resource.k8s.io/v1alpha3"),
        raw("DeviceTaintRule", {}, "resource.k8s.io/v1beta1"),
        raw("ResourceSlice", SPEC, "resource.k8s.io/v2"),
        raw("Node", {}, V1),
        {"metadata": {"name": "x"}},
    ],
)
def test_a_kind_without_a_part_here_is_told_apart(document: dict[str, Any]) -> None:
    with pytest.raises(UnknownKind):
        decode_object(document)


def test_a_page_keeps_good_items_when_one_is_bad() -> None:
    page = {
        "apiVersion": V1,
        "kind": "ResourceSliceList",
        "metadata": {"resourceVersion": "77", "continue": "more"},
        "items": [
            {"metadata": {"name": "good"}, "spec": SPEC},
            {"metadata": {"name": "bad"}, "spec": {}},
            {"metadata": {"name": "fine"}, "spec": SPEC},
        ],
    }
    found = decode_page(json.dumps(page).encode())
    assert [item.metadata.name for item in found.items] == ["good", "fine"]
    assert [error.name for error in found.malformed] == ["bad"]
    assert (found.resource_version, found.continue_token) == ("77", "more")


def test_an_empty_page_has_no_items() -> None:
    found = decode_page(b'{"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": null}')
    assert (found.items, found.malformed) == ((), ())


def test_a_page_that_is_no_list_is_malformed() -> None:
    with pytest.raises(Malformed):
        decode_page(b"<html>")


def test_encoding_gives_back_what_was_decoded() -> None:
    document = raw(
        "ResourceSlice",
        {
            **SPEC,
            "devices": [
                {
                    "name": "a",
                    "attributes": {"i": {"int": 0}, "b": {"bool": False}, "l": {"strings": ["x"]}},
                    "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}],
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                    "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "8"}}},
                }
            ],
            "skipNodeOperations": ["*"],
            "partitionTypeAttribute": "d/profile",
        },
    )
    assert encode(decode_object(document)) == document


def test_an_unset_field_is_left_out_of_the_form() -> None:
    assert encode(claim(name="c"))["spec"] == {"devices": {}}
    assert "status" not in encode(claim(name="c"))


@pytest.mark.parametrize(
    ("attribute", "kind", "value", "is_list"),
    [
        ({"string": ""}, "string", "", False),
        ({"int": 0}, "int", 0, False),
        ({"bool": False}, "bool", False, False),
        ({"version": "1.0.0"}, "version", "1.0.0", False),
        ({"ints": [1, 2]}, "int", (1, 2), True),
        ({"bools": [True]}, "bool", (True,), True),
        ({"strings": ["a"]}, "string", ("a",), True),
        ({"versions": ["1.0.0"]}, "version", ("1.0.0",), True),
        ({}, "", None, False),
    ],
)
def test_an_attribute_tells_its_type_and_value(attribute: Any, kind: str, value: Any, is_list: bool) -> None:
    found = slice_of({"name": "a", "attributes": {"x": attribute}}).spec.devices[0].attributes["x"]
    assert (found.kind, found.value, found.is_list) == (kind, value, is_list)
    assert isinstance(found, DeviceAttribute)


def test_lists_are_taken_apart_and_typed_lists_lend_their_kind() -> None:
    inner = {"apiVersion": V1, "kind": "DeviceClassList", "items": [{"metadata": {"name": "a"}}]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [inner, raw("DeviceClass", {})]}
    assert [(item["kind"], item["metadata"]["name"]) for item in walk_list(outer)] == [
        ("DeviceClass", "a"),
        ("DeviceClass", "x"),
    ]


def test_a_list_of_other_things_than_objects_is_malformed() -> None:
    with pytest.raises(Malformed, match="expected objects"):
        list(walk_list({"apiVersion": "v1", "kind": "List", "items": [1]}))
