"""Older Kubernetes versions: what is stored once is read and written in the shapes of each version served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.demo.catalog import VERSIONS, catalog
from portal.demo.fleet import edge, plant, sample_objects
from portal.demo.namespaces import found_first
from portal.demo.resources import BY_KIND
from portal.demo.store import Store
from tests.demo.api import Api, Object, claim, fields, serving

BETA1 = "/apis/resource.k8s.io/v1beta1"
BETA2 = "/apis/resource.k8s.io/v1beta2"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON, APPLY = "application/json-patch+json", "application/apply-patch+yaml"


@pytest.fixture
def old() -> Iterator[Api]:
    """A server of 1.33 with the namespace ``lab``."""
    with serving(catalog=catalog("1.33")) as running:
        yield running


def beta1_claim(name: str = "one", **request: object) -> Object:
    wanted = {"name": "gpu", "deviceClassName": "gpu.example.com", **request}
    return {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [wanted]}},
    }


def beta1_slice() -> Object:
    device = {
        "name": "gpu-0",
        "basic": {
            "attributes": {"model": {"string": "one"}},
            "capacity": {"memory": {"value": "40Gi"}},
        },
    }
    return {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "metadata": {"name": "one"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "one",
            "pool": {"name": "one", "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    }


def versions(api: Api, group: str) -> list[str]:
    answer = api.call("GET", f"/apis/{group}")
    return [item["version"] for item in answer.body["versions"]] if answer.code == 200 else []


def plurals(api: Api, path: str) -> set[str]:
    return {item["name"] for item in api.ok("GET", path)["resources"]}


@pytest.mark.parametrize(
    ("release", "dra", "rules", "groups"),
    [
        ("1.32", ["v1beta1"], [], []),
        ("1.33", ["v1beta2", "v1beta1"], [], []),
        ("1.34", ["v1"], [], []),
        ("1.35", ["v1"], [], ["v1alpha1"]),
        ("1.36", ["v1", "v1beta2"], ["v1beta2"], ["v1alpha2"]),
        ("1.37", ["v1", "v1beta2"], ["v1", "v1beta2"], ["v1beta1"]),
    ],
)
def test_each_release_serves_its_own_versions(
    release: str, dra: list[str], rules: list[str], groups: list[str]
) -> None:
    with serving(catalog=catalog(release)) as api:
        assert api.ok("GET", "/version")["gitVersion"].startswith(f"v{release}.")
        assert versions(api, "resource.k8s.io") == dra
        with_rules = [
            item for item in dra if "devicetaintrules" in plurals(api, f"/apis/resource.k8s.io/{item}")
        ]
        assert with_rules == rules
        assert versions(api, "scheduling.k8s.io") == groups
        assert versions(api, "kueue.x-k8s.io") == ["v1beta2", "v1beta1"]


def test_parts_can_be_left_out() -> None:
    with serving(catalog=catalog("1.36", without=("kueue", "podgroups"))) as api:
        assert versions(api, "kueue.x-k8s.io") == versions(api, "scheduling.k8s.io") == []
        assert api.call("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues").code == 404


def test_a_claim_written_in_one_version_is_read_in_another(old: Api) -> None:
    path = "/namespaces/lab/resourceclaims"
    made = old.ok("POST", BETA1 + path, beta1_claim(count=2))
    assert made["apiVersion"] == "resource.k8s.io/v1beta1"
    (flat,) = made["spec"]["devices"]["requests"]
    assert (flat["count"], flat["allocationMode"]) == (2, "ExactCount")
    assert "exactly" not in flat
    (nested,) = old.ok("GET", f"{BETA2}{path}/one")["spec"]["devices"]["requests"]
    assert nested == {"name": "gpu", "exactly": {key: flat[key] for key in flat if key != "name"}}
    (listed,) = old.ok("GET", BETA1 + path)["items"]
    assert listed["spec"] == made["spec"]
    assert old.call("GET", "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims").code == 404


def test_slices_and_templates_change_shape_too(old: Api) -> None:
    made = old.ok("POST", f"{BETA1}/resourceslices", beta1_slice())
    assert made["spec"]["devices"] == beta1_slice()["spec"]["devices"]
    (device,) = old.ok("GET", f"{BETA2}/resourceslices/one")["spec"]["devices"]
    assert device["capacity"] == {"memory": {"value": "40Gi"}}
    assert "basic" not in device
    template = {"metadata": {"name": "one"}, "spec": {"spec": beta1_claim()["spec"]}}
    made = old.ok("POST", f"{BETA1}/namespaces/lab/resourceclaimtemplates", template)
    assert made["spec"]["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu.example.com"
    stored = old.run(lambda store: store.get("resourceclaimtemplates", "one", namespace="lab"))
    assert stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_watches_and_selectors_speak_the_version_that_is_asked(old: Api) -> None:
    old.ok("POST", f"{BETA1}/resourceslices", beta1_slice())
    query = "?fieldSelector=spec.driver=gpu.example.com"
    assert len(old.ok("GET", f"{BETA1}/resourceslices{query}")["items"]) == 1
    with old.watch(f"{BETA1}/resourceslices{query}&watch=1&timeoutSeconds=5") as events:
        event = next(events)
    assert event["object"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert "basic" in event["object"]["spec"]["devices"][0]


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"a": "b"}}}),
        (STRATEGIC, {"metadata": {"labels": {"a": "b"}}}),
        (JSON, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
        (APPLY, {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice",
                 "metadata": {"name": "one", "labels": {"a": "b"}}}),
    ],
)  # fmt: skip
def test_patches_speak_the_version_that_they_are_sent_to(old: Api, kind: str, patch: object) -> None:
    old.ok("POST", f"{BETA1}/resourceslices", beta1_slice())
    path = f"{BETA1}/resourceslices/one?fieldManager=tester"
    patched = old.ok("PATCH", path, patch, content_type=kind)
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert patched["spec"]["devices"] == beta1_slice()["spec"]["devices"]


def test_a_patch_reaches_into_the_old_shape(old: Api) -> None:
    old.ok("POST", f"{BETA1}/resourceslices", beta1_slice())
    patch = [{"op": "add", "path": "/spec/devices/0/basic/attributes/extra", "value": {"int": 3}},
             {"op": "replace", "path": "/spec/pool/generation", "value": 2}]  # fmt: skip
    old.ok("PATCH", f"{BETA1}/resourceslices/one", patch, content_type=JSON)
    stored = old.run(lambda store: store.get("resourceslices", "one"))
    assert stored["spec"]["devices"][0]["attributes"]["extra"] == {"int": 3}


def test_the_status_is_written_in_the_old_version(old: Api) -> None:
    path = f"{BETA1}/namespaces/lab/resourceclaims"
    made = old.ok("POST", path, beta1_claim())
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "one", "device": "gpu-0"}
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    written = old.ok("PUT", f"{path}/one/status", made)
    assert written["status"]["allocation"]["devices"]["results"] == [result]
    assert written["spec"] == made["spec"]
    deleted = old.ok("DELETE", f"{path}/one")
    assert deleted["apiVersion"] == "resource.k8s.io/v1beta1"


def test_what_is_wrong_is_said_whatever_the_version(old: Api) -> None:
    path = f"{BETA1}/namespaces/lab/resourceclaims"
    refused = old.call("POST", path, beta1_claim(count=-1))
    assert refused.code == 422
    assert fields(refused) == {"spec.devices.requests[0].exactly.count"}
    assert old.call("POST", path, beta1_claim(count="many")).code == 400
    assert old.call("POST", path, claim()).code == 400  # a v1 object at a v1beta1 path
    warned = old.call("POST", path, beta1_claim(color="blue"))
    assert warned.code == 201
    assert "color" in warned.headers["Warning"]
    strict = old.call("POST", f"{path}?fieldValidation=Strict", beta1_claim("two", color="blue"))
    assert strict.code == 400


def test_what_a_release_does_not_know_is_dropped() -> None:
    with serving(catalog=catalog("1.34")) as api:
        body = claim()
        body["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [{"operator": "Exists"}]
        made = api.ok("POST", "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims", body)
        assert "tolerations" not in made["spec"]["devices"]["requests"][0]["exactly"]
        body["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = "all"
        refused = api.call("POST", "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims", body)
        assert refused.code == 400, "it is decoded before it is dropped"


def test_a_site_of_an_older_release_is_valid_there() -> None:
    served = catalog(edge.KUBERNETES)
    store = Store(features=served.features)
    for obj in edge.infrastructure() + edge.workloads():
        stored = store.create(BY_KIND[obj["apiVersion"], obj["kind"]].key, obj)
        if obj["kind"] in ("ResourceSlice", "DeviceClass"):
            assert stored["spec"] == obj["spec"]
    nodes = store.list("nodes")
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {"v1.34.4"}
    assert len(nodes) == 3
    names = {obj["metadata"]["name"] for obj in sample_objects() if obj["kind"] == "Node"}
    assert not names & {node["metadata"]["name"] for node in nodes}


@pytest.mark.parametrize("release", VERSIONS)
@pytest.mark.parametrize("site", ["sample", "edge"])
def test_every_site_can_be_planted_on_every_release(release: str, site: str) -> None:
    served = catalog(release)
    store = Store(features=served.features, installed=served.installed)
    found_first(store)
    assert plant(store, site) > 10
    waiting = store.list("jobs", labels="kueue.x-k8s.io/queue-name")
    assert all(job["spec"]["suspend"] for job in waiting)


def test_what_is_kept_is_served_in_other_versions_after_an_upgrade(tmp_path: Path) -> None:
    path = "/namespaces/lab/resourceclaims"
    with serving(tmp_path, catalog=catalog("1.33")) as api:
        made = api.ok("POST", BETA1 + path, beta1_claim())
    with serving(tmp_path, catalog=catalog("1.36")) as api:
        found = api.ok("GET", f"/apis/resource.k8s.io/v1{path}/one")
        assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"


def test_every_release_has_a_preset() -> None:
    assert [catalog(release).release for release in VERSIONS][-2:] == ["v1.36.2", "v1.37.0"]
    assert "DynamicResourceAllocation" in catalog("1.33").features.gates
