"""Deletion: finalizers, graceful periods, preconditions, propagation, collections and namespaces."""

import time

from tests.demo.api import CLAIMS, PODS, Api, claim, pod


def bind(api: Api, name: str = "one") -> None:
    api.ok("POST", f"{PODS}/{name}/binding", {"target": {"name": "n1"}})


def test_an_object_without_finalizers_goes_at_once_and_is_the_answer(api: Api) -> None:
    made = api.ok("POST", CLAIMS, claim())
    answer = api.ok("DELETE", f"{CLAIMS}/one")
    assert (answer["kind"], answer["metadata"]["uid"]) == ("ResourceClaim", made["metadata"]["uid"])
    assert api.call("GET", f"{CLAIMS}/one").code == 404


def test_some_kinds_answer_with_a_status(api: Api) -> None:
    made = api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    answer = api.ok("DELETE", "/api/v1/nodes/n1")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "n1", "kind": "nodes", "uid": made["metadata"]["uid"]}


def test_finalizers_keep_an_object_until_the_last_is_gone(api: Api) -> None:
    api.ok("POST", CLAIMS, claim(finalizers=["example.com/a"]))
    marked = api.ok("DELETE", f"{CLAIMS}/one")
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    patch = {"metadata": {"finalizers": None}}
    api.ok("PATCH", f"{CLAIMS}/one", patch, content_type="application/merge-patch+json")
    assert api.call("GET", f"{CLAIMS}/one").code == 404


def test_an_object_on_its_way_out_gets_no_new_finalizers(api: Api) -> None:
    api.ok("POST", CLAIMS, claim(finalizers=["example.com/a"]))
    api.ok("DELETE", f"{CLAIMS}/one")
    patch = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    answer = api.call("PATCH", f"{CLAIMS}/one", patch, content_type="application/merge-patch+json")
    assert answer.code == 422
    assert answer.body["details"]["causes"][0]["field"] == "metadata.finalizers"


def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    api.ok("POST", PODS, pod())
    gone = api.ok("DELETE", f"{PODS}/one")
    assert gone["kind"] == "Pod"
    assert api.call("GET", f"{PODS}/one").code == 404


def test_a_bound_pod_waits_for_its_kubelet(api: Api) -> None:
    api.ok("POST", PODS, pod())
    bind(api)
    marked = api.ok("DELETE", f"{PODS}/one")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.ok("GET", f"{PODS}/one")["metadata"]["deletionTimestamp"]
    api.ok("DELETE", f"{PODS}/one", {"gracePeriodSeconds": 0})
    assert api.call("GET", f"{PODS}/one").code == 404


def test_a_grace_period_can_only_become_shorter(api: Api) -> None:
    api.ok("POST", PODS, pod())
    bind(api)
    api.ok("DELETE", f"{PODS}/one?gracePeriodSeconds=5")
    assert api.ok("DELETE", f"{PODS}/one", {})["metadata"]["deletionGracePeriodSeconds"] == 5
    shorter = api.ok("DELETE", f"{PODS}/one", {"gracePeriodSeconds": 1})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 1


def test_a_finished_pod_needs_no_kubelet(api: Api) -> None:
    api.ok("POST", PODS, pod())
    bind(api)
    status = {"status": {"phase": "Succeeded"}}
    api.ok("PATCH", f"{PODS}/one/status", status, content_type="application/merge-patch+json")
    api.ok("DELETE", f"{PODS}/one")
    assert api.call("GET", f"{PODS}/one").code == 404


def test_preconditions_protect_a_successor_of_the_same_name(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    answer = api.call("DELETE", f"{CLAIMS}/one", wrong)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert api.call("GET", f"{CLAIMS}/one").code == 200


def test_foreground_deletion_is_left_to_the_garbage_collector(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    marked = api.ok("DELETE", f"{CLAIMS}/one", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        api.ok("POST", CLAIMS, claim(name, labels={"k": label}))
    deleted = api.ok("DELETE", f"{CLAIMS}?labelSelector=k%3Dx")
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in api.ok("GET", CLAIMS)["items"]] == ["b"]


def test_a_deleted_namespace_is_emptied_and_then_goes(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    api.ok("POST", PODS, pod())
    marked = api.ok("DELETE", "/api/v1/namespaces/lab")
    assert marked["status"]["phase"] == "Terminating"
    _until_gone(api, "/api/v1/namespaces/lab")
    assert api.ok("GET", "/apis/resource.k8s.io/v1/resourceclaims")["items"] == []


def test_nothing_new_comes_into_a_namespace_on_its_way_out(api: Api) -> None:
    api.ok("POST", CLAIMS, claim(finalizers=["example.com/a"]))
    api.ok("DELETE", "/api/v1/namespaces/lab")
    answer = api.call("POST", CLAIMS, claim("two"))
    assert answer.code == 403
    assert answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"


def test_the_namespaces_of_the_system_stay(api: Api) -> None:
    answer = api.call("DELETE", "/api/v1/namespaces/default")
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")


def _until_gone(api: Api, path: str) -> None:
    deadline = time.monotonic() + 10
    while api.call("GET", path).code != 404:
        assert time.monotonic() < deadline, f"{path} is still there"
        time.sleep(0.02)
