"""Lists over HTTP: pages of one state, resource versions and selectors."""

from urllib.parse import quote

import pytest

from portal.demo.store import Store
from tests.demo.api import CLAIMS, PODS, Api, Object, claim, pod, serving


def names(body: Object) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


@pytest.fixture
def five(api: Api) -> Api:
    for name in "abcde":
        api.ok(
            "POST", CLAIMS, claim(name, labels={"name": name, "half": "first" if name < "c" else "second"})
        )
    return api


def test_a_list_names_its_kind_but_its_items_do_not(five: Api) -> None:
    listed = five.ok("GET", CLAIMS)
    assert (listed["kind"], listed["apiVersion"]) == ("ResourceClaimList", "resource.k8s.io/v1")
    assert names(listed) == list("abcde")
    assert "kind" not in listed["items"][0]
    assert "continue" not in listed["metadata"]


def test_pages_show_one_state_whatever_happens_between(five: Api) -> None:
    first = five.ok("GET", f"{CLAIMS}?limit=2")
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    five.ok("DELETE", f"{CLAIMS}/c")
    five.ok("POST", CLAIMS, claim("bb"))
    second = five.ok("GET", f"{CLAIMS}?limit=2&continue={first['metadata']['continue']}")
    third = five.ok("GET", f"{CLAIMS}?limit=2&continue={second['metadata']['continue']}")
    assert names(second) + names(third) == ["c", "d", "e"]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1
    assert "continue" not in third["metadata"]


def test_a_page_from_before_the_kept_history_is_a_410_with_a_way_on(five: Api) -> None:
    first = five.ok("GET", f"{CLAIMS}?limit=2")
    five.ok("POST", CLAIMS, claim("bb"))
    five.run(lambda store: store.tables["resourceclaims"].history.compact())
    answer = five.call("GET", f"{CLAIMS}?limit=2&continue={first['metadata']['continue']}")
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    assert "The provided continue parameter is too old" in answer.body["message"]
    rest = five.ok("GET", f"{CLAIMS}?continue={answer.body['metadata']['continue']}")
    assert names(rest) == ["c", "d", "e"]


def test_a_token_that_is_not_ours_is_a_400(five: Api) -> None:
    answer = five.call("GET", f"{CLAIMS}?continue=bm9uc2Vuc2U")
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert "continue key is not valid" in answer.body["message"]


def test_an_exact_version_shows_the_past(five: Api) -> None:
    version = five.ok("GET", CLAIMS)["metadata"]["resourceVersion"]
    five.ok("DELETE", f"{CLAIMS}/c")
    path = f"{CLAIMS}?resourceVersion={version}&resourceVersionMatch=Exact"
    assert names(five.ok("GET", path)) == list("abcde")
    assert names(five.ok("GET", f"{CLAIMS}?resourceVersion={version}")) == list("abde")


def test_an_exact_version_that_is_forgotten_is_a_410(five: Api) -> None:
    five.run(lambda store: store.tables["resourceclaims"].history.compact())
    answer = five.call("GET", f"{CLAIMS}?resourceVersion=2&resourceVersionMatch=Exact")
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    assert answer.body["message"].startswith("too old resource version: 2 (")


def test_a_version_that_is_not_reached_is_a_504(five: Api) -> None:
    answer = five.call("GET", f"{CLAIMS}?resourceVersion=999999")
    assert (answer.code, answer.body["reason"]) == (504, "Timeout")
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("resourceVersion=x", 400),
        ("limit=many", 400),
        ("limit=-1", 400),
        ("labelSelector=%21%21", 400),
        ("labelSelector=a+in+b", 400),
        ("fieldSelector=spec.colour%3Dred", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Nearly", 422),
        ("dryRun=Some", 200),
    ],
)
def test_parameters_are_checked(five: Api, query: str, code: int) -> None:
    assert five.call("GET", f"{CLAIMS}?{query}").code == code


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("name=a", "a"),
        ("name==a", "a"),
        ("name!=a", "bcde"),
        ("name in (a, b)", "ab"),
        ("name notin (a,b)", "cde"),
        ("half=second,name!=e", "cd"),
        ("half", "abcde"),
        ("!half", ""),
        ("missing", ""),
        ("missing!=x", "abcde"),
    ],
)
def test_label_selectors(five: Api, selector: str, expected: str) -> None:
    listed = five.ok("GET", f"{CLAIMS}?labelSelector={quote(selector)}")
    assert names(listed) == list(expected)


def test_a_selected_page_does_not_say_how_many_remain(five: Api) -> None:
    first = five.ok("GET", f"{CLAIMS}?labelSelector=half%3Dsecond&limit=2")
    assert names(first) == ["c", "d"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    assert names(five.ok("GET", f"{CLAIMS}?labelSelector=half%3Dsecond&limit=2&continue={token}")) == ["e"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=one", ["one"]),
        ("metadata.namespace=lab", ["one", "two"]),
        ("spec.nodeName=n1", ["one"]),
        ("spec.nodeName!=n1", ["two"]),
        ("spec.nodeName=", ["two"]),
        ("status.phase=Pending,spec.nodeName=n1", ["one"]),
        ("status.phase=Running", []),
    ],
)
def test_field_selectors(api: Api, selector: str, expected: list[str]) -> None:
    api.ok("POST", PODS, pod("one", nodeName="n1"))
    api.ok("POST", PODS, pod("two"))
    assert names(api.ok("GET", f"/api/v1/pods?fieldSelector={quote(selector)}")) == expected


def test_events_are_selected_by_what_they_are_about_and_shown_in_both_forms(api: Api) -> None:
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Pod", "name": "one", "namespace": "lab"},
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available",
        "type": "Warning",
        "source": {"component": "scheduler"},
    }
    api.ok("POST", "/api/v1/namespaces/lab/events", event)
    selector = quote("involvedObject.name=one,reason=FailedScheduling")
    assert names(api.ok("GET", f"/api/v1/namespaces/lab/events?fieldSelector={selector}")) == ["e1"]
    assert names(api.ok("GET", "/api/v1/events?fieldSelector=involvedObject.name%3Dtwo")) == []
    new = api.ok("GET", "/apis/events.k8s.io/v1/namespaces/lab/events/e1")
    assert (new["apiVersion"], new["note"]) == ("events.k8s.io/v1", "0/3 nodes are available")
    assert new["regarding"]["name"] == "one"
    assert names(api.ok("GET", "/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Done")) == ["e1"]


def test_one_namespace_ends_before_the_next_begins(api: Api) -> None:
    for namespace in ("lab-2", "lab0", "laa"):
        api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        api.ok("POST", CLAIMS.replace("/lab/", f"/{namespace}/"), claim("other"))
    api.ok("POST", CLAIMS, claim("mine"))
    assert names(api.ok("GET", CLAIMS)) == ["mine"]
    assert len(api.ok("GET", "/apis/resource.k8s.io/v1/resourceclaims")["items"]) == 4


def test_large_lists_are_compressed_when_asked(api: Api) -> None:
    api.run(_many_pods)
    plain = api.call("GET", PODS)
    packed = api.call("GET", PODS, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.body == plain.body


def _many_pods(store: Store) -> int:
    return store.load({**pod(f"p{i}"), "metadata": {"name": f"p{i}", "namespace": "lab"}} for i in range(500))


def test_loading_many_at_once_is_seen_like_single_writes() -> None:
    with serving(history_limit=100) as api:
        before = api.ok("GET", PODS)["metadata"]["resourceVersion"]
        assert api.run(_many_pods) == 500
        listed = api.ok("GET", f"{PODS}?limit=10")
        assert len(listed["items"]) == 10
        assert listed["metadata"]["remainingItemCount"] == 490
        path = f"{PODS}?resourceVersion={before}&resourceVersionMatch=Exact"
        assert api.call("GET", path).code == 410
