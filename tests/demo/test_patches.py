"""Patches: JSON merge, JSON patch, strategic merge; and who owns which field afterwards."""

import copy

import pytest

from portal.demo.errors import ApiError
from portal.demo.patches import changed
from portal.demo.store import Store
from tests.demo.api import CLAIMS, PODS, Api, Object, claim, pod

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def test_merge_removes_with_null_and_replaces_lists() -> None:
    before = {"a": {"b": 1, "c": 2}, "list": [1, 2]}
    after = changed(before, {"a": {"b": None, "d": 3}, "list": [3]}, kind="merge")
    assert after == {"a": {"c": 2, "d": 3}, "list": [3]}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/a/x", "value": 1}], {"a": {"b": [1, 2], "x": 1}}),
        ([{"op": "add", "path": "/a/b/-", "value": 3}], {"a": {"b": [1, 2, 3]}}),
        ([{"op": "add", "path": "/a/b/0", "value": 0}], {"a": {"b": [0, 1, 2]}}),
        ([{"op": "replace", "path": "/a/b/1", "value": 9}], {"a": {"b": [1, 9]}}),
        ([{"op": "remove", "path": "/a/b"}], {"a": {}}),
        ([{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": [1, 2]}),
        ([{"op": "copy", "from": "/a/b/0", "path": "/c"}], {"a": {"b": [1, 2]}, "c": 1}),
        ([{"op": "add", "path": "/x~1y~0z", "value": 1}], {"a": {"b": [1, 2]}, "x/y~z": 1}),
        ([{"op": "test", "path": "/a/b/0", "value": 1}], {"a": {"b": [1, 2]}}),
    ],
)
def test_json_patch_operations(operations: list[Object], expected: Object) -> None:
    assert changed({"a": {"b": [1, 2]}}, operations, kind="json") == expected


def test_a_copied_value_is_not_shared() -> None:
    operations = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x", "value": 1},
    ]
    assert changed({"a": {}}, operations, kind="json") == {"a": {}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "add"}, 400),
        ([{"op": "grow", "path": "/a"}], 400),
        ([{"op": "add", "path": "a", "value": 1}], 400),
        ([{"op": "add", "path": "/x"}], 400),
        ([{"op": "test", "path": "/a/b/0", "value": 2}], 422),
        ([{"op": "remove", "path": "/missing"}], 422),
        ([{"op": "replace", "path": "/a/b/7", "value": 1}], 422),
        ([{"op": "add", "path": "/missing/x", "value": 1}], 422),
        ([{"op": "remove", "path": ""}], 422),
    ],
)
def test_json_patches_that_do_not_fit(operations: object, code: int) -> None:
    with pytest.raises(ApiError) as refusal:
        changed({"a": {"b": [1, 2]}}, operations, kind="json")
    assert refusal.value.status_code == code


def test_strategic_merge_knows_lists_by_key() -> None:
    before = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Old", "status": "True"}]}
    patch = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "$patch": "delete"}]}
    assert changed(before, patch, kind="strategic") == {"conditions": [{"type": "Ready", "status": "True"}]}


def test_strategic_merge_adds_to_finalizers_and_deletes_from_them() -> None:
    before = {"metadata": {"finalizers": ["a/1", "b/2"]}}
    added = changed(copy.deepcopy(before), {"metadata": {"finalizers": ["c/3"]}}, kind="strategic")
    assert added["metadata"]["finalizers"] == ["a/1", "b/2", "c/3"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1"]}}
    assert changed(before, patch, kind="strategic")["metadata"]["finalizers"] == ["b/2"]


def test_patches_over_http(api: Api) -> None:
    api.ok("POST", PODS, pod())
    one = f"{PODS}/one"
    api.ok("PATCH", one, {"metadata": {"labels": {"a": "1"}}}, content_type=STRATEGIC)
    operations = [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]
    assert api.ok("PATCH", one, operations, content_type=JSON_PATCH)["metadata"]["labels"] == {
        "a": "1",
        "b": "2",
    }
    refused = api.call("PATCH", one, {}, content_type="application/json")
    assert refused.code == 415
    assert "application/merge-patch+json" in refused.body["message"]


def test_a_patch_with_an_old_version_is_a_409(api: Api) -> None:
    api.ok("POST", PODS, pod())
    patch = {"metadata": {"resourceVersion": "1", "labels": {"a": "1"}}}
    answer = api.call("PATCH", f"{PODS}/one", patch, content_type="application/merge-patch+json")
    assert answer.code == 409


def test_a_patch_of_what_is_not_there_is_a_404(api: Api) -> None:
    assert api.call("PATCH", f"{PODS}/one", {}, content_type=STRATEGIC).code == 404


def test_apply_creates_then_changes_and_takes_back(api: Api) -> None:
    path = f"{CLAIMS}/one?fieldManager=desk"
    first = api.call("PATCH", path, claim(labels={"a": "1", "b": "2"}), content_type=APPLY)
    assert first.code == 201
    second = api.ok("PATCH", path, claim(labels={"a": "1", "c": "3"}), content_type=APPLY)
    assert second["metadata"]["labels"] == {"a": "1", "c": "3"}
    entry = second["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("desk", "Apply")
    assert entry["fieldsV1"]["f:metadata"]["f:labels"] == {".": {}, "f:a": {}, "f:c": {}}


def test_apply_leaves_the_labels_of_others(api: Api) -> None:
    api.ok("POST", CLAIMS, claim(labels={"theirs": "1"}))
    applied = claim(labels={"ours": "2"})
    after = api.ok("PATCH", f"{CLAIMS}/one?fieldManager=desk&force=true", applied, content_type=APPLY)
    assert after["metadata"]["labels"] == {"theirs": "1", "ours": "2"}


def test_apply_over_the_field_of_another_is_a_409_unless_forced(api: Api) -> None:
    api.ok("POST", PODS, {**pod(), "metadata": {"name": "one", "labels": {"a": "1"}}})
    mine = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": {"a": "2"}}}
    answer = api.call("PATCH", f"{PODS}/one?fieldManager=desk", mine, content_type=APPLY)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.body["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "tester" using v1',
            "field": ".metadata.labels.a",
        }
    ]
    forced = api.ok("PATCH", f"{PODS}/one?fieldManager=desk&force=true", mine, content_type=APPLY)
    assert forced["metadata"]["labels"] == {"a": "2"}


def test_apply_needs_a_manager_and_a_kind(api: Api) -> None:
    answer = api.call("PATCH", f"{CLAIMS}/one", claim(), content_type=APPLY)
    assert answer.code == 422
    nameless = {"metadata": {"name": "one"}}
    assert api.call("PATCH", f"{CLAIMS}/one?fieldManager=d", nameless, content_type=APPLY).code == 400


def test_the_status_has_a_manager_of_its_own_with_its_time(store: Store) -> None:
    made = store.create("resourceclaims", claim(), namespace="lab", manager="desk")
    allocation = {"devices": {"results": [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"},
    ]}}  # fmt: skip
    made["status"] = {"allocation": allocation}
    after = store.update_status("resourceclaims", made, manager="kube-scheduler")
    desk, scheduler = after["metadata"]["managedFields"]
    assert (desk["manager"], "subresource" in desk) == ("desk", False)
    assert (scheduler["manager"], scheduler["operation"], scheduler["subresource"]) == (
        "kube-scheduler",
        "Update",
        "status",
    )
    assert scheduler["time"].endswith("Z")
    assert set(scheduler["fieldsV1"]["f:status"]) == {"f:allocation"}


def test_a_field_belongs_to_the_last_who_changed_it(store: Store) -> None:
    body = {**pod(), "metadata": {"name": "one", "labels": {"a": "1", "b": "1"}}}
    store.create("pods", body, namespace="lab", manager="first")
    after = store.patch(
        "pods", "one", {"metadata": {"labels": {"a": "2"}}}, namespace="lab", manager="second"
    )
    owned = {entry["manager"]: entry["fieldsV1"] for entry in after["metadata"]["managedFields"]}
    assert "f:a" not in owned["first"]["f:metadata"]["f:labels"]
    assert "f:b" in owned["first"]["f:metadata"]["f:labels"]
    assert owned["second"] == {"f:metadata": {"f:labels": {"f:a": {}}}}
