"""Requests follow what the mirror shows."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Request, RequestClaim
from claims.requests import actions as requests
from claims.requests import pursuit
from claims.requests.advance import advance
from claims.requests.manifests import REQUEST_LABEL
from inventory.models import Claim, ClaimTemplate, NamespaceBinding, Pod, Stream
from portal.accounts.models import AuditEntry
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import (
    mirror_claim,
    mirror_event,
    mirror_pod,
    mirror_template,
    mirror_template_claim,
)

State, Reason = Request.State, Request.Reason


def step(request: Request, minutes: float = 1) -> Request:
    advance(cluster=request.cluster, now=NOW + timedelta(minutes=minutes))
    request.refresh_from_db()
    return request


def submit(cast: Cast, values: dict[str, Any], fake: FakeCluster, **changed: Any) -> Request:
    made = requests.submit(user=cast.owner, values=values | changed, now=NOW, connect=lambda _cluster: fake)
    pursuit.pursue(request_id=made.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    made.refresh_from_db()
    return made


@pytest.fixture
def live(cast: Cast, values: dict[str, Any], fake: FakeCluster) -> Request:
    return submit(cast, values, fake)


@pytest.fixture
def template(cast: Cast, values: dict[str, Any], fake: FakeCluster) -> Request:
    made = submit(cast, values, fake, shape="template")
    mirror_template(made)
    return made


def test_the_way_of_a_shared_claim(live: Request) -> None:
    mirror_claim(live)
    assert step(live).state == State.WAITING_FOR_POD
    hold = mirror_pod(live, "hold")
    assert step(live).state == State.WAITING_FOR_DEVICE
    mirror_event(hold, "0/2 nodes are available: 2 cannot allocate all claims.")
    step(live)
    assert (live.state, live.reason) == (State.WAITING_FOR_DEVICE, Reason.NOT_SCHEDULED)
    assert "cannot allocate all claims" in live.message
    hold = mirror_pod(live, "hold", node="node-h100")
    mirror_claim(live, consumers=(hold.uid,))
    step(live, minutes=5)
    assert (live.state, live.message) == (State.ALLOCATED, "")
    mirror_claim(live, consumers=(hold.uid, mirror_pod(live, node="node-h100").uid))
    assert step(live).state == State.IN_USE
    mirror_claim(live, consumers=(hold.uid,))
    assert step(live).state == State.ALLOCATED
    told = AuditEntry.objects.filter(target_id=str(live.key)).order_by("id").values_list("action", flat=True)
    assert [action.removeprefix("request.") for action in told][3:] == [
        "waiting-for-device", "allocated", "in-use", "allocated",
    ]  # fmt: skip


def test_the_duration_runs_from_the_first_allocation(live: Request) -> None:
    assert live.expires_at == NOW + timedelta(days=7)
    began = NOW + timedelta(hours=5)
    mirror_claim(live, consumers=("w",), allocated_at=began)
    step(live, minutes=302)
    assert (live.allocated_at, live.expires_at) == (began, began + timedelta(days=3))
    mirror_claim(live, consumers=("w",), allocated_at=began + timedelta(hours=9))
    step(live, minutes=900)
    assert live.allocated_at == began


def test_a_claim_that_the_mirror_has_not_seen_yet_is_not_called_gone(live: Request) -> None:
    assert step(live).state == State.WAITING_FOR_POD
    Stream.objects.filter(resource="resourceclaims").update(listed_at=NOW + timedelta(minutes=5))
    step(live, minutes=6)
    assert (live.state, live.reason) == (State.FAILED, Reason.DELETED_ELSEWHERE)


def test_a_claim_deleted_behind_our_back_is_told(cast: Cast, live: Request, fake: FakeCluster) -> None:
    mirror_claim(live)
    step(live)
    Claim.objects.all().delete()
    step(live)
    assert (live.state, live.reason) == (State.FAILED, Reason.DELETED_ELSEWHERE)
    assert live.ended_at is not None
    fake.objects.pop(("resourceclaims", live.namespace, live.object_name))
    requests.retry(request=live, user=cast.owner, now=NOW)
    pursuit.pursue(request_id=live.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    live.refresh_from_db()
    assert step(live).state == State.WAITING_FOR_POD


def test_a_hold_pod_that_disappeared_is_wanted_again(cast: Cast, live: Request, fake: FakeCluster) -> None:
    mirror_claim(live)
    requests.hold(request=live, user=cast.owner, now=NOW)
    pursuit.pursue(request_id=live.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    hold = mirror_pod(live, "hold", node="node-h100")
    mirror_claim(live, consumers=(hold.uid,))
    assert step(live).due_at is None
    hold.delete()
    mirror_claim(live)
    assert step(live).due_at is not None


def test_an_expired_request_ends_and_the_desk_says_why(live: Request) -> None:
    mirror_claim(live, consumers=("w",), allocated_at=NOW)
    step(live)
    step(live, minutes=3 * 24 * 60 + 1)
    assert (live.state, live.reason, live.end_reason) == (State.ENDING, Reason.EXPIRED, Reason.EXPIRED)
    entry = AuditEntry.objects.get(action="request.expire")
    assert entry.actor is None


def test_an_ending_request_says_who_still_holds(cast: Cast, live: Request) -> None:
    pod = mirror_pod(live, node="node-h100")
    mirror_claim(live, consumers=(pod.uid,))
    step(live)
    requests.release(request=live, user=cast.owner, now=NOW)
    step(live)
    assert (live.state, live.reason, live.message) == (State.ENDING, Reason.STILL_USED, "work")
    pod.delete()
    Claim.objects.all().delete()
    assert step(live).state == State.ENDING, "the desk has not looked after its hold yet"
    Request.objects.update(due_at=None)
    step(live)
    assert (live.state, live.reason) == (State.ENDED, Reason.RELEASED)


def test_a_refused_hold_stays_told_until_there_is_more_to_tell(live: Request) -> None:
    mirror_claim(live)
    Request.objects.update(reason=Reason.REFUSED, message="violates PodSecurity")
    step(live)
    assert live.message == "violates PodSecurity"
    mirror_pod(live)
    step(live)
    assert (live.state, live.message) == (State.WAITING_FOR_DEVICE, "")


# --- templates ------------------------------------------------------------------------------------


def test_a_template_counts_the_claims_made_from_it(template: Request) -> None:
    assert step(template).state == State.WAITING_FOR_POD
    first = mirror_pod(template, "work-1", claim_names={})
    second = mirror_pod(template, "work-2", claim_names={})
    mirror_template_claim(template, first)
    mirror_template_claim(template, second)
    assert step(template).state == State.WAITING_FOR_DEVICE
    Pod.objects.filter(pk=first.pk).update(node_name="node-h100", phase="Running")
    mirror_template_claim(template, first, consumers=(first.uid,))
    step(template)
    assert (template.state, template.reason) == (State.IN_USE, Reason.PARTLY)
    linked = RequestClaim.objects.filter(request=template).order_by("claim_name")
    assert [link.pod_uid for link in linked] == [first.uid, second.uid]


@pytest.mark.parametrize(
    "forgery", ["no owner", "owner names another claim", "another namespace", "anothers by now"]
)
def test_a_copied_label_alone_makes_no_claim_ours(template: Request, forgery: str) -> None:
    pod = mirror_pod(template, "forger", claim_names={"accelerator": "forged"}, node="node-h100")
    columns: dict[str, Any] = {"owner_pod_uid": pod.uid}
    if forgery == "no owner":
        columns["owner_pod_uid"] = ""
    elif forgery == "owner names another claim":
        Pod.objects.filter(pk=pod.pk).update(claim_names={"accelerator": "other"})
    claim = mirror_claim(template, name="forged", uid="forged", consumers=(pod.uid,), **columns)
    assert claim.labels[REQUEST_LABEL] == str(template.key)
    if forgery == "anothers by now":
        NamespaceBinding.objects.filter(namespace=template.namespace).update(valid_until=NOW)
        Claim.objects.update(created_at=NOW)
    if forgery == "another namespace":
        Claim.objects.update(namespace="weather-models")
        Pod.objects.update(namespace="weather-models")
    assert step(template).state == State.WAITING_FOR_POD
    assert not RequestClaim.objects.filter(claim_uid="forged").exists()


def test_an_ended_template_waits_for_its_pods(cast: Cast, template: Request, fake: FakeCluster) -> None:
    pod = mirror_pod(template, "work-1", node="node-h100", claim_names={})
    mirror_template_claim(template, pod, consumers=(pod.uid,))
    step(template)
    requests.release(request=template, user=cast.owner, now=NOW)
    for _ in range(2):
        Request.objects.filter(pk=template.pk).update(due_at=NOW)
        pursuit.pursue(request_id=template.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    ClaimTemplate.objects.all().delete()
    step(template)
    assert (template.state, template.reason, template.message) == (State.ENDING, Reason.STILL_USED, "work-1")
    Claim.objects.all().delete()
    pod.delete()
    assert step(template).state == State.ENDED


# --- size -----------------------------------------------------------------------------------------


def test_queries_do_not_grow_with_the_number_of_requests(
    cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    def queries() -> int:
        cluster = Request.objects.all()[0].cluster
        advance(cluster=cluster, now=NOW)
        with CaptureQueriesContext(connection) as seen:
            advance(cluster=cluster, now=NOW)
        return len(seen)

    mirror_claim(submit(cast, values, fake))
    few = queries()
    for _ in range(8):
        mirror_claim(submit(cast, values, fake))
    assert queries() == few
