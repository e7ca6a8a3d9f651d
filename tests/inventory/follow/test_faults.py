"""Faults between us and the API server: afterwards mirror and cluster agree, and nothing was told twice."""

from copy import deepcopy
from datetime import timedelta

import pytest

from inventory.follow import streams
from inventory.follow.discovery import GROUPS
from inventory.models import Claim, Cluster, Device, Node, Observation, ResourceSlice, Stream, SyncProblem
from tests.inventory.follow.conftest import Followed, action
from tests.inventory.mini import KINDS
from tests.inventory.objects import (
    Json,
    allocation,
    claim,
    event,
    gpu,
    node,
    pod,
    resource_slice,
    result,
    template,
)
from tests.kube.scripted import Reply, line, status


def stream(plural: str) -> Stream:
    return Stream.objects.get(resource=plural)


def names() -> set[str]:
    return set(Node.objects.values_list("name", flat=True))


def one_of_everything(followed: Followed) -> Json:
    held = claim(allocated=allocation(result("gpu-0")), reserved_for=("work",))
    user = pod(claims={"gpu": "train"}, on="n1")
    followed.mini.put(node(), resource_slice("s1", [gpu(0), gpu(1)]), template(), user, pod("other"))
    followed.mini.put(held, event(user))
    return held


ELSEWHERE = {stream for group in GROUPS if group.name != "resource.k8s.io" for stream in group.plurals}


def assert_told_once() -> None:
    keys = list(Observation.objects.values_list("key", flat=True))
    assert len(keys) == len(set(keys))


def test_the_first_sync_takes_everything_and_says_so(followed: Followed) -> None:
    one_of_everything(followed)
    followed.until(followed.synced)
    cluster = Cluster.objects.get()
    assert (cluster.state, cluster.message, cluster.server_version) == ("synced", "", "v1.36.2")
    assert cluster.contacted_at is not None
    assert cluster.clock_skew_us is not None
    assert abs(cluster.clock_skew_us) < 5_000_000
    assert {s.resource: s.state for s in Stream.objects.all()} == {
        **dict.fromkeys(KINDS, "watching"),
        # Neither Kueue nor groups of Pods are there.
        **dict.fromkeys(ELSEWHERE, "not-served"),
    }
    assert {d.name: d.state for d in Device.objects.all()} == {"gpu-0": "held", "gpu-1": "free"}
    assert cluster.lease_holder == ""


def test_changes_arrive_by_watch(followed: Followed) -> None:
    followed.until(
        followed.synced,
        action(lambda: followed.mini.put(node("n1"))),
        lambda: names() == {"n1"},
        action(lambda: followed.mini.drop(node("n1"))),
        lambda: names() == set(),
    )


def test_the_next_follower_goes_on_where_the_last_one_stopped(followed: Followed) -> None:
    held = one_of_everything(followed)
    followed.until(followed.synced)
    followed.server.received.clear()
    followed.mini.put(held | {"status": {}})
    followed.until(lambda: not Claim.objects.get().allocated)
    full = [r for r in followed.server.received if r.query.get("limit") == "500"]
    assert full == [], "it listed again without need"
    released = Observation.objects.get(kind="claim-released")
    # It happened while nobody looked, and the observation says how long that was.
    assert released.source == "observed"
    assert released.uncertainty_us > 0
    assert_told_once()


def test_what_happened_in_a_gap_too_short_to_be_told_has_bounds_all_the_same_and_what_is_new_has_its_time(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "NEGLIGIBLE_GAP", timedelta(hours=1))
    held = one_of_everything(followed)
    followed.until(followed.synced)
    heard = stream("resourceclaims").heard_at
    followed.mini.put(held | {"status": {}})
    again = held | {"status": {"allocation": allocation(result("gpu-1"))}}
    followed.until(
        lambda: not Claim.objects.get().allocated,
        action(lambda: followed.mini.put(again)),
        lambda: Claim.objects.get().allocated,
        action(lambda: followed.mini.put(held | {"status": {}})),
        lambda: not Claim.objects.get().allocated,
    )
    assert not Observation.objects.filter(kind="gap").exists()
    old, new = Observation.objects.filter(kind="claim-released").order_by("pk")
    assert heard is not None
    assert old.at - timedelta(microseconds=old.uncertainty_us) <= heard + timedelta(seconds=1)
    assert old.uncertainty_us > 0
    assert new.uncertainty_us == 0


def test_a_watch_that_is_cut_in_mid_line_goes_on_from_the_last_version(followed: Followed) -> None:
    added = node("n1")
    added["metadata"]["resourceVersion"] = "101"
    half = line("ADDED", added) + line("ADDED", node("n2"))[:-20]
    followed.mini.watches["nodes"] = [Reply(stream=[half], cut=True)]
    followed.mini.put(added, node("n2"))
    followed.mini.objects.clear()
    followed.mini.version = 100
    followed.until(lambda: names() == {"n1", "n2"})
    assert_told_once()


@pytest.mark.parametrize(
    "refusal",
    [
        Reply(status=500, body=status(500, "InternalError", "etcd is sad")),
        Reply(status=503, body=b"<html>upstream</html>"),
        Reply(status=200, body=b'{"metadata": '),
        Reply(status=200, body=b'{"metadata": {"resourceVersion": "1"}, "items": [', cut=True),
        Reply(status=429, body=status(429, "TooManyRequests", "slow down"), headers={"Retry-After": "0"}),
    ],
)
def test_a_list_that_fails_is_tried_again(followed: Followed, refusal: Reply) -> None:
    followed.mini.put(node("n1"))
    followed.mini.lists["nodes"] = [refusal, refusal]
    followed.until(followed.synced)
    assert names() == {"n1"}
    assert stream("nodes").state == "watching"


def test_retry_after_is_honoured(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    from inventory.follow.streams import StreamThread

    waits: list[float] = []
    original = StreamThread._sleep

    def note(self: StreamThread, seconds: float) -> None:
        waits.append(seconds)
        original(self, min(seconds, 0.01))

    monkeypatch.setattr(StreamThread, "_sleep", note)
    busy = Reply(status=429, body=status(429, "TooManyRequests"), headers={"Retry-After": "17"})
    followed.mini.lists["nodes"] = [busy]
    followed.until(followed.synced)
    # What is not served is asked for again after a minute.
    assert [wait for wait in waits if 17 <= wait < 60] == [17.0]


def test_a_partial_list_takes_nothing_away(followed: Followed) -> None:
    followed.mini.page_size = 2
    followed.mini.put(*(node(f"n{n}") for n in range(5)))
    followed.until(followed.synced)
    followed.mini.drop(node("n4"), quietly=True)
    broken = Reply(status=500, body=status(500, "InternalError"))
    followed.interval = timedelta(0)
    # The second page fails for a while: what is gone is not known yet.
    followed.mini.lists["nodes"] = [None, broken, None, broken]
    seen: list[int] = []

    def failures_over() -> bool:
        seen.append(Node.objects.count())
        return not followed.mini.lists["nodes"]

    followed.until(failures_over, lambda: Node.objects.count() == 4)
    assert set(seen) <= {5, 4}
    assert seen[0] == 5


def test_history_that_was_compacted_means_list_again_and_compare(followed: Followed) -> None:
    held = one_of_everything(followed)
    followed.until(followed.synced)
    # While nobody looks: released, held by another claim, and a node goes and another comes; and no
    # history of it.
    followed.mini.put(held | {"status": {}}, quietly=True)
    other = claim("other", allocated=allocation(result("gpu-1")))
    followed.mini.put(other, node("n2"), quietly=True)
    followed.mini.drop(node("n1"), quietly=True)
    followed.mini.compacted = followed.mini.version
    lost = Observation.objects.filter(kind="gap", facts__lost=True)
    # Of Events nothing is told, since that happens to them whenever it is quiet.
    told = sorted(set(KINDS) - {"events"})
    followed.until(lambda: lost.count() == len(told), followed.synced)
    assert sorted(gap.name for gap in lost) == told
    assert names() == {"n2"}
    assert {c.name: c.allocated for c in Claim.objects.all()} == {"train": False, "other": True}
    released = Observation.objects.get(kind="claim-released")
    assert released.uncertainty_us > 0
    assert_told_once()


def test_a_watch_that_says_gone_in_the_middle_means_list_again(followed: Followed) -> None:
    followed.mini.put(node("n1"))
    gone = Reply(stream=[line("ERROR", status(410, "Expired", "too old"))])
    followed.mini.watches["nodes"] = [gone]
    followed.until(
        followed.synced,
        action(lambda: followed.mini.put(node("n2"), quietly=True)),
        action(followed.mini.end_watches),
        lambda: bool(followed.mini.watches["nodes"]) is False,
    )
    followed.until(followed.synced)
    assert "n1" in names()


def test_duplicate_events_change_nothing(followed: Followed) -> None:
    first = node("n1")
    followed.mini.put(first)
    again = [line("ADDED", first), line("MODIFIED", first), line("ADDED", first)]
    followed.mini.watches["nodes"] = [Reply(stream=again)]
    followed.until(followed.synced, lambda: not followed.mini.watches["nodes"])
    assert Observation.objects.filter(kind="node-up").count() == 1


def test_an_event_that_comes_after_a_later_one_does_not_turn_time_back(followed: Followed) -> None:
    first = node("n1")
    followed.mini.put(first)
    earlier = deepcopy(first)
    later = deepcopy(first)
    later["spec"]["unschedulable"] = True
    followed.mini.put(later)
    # The list has the later state; a watch tells the earlier one again, and after it something new.
    newer = node("n2")
    newer["metadata"]["resourceVersion"] = str(followed.mini.version + 1)
    followed.mini.watches["nodes"] = [Reply(stream=[line("MODIFIED", earlier), line("ADDED", newer)])]
    followed.until(followed.synced, lambda: "n2" in names())
    assert Node.objects.get(name="n1").unschedulable
    assert Node.objects.get(name="n1").resource_version == later["metadata"]["resourceVersion"]


@pytest.mark.parametrize("rubbish", [b"rubbish\n", b'{"type": "ADDED", "object": null}\n'])
def test_a_line_that_makes_no_sense_does_not_stop_the_stream(followed: Followed, rubbish: bytes) -> None:
    followed.mini.watches["nodes"] = [Reply(stream=[rubbish])]
    followed.until(
        lambda: not followed.mini.watches["nodes"],
        action(lambda: followed.mini.put(node("n1"))),
        lambda: names() == {"n1"},
        followed.synced,
    )


def test_one_bad_object_is_a_problem_and_the_others_go_on(followed: Followed) -> None:
    bad = resource_slice("bad", [gpu(0)])
    bad["spec"]["pool"] = "n1"
    followed.mini.put(bad, resource_slice("s1", [gpu(0)]))
    followed.until(followed.synced)
    assert [s.name for s in ResourceSlice.objects.all()] == ["s1"]
    problem = SyncProblem.objects.get()
    assert (problem.name, problem.path) == ("bad", "spec.pool")


def test_a_namesake_between_two_lists_is_a_new_object(followed: Followed) -> None:
    held = one_of_everything(followed)
    followed.until(followed.synced)
    followed.mini.drop(held, quietly=True)
    newer = claim(allocated=allocation(result("gpu-1")), uid="another")
    followed.mini.put(newer, quietly=True)
    followed.mini.compacted = followed.mini.version
    followed.until(lambda: Claim.objects.filter(uid="another").exists())
    assert [
        (o.kind, o.uid == "another")
        for o in Observation.objects.filter(kind__startswith="claim-").order_by("id")
    ] == [
        ("claim-created", False),
        ("claim-allocated", False),
        ("claim-deleted", False),
        ("claim-created", True),
        ("claim-allocated", True),
    ]
    assert {d.name: d.state for d in Device.objects.all()} == {"gpu-0": "free", "gpu-1": "held"}


def test_a_cluster_that_went_back_in_time_is_listed_anew(followed: Followed) -> None:
    followed.mini.put(node("n1"), node("n2"))
    followed.mini.version = 500
    followed.mini.put(node("n3"))
    followed.until(followed.synced)
    # Restored from a backup: n3 was never there, and the versions start earlier.
    followed.mini.objects["nodes"].pop(("", "n3"))
    followed.mini.log.clear()
    followed.mini.version = 200
    followed.until(lambda: names() == {"n1", "n2"}, followed.synced)
    assert stream("nodes").resource_version == "200"


def test_another_cluster_behind_the_same_address_is_listed_anew(followed: Followed) -> None:
    followed.mini.put(node("n1"))
    followed.until(followed.synced)
    Cluster.objects.update(uid="the old one")
    followed.server.received.clear()

    usual = followed.mini.__call__

    def with_uid(request: object) -> Reply:
        if getattr(request, "path", "").endswith("/namespaces/kube-system"):
            return Reply(body={"metadata": {"uid": "the new one"}})
        return usual(request)  # type: ignore[arg-type]  # it is one

    followed.server.script = with_uid
    followed.until(followed.synced, lambda: Cluster.objects.get().uid == "the new one")
    assert [r for r in followed.server.received if r.query.get("limit") == "500"] != []


def test_what_may_not_be_read_is_said_and_the_rest_goes_on(followed: Followed) -> None:
    denied = Reply(status=403, body=status(403, "Forbidden", "cannot list pods"))
    followed.mini.put(node("n1"), claim())
    followed.mini.lists["pods"] = [denied] * 50
    followed.until(followed.synced)
    assert (stream("pods").state, stream("resourceclaims").state) == ("not-permitted", "watching")
    assert "cannot list pods" in stream("pods").message
    assert Claim.objects.count() == 1


def test_what_is_not_served_is_said_and_the_rest_goes_on(followed: Followed) -> None:
    followed.mini.missing = frozenset({"resourceclaimtemplates"})
    followed.mini.put(node("n1"))
    followed.until(followed.synced)
    assert stream("resourceclaimtemplates").state == "not-served"
    assert stream("nodes").state == "watching"


def test_an_older_api_version_is_found_and_used(followed: Followed) -> None:
    followed.mini.served_versions = ("v1beta2", "v1beta1")
    followed.mini.put(resource_slice("s1", [gpu(0)]))
    followed.until(followed.synced)
    assert stream("resourceslices").api_version == "resource.k8s.io/v1beta2"
    assert Device.objects.count() == 1


def test_a_cluster_that_refuses_the_credentials_says_so_and_recovers(followed: Followed) -> None:
    followed.mini.everything = Reply(status=401, body=status(401, "Unauthorized", "token expired"))

    def admit() -> None:
        followed.mini.everything = None

    followed.until(
        lambda: Cluster.objects.get().state == Cluster.State.REFUSED,
        lambda: "token expired" in Cluster.objects.get().message,
        action(admit),
        followed.synced,
    )


def test_a_cluster_that_falls_silent_in_mid_watch_is_shown_as_unreachable(followed: Followed) -> None:
    followed.mini.put(node("n1"))
    followed.until(
        followed.synced,
        action(followed.server.stop),
        lambda: Cluster.objects.get().state == Cluster.State.UNREACHABLE,
    )
    assert followed.server.url in Cluster.objects.get().message
    assert names() == {"n1"}, "what is not seen is not gone"


def test_sync_now_lists_everything_again(followed: Followed) -> None:
    from django.utils import timezone

    from inventory import clusters

    followed.mini.put(node("n1"))

    def ask() -> None:
        followed.mini.drop(node("n1"), quietly=True)
        clusters.request_sync(cluster=followed.cluster, now=timezone.now())

    followed.until(followed.synced, action(ask), lambda: names() == set())


def test_a_full_list_corrects_what_a_watch_has_missed(followed: Followed) -> None:
    followed.interval = timedelta(seconds=1)
    followed.mini.put(node("n1"))
    followed.until(
        followed.synced,
        action(lambda: followed.mini.drop(node("n1"), quietly=True)),
        lambda: names() == set(),
    )


def test_a_watch_that_is_opened_anew_at_once_leaves_no_gap(followed: Followed) -> None:
    def watched_again() -> bool:
        return sum(r.path == "/api/v1/nodes" and "watch" in r.query for r in followed.server.received) > 2

    followed.mini.watches["nodes"] = [Reply(stream=[]), Reply(stream=[], cut=True)]
    followed.until(followed.synced, watched_again)
    assert not Observation.objects.filter(kind="gap").exists()


def test_a_stream_that_few_care_about_does_not_spoil_the_state_of_the_cluster(followed: Followed) -> None:
    broken = Reply(status=500, body=status(500, "InternalError", "no events today"))
    followed.until(followed.synced)
    followed.mini.watches["events"] = [broken] * 1000
    followed.until(lambda: stream("events").state == "failed", followed.synced)
    assert "no events today" in stream("events").message


def test_a_defect_of_ours_shows_on_the_cluster(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    from inventory.follow.follower import Outcome
    from inventory.mirror.writer import Writer

    def broken(_self: Writer, _batches: object) -> int:
        raise TypeError("a defect")

    monkeypatch.setattr(Writer, "apply", broken)
    followed.mini.put(node("n1"))
    assert followed.follower().run(should_stop=lambda: False) is Outcome.FAILED
    assert "a defect" in Cluster.objects.get().message
    assert Cluster.objects.get().lease_holder == ""
