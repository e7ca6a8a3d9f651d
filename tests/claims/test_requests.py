"""What people do with requests, and what the desk then does on the cluster."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from claims.asks.reading import WHOLE
from claims.asks.values import UnableToSubmit
from claims.models import Request, RequestClaim
from claims.requests import actions as requests
from claims.requests import pursuit, retrying
from claims.requests.actions import UnableToChange
from claims.requests.manifests import REQUEST_LABEL, hold_name
from claims.signals import work_due
from inventory.models import NamespaceBinding
from portal.accounts.models import AuditEntry
from portal.kube import errors
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster

State, Reason = Request.State, Request.Reason


def pursue(request: Request, fake: FakeCluster, seconds: float = 0) -> Request:
    pursuit.pursue(
        request_id=request.pk,
        now=NOW + timedelta(seconds=seconds),
        hold_image=IMAGE,
        connect=lambda _cluster: fake,
    )
    request.refresh_from_db()
    return request


def actions(request: Request) -> list[str]:
    entries = AuditEntry.objects.filter(target_id=str(request.key)).order_by("id")
    return [entry.action.removeprefix("request.") for entry in entries]


@pytest.fixture
def live(request_: Request, fake: FakeCluster) -> Request:
    """A request whose claim is on the cluster."""
    return pursue(request_, fake)


# --- submit ---------------------------------------------------------------------------------------


def test_a_submitted_request_was_accepted_on_trial_and_is_not_created_yet(
    request_: Request, fake: FakeCluster
) -> None:
    assert request_.state == State.SUBMITTED
    assert request_.object_name == f"protein-folding-{request_.short_key}"
    assert ("create", "resourceclaims", request_.object_name, True) in fake.calls
    assert fake.names("resourceclaims") == []
    assert actions(request_) == ["submit"]
    assert request_.spec["devices"]["requests"][0]["exactly"]["count"] == 1


def test_the_same_key_is_the_same_request(cast: Cast, values: dict[str, Any], fake: FakeCluster) -> None:
    key = str(uuid.uuid4())
    made = [
        requests.submit(user=cast.owner, values=values, key=key, now=NOW, connect=lambda _cluster: fake)
        for _ in range(2)
    ]
    assert made[0].pk == made[1].pk
    assert Request.objects.count() == 1


def test_somebody_elses_key_is_taken(cast: Cast, values: dict[str, Any], fake: FakeCluster) -> None:
    key = str(uuid.uuid4())
    requests.submit(user=cast.owner, values=values, key=key, now=NOW, connect=lambda _cluster: fake)
    with pytest.raises(UnableToSubmit) as refused:
        requests.submit(user=cast.teammate, values=values, key=key, now=NOW, connect=lambda _cluster: fake)
    assert set(refused.value.errors) == {"key"}


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (errors.Unreachable("no answer"), "cluster"),
        (errors.Unauthorized("refused", status=401), "cluster"),
        (errors.ServerError("failed", status=500), "cluster"),
        (errors.Forbidden("exceeded quota: gpus, requested: 1, used: 4, limited: 4", status=403), "count"),
        (errors.Forbidden("may not create resourceclaims", status=403), "namespace"),
        (errors.NotFound('namespaces "protein-folding" not found', status=404), "namespace"),
        (
            errors.Invalid(
                "invalid", status=422,
                details={"causes": [{"field": "spec.devices.requests[0].selectors", "message": "no"}]},
            ),
            "min_memory",
        ),
        (errors.Invalid("invalid", status=422), WHOLE),
    ],
)  # fmt: skip
def test_a_refusal_of_the_cluster_stands_next_to_its_field_and_nothing_is_stored(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, error: errors.ClusterError, field: str
) -> None:
    fake.fail["create"] = error
    with pytest.raises(UnableToSubmit) as refused:
        requests.submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
    assert list(refused.value.errors) == [field]
    assert Request.objects.count() == 0
    assert AuditEntry.objects.count() == 0


def test_a_class_that_the_mirror_still_shows_but_the_cluster_lost_is_named(
    cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    del fake.objects["deviceclasses", "", "h100"]
    with pytest.raises(UnableToSubmit) as refused:
        requests.submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
    assert list(refused.value.errors) == ["device_class"]
    assert Request.objects.count() == 0


def test_a_field_that_the_cluster_would_drop_is_named(
    cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    fake.drops = {"selectors"}
    with pytest.raises(UnableToSubmit) as refused:
        requests.submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
    assert "spec.devices.requests[0].exactly.selectors" in refused.value.errors[WHOLE][0]


@pytest.mark.django_db(transaction=True)
def test_the_cluster_is_asked_outside_of_any_transaction_and_work_is_announced_after_commit(
    cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    announced: list[int] = []

    def listen(*, request_id: int, **_kwargs: Any) -> None:
        assert not connection.in_atomic_block
        announced.append(request_id)

    def connect(_cluster: object) -> FakeCluster:
        assert not connection.in_atomic_block
        return fake

    work_due.connect(listen)
    try:
        made = requests.submit(user=cast.owner, values=values, now=NOW, connect=connect)
    finally:
        work_due.disconnect(listen)
    assert announced == [made.pk]


def test_a_key_that_begins_like_anothers_is_taken(
    cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    keys = [uuid.UUID(int=(0xABCDEF01 << 96) + number) for number in (1, 2)]

    def send(key: uuid.UUID) -> Request:
        return requests.submit(
            user=cast.owner, values=values, key=key, now=NOW, connect=lambda _cluster: fake
        )

    first = send(keys[0])
    with pytest.raises(UnableToSubmit) as refused:
        send(keys[1])
    assert set(refused.value.errors) == {"key"}
    assert Request.objects.get() == first


# --- create ---------------------------------------------------------------------------------------


def test_creating_puts_the_claim_on_the_cluster_once(request_: Request, fake: FakeCluster) -> None:
    pursue(request_, fake)
    assert request_.state == State.WAITING_FOR_POD
    assert request_.due_at is None
    claim = fake.objects["resourceclaims", "protein-folding", request_.object_name]
    assert claim["metadata"]["uid"] == request_.object_uid
    assert claim["metadata"]["labels"][REQUEST_LABEL] == str(request_.key)
    assert actions(request_) == ["submit", "create", "created"]
    assert RequestClaim.objects.get().claim_uid == request_.object_uid
    before = len(fake.calls)
    pursue(request_, fake)
    assert len(fake.calls) == before


def test_a_crash_after_the_cluster_created_it_finds_the_same_object(
    request_: Request, fake: FakeCluster
) -> None:
    pursue(request_, fake)
    uid = request_.object_uid
    # As if the answer had never been written down.
    Request.objects.filter(pk=request_.pk).update(
        state=State.CREATING, object_uid="", object_created_at=None, due_at=NOW
    )
    pursue(request_, fake)
    assert (request_.state, request_.object_uid) == (State.WAITING_FOR_POD, uid)
    assert fake.names("resourceclaims") == [request_.object_name]


def test_a_name_that_somebody_else_took_fails_and_says_so(request_: Request, fake: FakeCluster) -> None:
    fake.objects["resourceclaims", "protein-folding", request_.object_name] = {
        "metadata": {"uid": "theirs", "labels": {}}
    }
    pursue(request_, fake)
    assert (request_.state, request_.reason) == (State.FAILED, Reason.NAME_TAKEN)
    assert request_.object_name in request_.message
    assert (
        fake.objects["resourceclaims", "protein-folding", request_.object_name]["metadata"]["uid"] == "theirs"
    )


@pytest.mark.parametrize(
    "error",
    [
        errors.Unreachable("no answer"),
        errors.ServerError("failed", status=503),
        errors.TooManyRequests("busy", status=429),
        errors.Unauthorized("refused", status=401),
    ],
)
def test_a_cluster_that_is_away_is_tried_again_with_back_off(
    request_: Request, fake: FakeCluster, error: errors.ClusterError
) -> None:
    fake.fail["create"] = error
    waits = []
    for _ in range(3):
        pursue(request_, fake)
        assert (request_.state, request_.reason) == (State.CREATING, Reason.RETRYING)
        assert request_.message == error.message
        assert request_.due_at is not None
        waits.append((request_.due_at - NOW).total_seconds())
    assert waits == [5, 10, 20]
    fake.fail.clear()
    pursue(request_, fake)
    assert (request_.state, request_.reason, request_.message) == (State.WAITING_FOR_POD, "", "")


def test_a_namespace_that_was_taken_away_meanwhile_gets_nothing(request_: Request, fake: FakeCluster) -> None:
    NamespaceBinding.objects.all().delete()
    pursue(request_, fake)
    assert (request_.state, request_.reason) == (State.FAILED, Reason.NAMESPACE_LOST)
    assert fake.names("resourceclaims") == []


def test_what_the_server_asks_to_wait_is_waited(request_: Request, fake: FakeCluster) -> None:
    error = errors.TooManyRequests("busy", status=429)
    error.retry_after = 90
    fake.fail["create"] = error
    pursue(request_, fake)
    assert request_.due_at == NOW + timedelta(seconds=90)


def test_a_refusal_fails_and_can_be_tried_again(cast: Cast, request_: Request, fake: FakeCluster) -> None:
    fake.fail["create"] = errors.Forbidden("exceeded quota", status=403)
    pursue(request_, fake)
    assert (request_.state, request_.reason) == (State.FAILED, Reason.REFUSED)
    assert request_.due_at is None
    fake.fail.clear()
    requests.retry(request=request_, user=cast.owner, now=NOW)
    assert (request_.state, request_.message) == (State.SUBMITTED, "")
    pursue(request_, fake)
    assert request_.state == State.WAITING_FOR_POD


def test_back_off_is_bounded() -> None:
    assert retrying.backoff(0) == timedelta(seconds=5)
    assert retrying.backoff(1000) == timedelta(minutes=5)


def test_two_workers_that_create_at_once_make_one_object_and_keep_it(
    request_: Request, fake: FakeCluster
) -> None:
    create = fake.create

    def slow_create(*args: Any, **kwargs: Any) -> dict[str, Any]:
        made = create(*args, **kwargs)
        fake.create = create  # type: ignore[method-assign]  # only the first worker is overtaken
        pursue(Request.objects.get(pk=request_.pk), fake)
        return made

    fake.create = slow_create  # type: ignore[method-assign]  # another worker comes during the call
    pursue(request_, fake)
    assert request_.state == State.WAITING_FOR_POD
    assert fake.names("resourceclaims") == [request_.object_name]
    assert actions(request_) == ["submit", "create", "created"]


# --- cancel ---------------------------------------------------------------------------------------


def test_a_request_that_got_nothing_is_cancelled_at_once(
    cast: Cast, request_: Request, fake: FakeCluster
) -> None:
    requests.cancel(request=request_, user=cast.owner, now=NOW)
    assert request_.state == State.CANCELLED
    pursue(request_, fake)
    assert fake.names("resourceclaims") == []


def test_cancelled_while_it_is_being_created_leaves_nothing_behind(
    cast: Cast, request_: Request, fake: FakeCluster
) -> None:
    create = fake.create

    def slow_create(*args: Any, **kwargs: Any) -> dict[str, Any]:
        made = create(*args, **kwargs)
        if not kwargs.get("dry_run"):
            requests.cancel(request=Request.objects.get(pk=request_.pk), user=cast.owner, now=NOW)
        return made

    fake.create = slow_create  # type: ignore[method-assign]  # somebody cancels during the call
    pursue(request_, fake)
    assert request_.state == State.ENDING
    pursue(request_, fake)
    assert request_.state == State.ENDED
    assert fake.names("resourceclaims") == []


def test_what_is_live_is_released_not_cancelled(cast: Cast, live: Request) -> None:
    with pytest.raises(UnableToChange):
        requests.cancel(request=live, user=cast.owner, now=NOW)
    assert live.state == State.WAITING_FOR_POD


# --- hold -----------------------------------------------------------------------------------------


def test_a_hold_is_a_pod_of_the_desk(cast: Cast, live: Request, fake: FakeCluster) -> None:
    requests.hold(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    assert fake.names("pods") == [hold_name(live.object_name)]
    assert live.hold_pod_uid
    assert live.due_at is None
    requests.hold(request=live, user=cast.owner, now=NOW)
    assert actions(live)[-2:] == ["hold", "held"]


def test_a_finished_hold_pod_makes_room_for_a_new_one(cast: Cast, live: Request, fake: FakeCluster) -> None:
    requests.hold(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    first = live.hold_pod_uid
    pod = fake.objects["pods", "protein-folding", hold_name(live.object_name)]
    pod["status"] = {"phase": "Failed", "reason": "Evicted"}
    Request.objects.filter(pk=live.pk).update(due_at=NOW)
    pursue(live, fake)
    assert fake.names("pods") == []
    pursue(live, fake, seconds=5)
    assert fake.names("pods") == [hold_name(live.object_name)]
    assert live.hold_pod_uid != first
    assert actions(live)[-1] == "hold-again"


def test_a_refused_hold_pod_is_told_and_not_tried_for_ever(
    cast: Cast, live: Request, fake: FakeCluster
) -> None:
    fake.fail["create pods"] = errors.Forbidden("violates PodSecurity", status=403)
    requests.hold(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    assert (live.hold_wanted, live.due_at, live.reason) == (False, None, Reason.REFUSED)
    assert "PodSecurity" in live.message
    assert live.state == State.WAITING_FOR_POD


def test_a_hold_refused_to_another_worker_meanwhile_leaves_no_pod_and_keeps_the_claim(
    cast: Cast, live: Request, fake: FakeCluster
) -> None:
    requests.hold(request=live, user=cast.owner, now=NOW)
    create = fake.create

    def slow_create(*args: Any, **kwargs: Any) -> dict[str, Any]:
        made = create(*args, **kwargs)
        Request.objects.filter(pk=live.pk).update(hold_wanted=False, due_at=None)
        return made

    fake.create = slow_create  # type: ignore[method-assign]  # another worker gives up during the call
    pursue(live, fake)
    assert fake.names("pods") == []
    assert fake.names("resourceclaims") == [live.object_name]
    assert live.state == State.WAITING_FOR_POD


def test_a_template_cannot_be_held(cast: Cast, values: dict[str, Any], fake: FakeCluster) -> None:
    made = requests.submit(
        user=cast.owner, values=values | {"shape": "template"}, now=NOW, connect=lambda _cluster: fake
    )
    pursue(made, fake)
    assert fake.names("resourceclaimtemplates") == [made.object_name]
    with pytest.raises(UnableToChange):
        requests.hold(request=made, user=cast.owner, now=NOW)


def test_what_is_not_live_cannot_be_held(cast: Cast, request_: Request) -> None:
    with pytest.raises(UnableToChange):
        requests.hold(request=request_, user=cast.owner, now=NOW)
    assert not request_.hold_wanted


# --- release --------------------------------------------------------------------------------------


def test_release_removes_hold_and_claim_and_nothing_else(
    cast: Cast, live: Request, fake: FakeCluster
) -> None:
    requests.hold(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    fake.objects["pods", "protein-folding", "work"] = {"metadata": {"uid": "w", "labels": {}}}
    requests.release(request=live, user=cast.owner, now=NOW)
    assert (live.state, live.hold_wanted) == (State.ENDING, False)
    pursue(live, fake)
    assert fake.names("pods") == ["work"]
    assert fake.names("resourceclaims") == []
    pursue(live, fake, seconds=5)
    assert (live.state, live.reason, live.due_at) == (State.ENDED, Reason.RELEASED, None)


def test_two_tabs_that_release_are_one_release(cast: Cast, live: Request) -> None:
    tabs = [Request.objects.get(pk=live.pk) for _ in range(2)]
    for tab in tabs:
        requests.release(request=tab, user=cast.owner, now=NOW)
    assert actions(live).count("release") == 1


def test_a_claim_that_pods_keep_alive_stays_ending(cast: Cast, live: Request, fake: FakeCluster) -> None:
    fake.keeps = {live.object_name}
    requests.release(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    pursue(live, fake, seconds=60)
    assert live.state == State.ENDING
    assert live.due_at is not None
    fake.keeps.clear()
    fake.objects.pop(("resourceclaims", "protein-folding", live.object_name))
    pursue(live, fake, seconds=600)
    assert live.state == State.ENDED


def test_release_while_the_cluster_is_away_goes_on_later(
    cast: Cast, live: Request, fake: FakeCluster
) -> None:
    fake.fail["get"] = errors.Unreachable("no answer")
    requests.release(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    assert (live.state, live.reason) == (State.ENDING, Reason.RETRYING)
    fake.fail.clear()
    pursue(live, fake)
    pursue(live, fake, seconds=5)
    assert (live.state, live.reason) == (State.ENDED, Reason.RELEASED)


def test_a_namesake_of_somebody_else_is_never_deleted(cast: Cast, live: Request, fake: FakeCluster) -> None:
    key = ("resourceclaims", "protein-folding", live.object_name)
    fake.objects[key] = {"metadata": {"uid": "theirs", "labels": {}}}
    requests.release(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    assert live.state == State.ENDED
    assert fake.objects[key]["metadata"]["uid"] == "theirs"


def test_nothing_is_released_before_there_is_something(cast: Cast, request_: Request) -> None:
    with pytest.raises(UnableToChange):
        requests.release(request=request_, user=cast.owner, now=NOW)


def test_a_hold_that_arrives_after_the_release_is_removed_again(
    cast: Cast, live: Request, fake: FakeCluster
) -> None:
    requests.hold(request=live, user=cast.owner, now=NOW)
    create = fake.create

    def slow_create(*args: Any, **kwargs: Any) -> dict[str, Any]:
        made = create(*args, **kwargs)
        requests.release(request=Request.objects.get(pk=live.pk), user=cast.owner, now=NOW)
        return made

    fake.create = slow_create  # type: ignore[method-assign]  # somebody releases during the call
    for minute in range(3):
        pursue(live, fake, seconds=60 * minute)
    assert live.state == State.ENDED
    assert fake.names("pods") == []
    assert fake.names("resourceclaims") == []
