"""Hold Pods as settings and flavors want them, what becomes of them, and Pods that end with their request."""

from datetime import timedelta
from typing import Any

import pytest

from claims.catalogue.flavor_terms import UnableToChangeFlavor, read_terms
from claims.models import Flavor, Request
from claims.requests import actions as requests
from claims.requests import pursuit
from claims.requests.advance import advance
from claims.requests.holding import HoldTerms, hold_pod_of
from inventory.models import Claim, Pod
from portal.accounts.models import AuditEntry
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod

State = Request.State
DESK = HoldTerms(
    pull_secret="desk-pull", priority_class="desk", tolerations=({"key": "gpu", "operator": "Exists"},)
)


def pursue(request: Request, fake: FakeCluster, minutes: float = 0) -> Request:
    now = NOW + timedelta(minutes=minutes)
    pursuit.pursue(request_id=request.pk, now=now, hold_image=IMAGE, connect=lambda _cluster: fake)
    request.refresh_from_db()
    return request


@pytest.fixture
def held(request_: Request, cast: Cast, fake: FakeCluster) -> Request:
    pursue(request_, fake)
    requests.hold(request=request_, user=cast.owner, now=NOW)
    pursue(request_, fake)
    pod = mirror_pod(request_, "hold", node="node-h100", uid=request_.hold_pod_uid)
    mirror_claim(request_, consumers=(pod.uid,), allocated_at=NOW)
    advance(cluster=request_.cluster, now=NOW)
    request_.refresh_from_db()
    return request_


def told(request: Request) -> list[str]:
    rows = AuditEntry.objects.filter(target_id=str(request.key)).order_by("id")
    return [action.removeprefix("request.") for action in rows.values_list("action", flat=True)]


# --- what it runs as ------------------------------------------------------------------------------


def test_a_hold_pod_is_as_the_desk_says(request_: Request) -> None:
    pod = hold_pod_of(request_, image=IMAGE, terms=DESK)["spec"]
    assert pod["containers"][0]["image"] == IMAGE
    assert pod["imagePullSecrets"] == [{"name": "desk-pull"}]
    assert pod["priorityClassName"] == "desk"
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_what_its_flavor_says_goes_before(request_: Request) -> None:
    request_.flavor = Flavor(
        hold_image="example.org/own:2", hold_pull_secret="own", hold_priority_class="high",
        hold_tolerations=[{"key": "big", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}],
    )  # fmt: skip
    pod = hold_pod_of(request_, image=IMAGE, terms=DESK)["spec"]
    assert pod["containers"][0]["image"] == "example.org/own:2"
    assert (pod["imagePullSecrets"], pod["priorityClassName"]) == ([{"name": "own"}], "high")
    assert [entry["key"] for entry in pod["tolerations"]] == ["big", "gpu"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("hold_image", "two words"), ("hold_image", "x" * 256), ("hold_pull_secret", "Not_A_Name"),
        ("hold_priority_class", "-x"), ("hold_priority_class", "a\x00"), ("hold_tolerations", "!: ?"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_at_its_field(field: str, typed: str) -> None:
    with pytest.raises(UnableToChangeFlavor) as refused:
        read_terms({"slug": "h100", "name": "H100", field: typed})
    assert list(refused.value.errors) == [field]


@pytest.mark.django_db
def test_a_flavor_says_how_holds_run_and_what_ends() -> None:
    typed: dict[str, Any] = {
        "slug": "h100", "name": "H100", "ends_pods": "on",
        "hold_image": "registry.example.org:5000/pause@sha256:0a",
        "hold_tolerations": "gpu=big:NoSchedule",
    }  # fmt: skip
    terms = read_terms(typed)
    assert (terms.ends_pods, terms.hold_steps_aside) == (True, False)
    assert terms.hold_tolerations[0]["value"] == "big"


# --- what becomes of it ---------------------------------------------------------------------------


def test_an_evicted_hold_is_made_again_and_the_story_says_so(held: Request, fake: FakeCluster) -> None:
    name = f"{held.object_name}-hold"
    fake.objects["pods", held.namespace, name]["status"] = {
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on memory",
    }  # fmt: skip
    mirror_pod(held, "hold", node="node-h100", uid=held.hold_pod_uid, phase="Failed")
    advance(cluster=held.cluster, now=NOW)
    before = held.hold_pod_uid
    pursue(held, fake)
    pursue(held, fake, minutes=1)
    assert held.hold_pod_uid not in ("", before)
    entry = AuditEntry.objects.get(action="request.hold-lost")
    assert entry.after is not None
    assert entry.after["message"] == "Evicted: The node was low on memory"
    assert "hold-again" in told(held)


def test_a_hold_steps_aside_once_pods_have_joined_where_the_flavor_says_so(
    held: Request, fake: FakeCluster
) -> None:
    Request.objects.update(hold_steps_aside=True)
    work = mirror_pod(held, "work", node="node-h100")
    mirror_claim(held, consumers=(held.hold_pod_uid, work.uid), allocated_at=NOW)
    advance(cluster=held.cluster, now=NOW)
    pursue(held, fake)
    pursue(held, fake, minutes=1)
    assert fake.names("pods") == []
    assert (held.state, held.hold_wanted, held.hold_pod_uid, held.due_at) == (State.IN_USE, False, "", None)
    assert "hold-aside" in told(held)


def test_a_hold_stays_where_the_flavor_says_nothing(held: Request, fake: FakeCluster) -> None:
    work = mirror_pod(held, "work", node="node-h100")
    mirror_claim(held, consumers=(held.hold_pod_uid, work.uid), allocated_at=NOW)
    advance(cluster=held.cluster, now=NOW)
    held.refresh_from_db()
    assert (held.hold_wanted, held.due_at) == (True, None)


# --- Pods of people -------------------------------------------------------------------------------


@pytest.fixture
def used(held: Request, fake: FakeCluster) -> Request:
    """A request that a Pod of a person uses, too."""
    fake.objects["pods", held.namespace, "work"] = {"metadata": {"name": "work", "uid": "pod-work"}}
    fake.keeps.add(held.object_name)
    mirror_pod(held, "work", node="node-h100", uid="pod-work")
    mirror_claim(held, consumers=(held.hold_pod_uid, "pod-work"), allocated_at=NOW)
    advance(cluster=held.cluster, now=NOW)
    held.refresh_from_db()
    return held


def end(request: Request, cast: Cast, fake: FakeCluster) -> Request:
    requests.release(request=request, user=cast.owner, now=NOW)
    return pursue(request, fake)


def test_pods_of_people_are_never_deleted_unless_the_flavor_says_so(
    used: Request, cast: Cast, fake: FakeCluster
) -> None:
    assert end(used, cast, fake).state == State.ENDING
    assert fake.names("pods") == ["work"]


def test_where_the_flavor_says_so_they_end_with_the_request(
    used: Request, cast: Cast, fake: FakeCluster
) -> None:
    Request.objects.update(ends_pods=True)
    used.refresh_from_db()
    end(used, cast, fake)
    assert fake.names("pods") == []
    assert "pod-ended" in told(used)
    Pod.objects.all().delete()
    Claim.objects.all().delete()
    fake.objects.pop(("resourceclaims", used.namespace, used.object_name))
    assert pursue(used, fake, minutes=10).state == State.ENDED


def test_another_pod_that_took_the_name_is_not_touched(used: Request, cast: Cast, fake: FakeCluster) -> None:
    Request.objects.update(ends_pods=True)
    used.refresh_from_db()
    fake.objects["pods", used.namespace, "work"]["metadata"]["uid"] = "another"
    end(used, cast, fake)
    assert fake.names("pods") == ["work"]
