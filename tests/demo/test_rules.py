"""The table of what is accepted and refused, on the embedded cluster."""

import pytest

from portal.demo.store import Store
from tests.demo.api import CLAIMS, Api, Object, claim, fields, serving
from tests.demo.validation_cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.resource}: {case.name}")
def test_the_table_holds(case: Case, api: Api) -> None:
    collection = case.collection("lab")
    if case.before is not None:
        api.ok("POST", collection, case.before)
    one = f"{collection}/{case.obj['metadata'].get('name')}"
    method, path = {
        "create": ("POST", f"{collection}?dryRun=All"),
        "update": ("PUT", one),
        "update_status": ("PUT", f"{one}/status"),
    }[case.verb]
    answer = api.call(method, path, case.obj)
    assert answer.code == case.code, answer.body
    if case.fields is not None:
        assert fields(answer) == case.fields, answer.body["message"]


def test_names_of_cases_are_told_apart() -> None:
    names = [(case.resource, case.name) for case in CASES]
    assert len(names) == len(set(names))


def allocated(store: Store) -> Object:
    made = store.create("resourceclaims", claim(), namespace="lab")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    made["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
    return store.update_status("resourceclaims", made)


def refused(api: Api, status: object) -> set[str]:
    body = api.ok("GET", f"{CLAIMS}/one")
    answer = api.call("PUT", f"{CLAIMS}/one/status", {**body, "status": status})
    assert answer.code == 422
    return fields(answer)


def test_an_allocation_stays_until_it_is_given_up_whole(api: Api) -> None:
    status = api.run(allocated)["status"]
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}
    other = {**status, "allocation": {"devices": {"results": [result]}}}
    assert refused(api, other) == {"status.allocation"}
    assert refused(api, {"reservedFor": status["reservedFor"]}) == {"status.reservedFor"}
    body = api.ok("GET", f"{CLAIMS}/one")
    assert api.ok("PUT", f"{CLAIMS}/one/status", {**body, "status": {}})["status"] == {}


def test_no_consumer_is_added_to_a_claim_on_its_way_out(api: Api) -> None:
    api.run(allocated)
    patch = {"metadata": {"finalizers": ["example.com/held"]}}
    api.ok("PATCH", f"{CLAIMS}/one", patch, content_type="application/merge-patch+json")
    api.ok("DELETE", f"{CLAIMS}/one")
    body = api.ok("GET", f"{CLAIMS}/one")
    body["status"]["reservedFor"].append({"resource": "pods", "name": "q", "uid": "v"})
    assert refused(api, body["status"]) == {"status.reservedFor"}


def test_access_to_held_devices_needs_a_labelled_namespace(api: Api) -> None:
    body = claim()
    body["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    answer = api.call("POST", CLAIMS, body)
    assert answer.code == 422
    assert "admin access to devices requires the" in answer.body["message"]
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api.ok("PATCH", "/api/v1/namespaces/lab", label, content_type="application/merge-patch+json")
    assert api.call("POST", CLAIMS, body).code == 201


def test_a_422_names_the_object_and_every_fault() -> None:
    body = claim("Wrong")
    body["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": "", "count": -1}
    with serving() as api:
        answer = api.call("POST", CLAIMS, body)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"].startswith(
        'ResourceClaim.resource.k8s.io "Wrong" is invalid: [metadata.name: '
    )
    details = answer.body["details"]
    assert (details["name"], details["group"], details["kind"]) == (
        "Wrong",
        "resource.k8s.io",
        "ResourceClaim",
    )
    assert {cause["reason"] for cause in details["causes"]} == {"FieldValueInvalid", "FieldValueRequired"}
    assert len(details["causes"]) == 3
