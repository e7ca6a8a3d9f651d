"""Watches over HTTP: every change once and in order, bookmarks, selectors, and 410 when the past is gone."""

import itertools

import pytest

from tests.demo.api import CLAIMS, PODS, Api, Object, claim, pod, serving

MERGE = "application/merge-patch+json"


def seen(event: Object) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def version(api: Api) -> str:
    return str(api.ok("GET", CLAIMS)["metadata"]["resourceVersion"])


def label(api: Api, name: str, value: str) -> None:
    api.ok("PATCH", f"{CLAIMS}/{name}", {"metadata": {"labels": {"k": value}}}, content_type=MERGE)


def test_a_watch_goes_on_from_a_version(api: Api) -> None:
    api.ok("POST", CLAIMS, claim("old"))
    start = version(api)
    with api.watch(f"{CLAIMS}?watch=1&resourceVersion={start}") as events:
        api.ok("POST", CLAIMS, claim("new"))
        label(api, "new", "x")
        api.ok("DELETE", f"{CLAIMS}/new")
        found = list(itertools.islice(events, 3))
    assert [seen(event) for event in found] == [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
    assert versions == sorted(set(versions))
    assert versions[0] > int(start)
    assert found[0]["object"]["kind"] == "ResourceClaim"


def test_what_was_missed_meanwhile_is_told_first(api: Api) -> None:
    start = version(api)
    api.ok("POST", CLAIMS, claim("a"))
    api.ok("POST", CLAIMS, claim("b"))
    with api.watch(f"{CLAIMS}?watch=true&resourceVersion={start}") as events:
        assert [seen(next(events)) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("query", ["", "&resourceVersion=0"])
def test_without_a_version_the_present_comes_first(api: Api, query: str) -> None:
    api.ok("POST", CLAIMS, claim("a"))
    with api.watch(f"{CLAIMS}?watch=1{query}") as events:
        assert seen(next(events)) == ("ADDED", "a")
        api.ok("POST", CLAIMS, claim("b"))
        assert seen(next(events)) == ("ADDED", "b")


def test_an_object_that_stops_matching_is_deleted_for_the_watch(api: Api) -> None:
    start = version(api)
    with api.watch(f"{CLAIMS}?watch=1&resourceVersion={start}&labelSelector=k+in+(yes,also)") as events:
        api.ok("POST", CLAIMS, claim("a"))
        for value in ("yes", "yes", "also", "no", "no"):
            label(api, "a", value)
        api.ok("POST", CLAIMS, claim("b", labels={"k": "yes"}))
        found = [next(events) for _ in range(4)]
    kinds = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert [seen(event) for event in found] == kinds
    last = found[2]["object"]["metadata"]
    # Its last matching state, at the version of the change that took it away.
    assert last["labels"] == {"k": "also"}
    assert int(last["resourceVersion"]) > int(found[1]["object"]["metadata"]["resourceVersion"])


def test_a_field_selector_follows_pods_to_their_node(api: Api) -> None:
    with api.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1") as events:
        api.ok("POST", PODS, pod("elsewhere", nodeName="n2"))
        api.ok("POST", PODS, pod("one"))
        api.ok("POST", f"{PODS}/one/binding", {"target": {"name": "n1"}})
        assert seen(next(events)) == ("ADDED", "one")


def test_a_watch_of_one_namespace_does_not_hear_of_others(api: Api) -> None:
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "attic"}})
    with api.watch(f"{CLAIMS}?watch=1") as events:
        api.ok("POST", CLAIMS.replace("/lab/", "/attic/"), claim("theirs"))
        api.ok("POST", CLAIMS, claim("mine"))
        assert seen(next(events)) == ("ADDED", "mine")


def test_bookmarks_tell_how_far_a_quiet_watch_has_come() -> None:
    with serving(bookmark_seconds=0.05) as api:
        start = version(api)
        with api.watch(f"{CLAIMS}?watch=1&resourceVersion={start}&allowWatchBookmarks=true") as events:
            api.ok("POST", PODS, pod())
            reached = int(api.ok("GET", PODS)["metadata"]["resourceVersion"])
            bookmark = next(e for e in events if int(e["object"]["metadata"]["resourceVersion"]) >= reached)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ResourceClaim"


def test_no_bookmarks_unless_asked() -> None:
    with serving(bookmark_seconds=0.01) as api:
        path = f"{CLAIMS}?watch=1&resourceVersion={version(api)}&timeoutSeconds=1"
        with api.watch(path) as events:
            assert list(events) == []


def test_events_have_no_bookmarks() -> None:
    with serving(bookmark_seconds=0.01) as api:
        path = f"/api/v1/events?watch=1&resourceVersion={version(api)}&timeoutSeconds=1&allowWatchBookmarks=1"
        with api.watch(path) as events:
            assert list(events) == []


def test_a_watch_ends_after_its_time_with_a_bookmark(api: Api) -> None:
    path = f"{CLAIMS}?watch=1&resourceVersion={version(api)}&timeoutSeconds=1&allowWatchBookmarks=1"
    with api.watch(path) as events:
        assert [event["type"] for event in events] == ["BOOKMARK"]


def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    api.ok("POST", CLAIMS, claim("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with api.watch(f"{CLAIMS}?{query}") as events:
        assert seen(next(events)) == ("ADDED", "a")
        bookmark = next(events)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_version_that_is_too_old_is_an_error_event() -> None:
    with serving(history_limit=5) as api:
        start = version(api)
        for number in range(20):
            api.ok("POST", CLAIMS, claim(f"c{number}"))
        with api.watch(f"{CLAIMS}?watch=1&resourceVersion={start}") as events:
            found = list(events)
    assert [event["type"] for event in found] == ["ERROR"]
    status = found[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {start} (")


def test_a_watcher_that_is_overtaken_by_the_history_is_told(api: Api) -> None:
    start = version(api)
    with api.watch(f"{CLAIMS}?watch=1&resourceVersion={start}") as events:
        api.ok("POST", CLAIMS, claim("a"))
        assert seen(next(events)) == ("ADDED", "a")

        def leap(store: object) -> None:
            store.create("resourceclaims", claim("b"), namespace="lab")  # type: ignore[attr-defined] # a Store
            store.tables["resourceclaims"].history.compact()  # type: ignore[attr-defined] # a Store

        api.run(leap)
        assert [event["type"] for event in events] == ["ERROR"]


def test_all_watchers_see_the_same(api: Api) -> None:
    with api.watch(f"{CLAIMS}?watch=1") as first, api.watch(f"{CLAIMS}?watch=1") as second:
        for number in range(50):
            api.ok("POST", CLAIMS, claim(f"c{number:02}"))
        one = [seen(next(first)) for _ in range(50)]
        two = [seen(next(second)) for _ in range(50)]
    assert one == two == [("ADDED", f"c{number:02}") for number in range(50)]


def test_the_old_match_parameters_are_refused(api: Api) -> None:
    answer = api.call("GET", f"{CLAIMS}?watch=1&resourceVersionMatch=Exact")
    assert answer.code == 422
    answer = api.call("GET", f"{CLAIMS}?watch=1&sendInitialEvents=true")
    assert answer.code == 422
