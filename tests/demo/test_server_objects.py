"""Creating, reading, changing and deleting single objects over HTTP."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from tests.demo.api import CLAIMS, PODS, Api, claim, fields, pod


def test_a_new_object_gets_what_the_server_gives(api: Api) -> None:
    made = api.ok("POST", CLAIMS, claim())
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    assert metadata["namespace"] == "lab"
    assert len(metadata["uid"]) == 36
    assert metadata["resourceVersion"].isdecimal()
    assert datetime.fromisoformat(metadata["creationTimestamp"]).tzinfo == UTC
    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu.example.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert made["status"] == {}
    assert api.ok("GET", f"{CLAIMS}/one") == made


def test_creating_answers_201_and_tells_the_date(api: Api) -> None:
    answer = api.call("POST", CLAIMS, claim())
    assert answer.code == 201
    assert answer.headers["Content-Type"].startswith("application/json")
    assert parsedate_to_datetime(answer.headers["Date"]).tzinfo is not None


def test_a_status_sent_at_creation_is_dropped(api: Api) -> None:
    made = api.ok("POST", PODS, {**pod(), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"


def test_a_node_keeps_the_status_with_which_its_kubelet_registers(api: Api) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "8000m"}}}
    made = api.ok("POST", "/api/v1/nodes", node)
    assert made["status"] == {"capacity": {"cpu": "8"}}
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_generate_name_appends_five_letters(api: Api) -> None:
    body = claim()
    body["metadata"] = {"generateName": "run-"}
    names = {api.ok("POST", CLAIMS, body)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("run-") and len(name) == 9 for name in names)


def test_a_second_object_of_the_name_is_a_409(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    answer = api.call("POST", CLAIMS, claim())
    assert (answer.code, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["message"] == 'resourceclaims.resource.k8s.io "one" already exists'
    assert answer.body["details"] == {"name": "one", "group": "resource.k8s.io", "kind": "resourceclaims"}


def test_what_is_not_there_is_a_404(api: Api) -> None:
    answer = api.call("GET", f"{CLAIMS}/none")
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    assert answer.body["message"] == 'resourceclaims.resource.k8s.io "none" not found'


def test_a_namespace_that_is_not_there_is_a_404(api: Api) -> None:
    answer = api.call("POST", CLAIMS.replace("lab", "attic"), claim())
    assert (answer.code, answer.body["message"]) == (404, 'namespaces "attic" not found')


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/apis/nothing.example/v1", 404),
        ("GET", "/apis/resource.k8s.io/v1/gadgets", 404),
        ("GET", f"{CLAIMS}/one/scale", 404),
        ("POST", f"{CLAIMS}/one", 405),
        ("PUT", CLAIMS, 405),
        ("POST", "/api/v1/pods", 405),
        ("POST", f"{PODS}/one/status", 405),
        ("DELETE", f"{PODS}/one/status", 405),
    ],
)
def test_wrong_paths_and_methods_are_named(api: Api, method: str, path: str, code: int) -> None:
    answer = api.call(method, path, {} if method in ("POST", "PUT") else None)
    assert (answer.code, answer.body["kind"], answer.body["status"]) == (code, "Status", "Failure")


def test_an_update_with_an_old_version_is_a_409(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    changed = api.ok("PUT", f"{PODS}/one", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    assert changed["metadata"]["labels"] == {"a": "b"}
    late = api.call("PUT", f"{PODS}/one", made)
    assert (late.code, late.body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in late.body["message"]


def test_a_version_that_is_no_number_is_a_400(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    made["metadata"]["resourceVersion"] = "latest"
    assert api.call("PUT", f"{PODS}/one", made).code == 400


def test_an_update_without_a_version_overwrites(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    del made["metadata"]["resourceVersion"]
    made["metadata"]["labels"] = {"a": "b"}
    assert api.ok("PUT", f"{PODS}/one", made)["metadata"]["labels"] == {"a": "b"}


def test_an_update_that_changes_nothing_makes_no_version(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    assert api.ok("PUT", f"{PODS}/one", made) == made


def test_an_update_leaves_the_status_alone_and_the_status_endpoint_the_rest(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    made["status"]["phase"] = "Running"
    made["metadata"]["labels"] = {"a": "b"}
    updated = api.ok("PUT", f"{PODS}/one", made)
    assert updated["status"]["phase"] == "Pending"
    updated["status"]["phase"] = "Running"
    updated["spec"]["nodeName"] = "n1"
    after = api.ok("PUT", f"{PODS}/one/status", updated)
    assert after["status"]["phase"] == "Running"
    assert "nodeName" not in after["spec"]


def test_the_status_of_a_claim_takes_no_labels_and_finalizers_along(api: Api) -> None:
    made = api.ok("POST", CLAIMS, claim(labels={"a": "b"}))
    made["metadata"].update(labels={"a": "c"}, finalizers=["example.com/x"])
    after = api.ok("PUT", f"{CLAIMS}/one/status", made)
    assert after["metadata"]["labels"] == {"a": "b"}
    assert "finalizers" not in after["metadata"]


def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    made = api.ok("POST", path, {"metadata": {"name": "c"}, "spec": {}})
    made["metadata"]["labels"] = {"a": "b"}
    labelled = api.ok("PUT", f"{path}/c", made)
    assert labelled["metadata"]["generation"] == 1
    labelled["spec"]["extendedResourceName"] = "example.com/gpu"
    assert api.ok("PUT", f"{path}/c", labelled)["metadata"]["generation"] == 2


def test_the_name_in_the_body_has_to_be_that_of_the_path(api: Api) -> None:
    made = api.ok("POST", PODS, pod())
    made["metadata"]["name"] = "two"
    assert api.call("PUT", f"{PODS}/one", made).code == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_dry_run_says_what_would_be_and_changes_nothing(api: Api, method: str) -> None:
    made = api.ok("POST", PODS, pod())
    before = api.ok("GET", "/api/v1/pods")["metadata"]["resourceVersion"]
    path = f"{PODS}?dryRun=All" if method == "POST" else f"{PODS}/one?dryRun=All"
    body = {"POST": pod("two"), "PUT": {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}}
    answer = api.call(method, path, body.get(method))
    assert answer.code in (200, 201)
    after = api.ok("GET", "/api/v1/pods")
    assert after["metadata"]["resourceVersion"] == before
    assert [item["metadata"]["name"] for item in after["items"]] == ["one"]


def test_a_dry_run_still_finds_faults(api: Api) -> None:
    body = claim()
    body["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = ""
    answer = api.call("POST", f"{CLAIMS}?dryRun=All", body)
    assert answer.code == 422
    assert fields(answer) == {"spec.devices.requests[0].exactly.deviceClassName"}


def test_binding_assigns_a_node_once(api: Api) -> None:
    api.ok("POST", PODS, pod())
    target = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n1"}}
    assert api.call("POST", f"{PODS}/one/binding", target).code == 201
    bound = api.ok("GET", f"{PODS}/one")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["generation"] == 1
    assert [item["type"] for item in bound["status"]["conditions"]] == ["PodScheduled"]
    again = api.call("POST", f"{PODS}/one/binding", target)
    assert (again.code, again.body["reason"]) == (409, "Conflict")
    assert 'already assigned to node "n1"' in again.body["message"]


def test_fields_that_are_not_known_are_dropped_with_a_warning(api: Api) -> None:
    body = claim()
    body["spec"]["colour"] = "red"
    answer = api.call("POST", CLAIMS, body)
    assert "colour" not in answer.body["spec"]
    assert 'unknown field \\"spec.colour\\"' in answer.headers["Warning"]


def test_fields_that_are_not_known_are_refused_when_asked_strictly(api: Api) -> None:
    body = claim()
    body["spec"]["colour"] = "red"
    answer = api.call("POST", f"{CLAIMS}?fieldValidation=Strict", body)
    assert answer.code == 400
    assert 'strict decoding error: unknown field "spec.colour"' in answer.body["message"]


def test_fields_behind_a_gate_that_is_off_are_dropped_silently(api: Api) -> None:
    device = {"name": "gpu-0", "attributes": {"links": {"strings": ["a", "b"]}, "model": {"string": "X1"}}}
    slice_ = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    }
    answer = api.call("POST", "/apis/resource.k8s.io/v1/resourceslices", slice_)
    # A value whose only kind was dropped is no value any more.
    assert fields(answer) == {"spec.devices[0].attributes[links]"}
    assert "Warning" not in answer.headers


def test_quantities_come_back_in_canonical_form(api: Api) -> None:
    body = claim()
    body["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "40960Mi"}}
    made = api.ok("POST", CLAIMS, body)
    assert made["spec"]["devices"]["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "40Gi"}}


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("not json", "an object is expected"),
        ([], "an object is expected"),
        ({"kind": "Pod", "apiVersion": "v1"}, "does not match the expected API version"),
        ({**claim(), "spec": 7}, "cannot unmarshal number into Go struct field spec"),
        ({**claim(), "spec": {"devices": 7}}, "spec.devices of type v1.DeviceClaim"),
        ({**claim(), "spec": {"devices": {"requests": 7}}}, "requests of type []v1.DeviceRequest"),
        ({**claim(), "metadata": {"name": "a", "labels": 7}}, "metadata.labels of type map[string]string"),
        ({**claim(), "metadata": {"name": "a", "labels": {"a": 1}}}, "metadata.labels.a of type string"),
        ({**claim(), "metadata": {"name": "a", "namespace": "other"}}, "does not match the namespace"),
        ({**claim(), "metadata": {"name": "a", "resourceVersion": "3"}}, "resourceVersion should not be set"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_400(api: Api, body: object, part: str) -> None:
    answer = api.call("POST", CLAIMS, body)
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert part in answer.body["message"]


def test_malformed_json_is_a_400(api: Api) -> None:
    answer = api.call("POST", CLAIMS, b'{"metadata": ')
    assert answer.code == 400
    assert "json parse error" in answer.body["message"]


def test_json_nested_without_end_is_a_400(api: Api) -> None:
    answer = api.call("POST", CLAIMS, b"[" * 100_000)
    assert answer.code == 400


def test_a_body_that_is_too_large_is_a_413(api: Api) -> None:
    body = claim(annotations={"a": "x" * 4_000_000})
    answer = api.call("POST", CLAIMS, body)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")


def test_a_body_of_another_type_is_a_415(api: Api) -> None:
    answer = api.call("POST", CLAIMS, b"\x00", content_type="application/vnd.kubernetes.protobuf")
    assert (answer.code, answer.body["reason"]) == (415, "UnsupportedMediaType")
