"""Quotas when somebody asks, tries again, approves; crossing a limit, and what a quota that releases does."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.urls import reverse

from claims.asks.values import UnableToSubmit
from claims.models import Flavor, Quota, Request
from claims.quotas import admin as quotas_admin
from claims.quotas import watch as quotas_watch
from claims.quotas.guard import OverQuota, approve, foretell
from claims.requests import actions as requests
from claims.requests.actions import UnableToChange
from inventory.models import Cluster
from portal.accounts.models import AuditEntry, Notification, Project
from tests.claims import catalogue, quotas
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_request_views import signed_in

Kind, Action = Quota.Kind, Quota.Action
State, Reason = Request.State, Request.Reason


def submit(cast: Cast, values: dict[str, Any], fake: FakeCluster, **typed: Any) -> Request:
    return requests.submit(
        user=cast.owner, values={**values, **typed}, now=NOW, connect=lambda _cluster: fake
    )


# --- asking -----------------------------------------------------------------------------------------


def test_over_a_quota_that_refuses_nothing_is_stored_and_the_cluster_is_not_even_asked(
    cast: Cast, project: Project, values: dict[str, Any], fake: FakeCluster
) -> None:
    quotas.quota(project, "2")
    submit(cast, values, fake, count="2")
    calls = len(fake.calls)
    with pytest.raises(UnableToSubmit) as refused:
        submit(cast, values, fake, count="1")
    assert list(refused.value.errors) == ["count"]
    assert "the limit is 2 devices; 0 devices in use, 2 devices asked for" in refused.value.errors["count"][0]
    assert Request.objects.count() == 1
    assert len(fake.calls) == calls


@pytest.mark.parametrize("action", [Action.BLOCK, Action.RELEASE])
def test_a_quota_of_hours_stands_at_the_duration(
    cast: Cast, project: Project, values: dict[str, Any], fake: FakeCluster, action: str
) -> None:
    quotas.quota(project, "24", kind=Kind.HOURS, action=action)
    with pytest.raises(UnableToSubmit) as refused:
        submit(cast, values, fake, duration="3", duration_unit="days")
    assert list(refused.value.errors) == ["duration"]
    assert submit(cast, values, fake, duration="24", duration_unit="hours").pk


def test_quotas_of_others_and_those_that_do_not_hold_refuse_nothing(
    cast: Cast,
    project: Project,
    other_project: Project,
    values: dict[str, Any],
    fake: FakeCluster,
) -> None:
    elsewhere = catalogue.flavor("a100")
    quotas.quota(other_project, "0")
    quotas.quota(project, "0", flavor=elsewhere)
    quotas.quota(project, "0", valid_until=NOW)
    quotas.quota(project, "0", valid_from=NOW + timedelta(seconds=1))
    assert submit(cast, values, fake).pk


def test_to_notify_lets_it_through_and_tells_leads_and_administrators_once(
    cast: Cast, project: Project, cluster: Cluster, values: dict[str, Any], fake: FakeCluster
) -> None:
    flavor = catalogue.flavor(approval=Flavor.Approval.NONE)
    catalogue.placement(flavor, cluster)
    quota = quotas.quota(project, "1", action=Action.NOTIFY, flavor=flavor)
    typed = {"flavor": "h100", "device_class": "", "min_memory": ""}
    assert submit(cast, values, fake, **typed).state == State.SUBMITTED
    assert not Notification.objects.exists()
    assert submit(cast, values, fake, **typed).state == State.SUBMITTED
    assert submit(cast, values, fake, **typed).state == State.SUBMITTED
    told = Notification.objects.filter(kind="quota")
    assert {row.person for row in told} == {cast.lead, cast.admin}
    assert len(told) == 2
    quota.refresh_from_db()
    assert quota.over_since == NOW
    assert AuditEntry.objects.filter(action="quota.crossed", project=project).count() == 1


def test_the_same_key_sent_again_is_the_same_request_also_when_the_quota_is_full(
    cast: Cast, project: Project, values: dict[str, Any], fake: FakeCluster
) -> None:
    quotas.quota(project, "1")
    key = "6c9e6679-7425-40de-944b-e07fc1f90ae7"
    made = requests.submit(user=cast.owner, values=values, key=key, now=NOW, connect=lambda _c: fake)
    again = requests.submit(user=cast.owner, values=values, key=key, now=NOW, connect=lambda _c: fake)
    assert again.pk == made.pk


def test_a_failed_request_is_tried_again_only_within_the_quota(
    cast: Cast, project: Project, request_: Request
) -> None:
    Request.objects.filter(pk=request_.pk).update(state=State.FAILED)
    request_.refresh_from_db()
    quota = quotas.quota(project, "0")
    with pytest.raises(UnableToChange, match="Over the quota"):
        requests.retry(request=request_, user=cast.owner, now=NOW)
    assert request_.state == State.FAILED
    Quota.objects.filter(pk=quota.pk).update(limit="1")
    requests.retry(request=request_, user=cast.owner, now=NOW)
    assert request_.state == State.SUBMITTED


def test_without_a_quota_asking_costs_one_query(
    cast: Cast, request_: Request, django_assert_num_queries: Any
) -> None:
    from claims.quotas.guard import verdicts

    with django_assert_num_queries(1):
        assert verdicts([request_], now=NOW) == [[]]


@pytest.mark.django_db(transaction=True)
def test_two_who_ask_at_the_same_moment_do_not_both_get_the_last_device(
    cast: Cast, project: Project, values: dict[str, Any], fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas.quota(project, "1")
    # Both have been read and rehearsed before either is stored.
    ready = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(requests, "rehearse", lambda _request, connect: ready.wait())  # noqa: ARG005
    made: list[Request] = []
    refused: list[UnableToSubmit] = []

    def ask() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                made.append(requests.submit(user=cast.owner, values=values, now=NOW))
            except UnableToSubmit as error:
                refused.append(error)
            except OperationalError:
                # SQLite in memory, where the other one holds the table: asked again, alone.
                monkeypatch.setattr(requests, "rehearse", lambda _request, connect: None)  # noqa: ARG005
                continue
            finally:
                connection.close()
            return

    threads = [threading.Thread(target=ask) for _number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)
    assert (len(made), len(refused)) == (1, 1)
    assert list(refused[0].errors) == ["count"]
    assert Request.objects.count() == 1


def test_what_somebody_else_took_while_the_cluster_was_asked_counts(
    cast: Cast, project: Project, values: dict[str, Any], fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas.quota(project, "1")

    def rehearse(_request: Request, *, connect: object) -> None:
        monkeypatch.undo()
        submit(cast, values, fake)

    monkeypatch.setattr(requests, "rehearse", rehearse)
    with pytest.raises(UnableToSubmit) as refused:
        submit(cast, values, fake)
    assert list(refused.value.errors) == ["count"]
    assert Request.objects.count() == 1


# --- approving --------------------------------------------------------------------------------------


def test_a_limit_that_became_too_small_is_told_and_only_administrators_go_over_it_knowingly(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    request = quotas.asked(project, cluster, count=2, state=State.WAITING_FOR_APPROVAL)
    quotas.quota(project, "1")

    def decide(user: Any, *, knowingly: bool) -> int:
        with transaction.atomic():
            return len(approve(request, user=user, knowingly=knowingly, now=NOW))

    for knowingly in (False, True):
        with pytest.raises(OverQuota, match="Only an administrator") as refused:
            decide(cast.lead, knowingly=knowingly)
        assert not refused.value.knowingly
    with pytest.raises(OverQuota, match="all the same") as refused:
        decide(cast.admin, knowingly=False)
    assert refused.value.knowingly
    assert decide(cast.admin, knowingly=True) == 1


def test_within_the_quota_an_approval_is_nobodys_exception(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    request = quotas.asked(project, cluster, count=2, state=State.WAITING_FOR_APPROVAL)
    quotas.quota(project, "2")
    quotas.quota(project, "1", action=Action.NOTIFY)
    assert approve(request, user=cast.lead, knowingly=False, now=NOW) == []


# --- telling beforehand -----------------------------------------------------------------------------


def test_the_panel_tells_what_is_left_before_anything_is_sent(
    cast: Cast, project: Project, values: dict[str, Any]
) -> None:
    from claims.asks.judging import read

    quotas.quota(project, "3")
    quotas.quota(project, "100", kind=Kind.HOURS, action=Action.NOTIFY)
    seen = read(values | {"count": "2"}, user=cast.owner, now=NOW)
    devices, hours = foretell(seen, now=NOW)
    assert (devices.left, devices.limit, devices.takes, devices.over) == (
        "3 devices", "3 devices", "2 devices", False,
    )  # fmt: skip
    assert (hours.takes, hours.over, hours.refuses) == ("144 h", True, False)
    assert foretell(read({}, user=cast.owner, now=NOW), now=NOW) == []


# --- watching ---------------------------------------------------------------------------------------


def test_the_newest_are_released_until_the_project_is_within_its_quota(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    oldest = quotas.asked(project, cluster, state=State.IN_USE, hold_wanted=True)
    middle = quotas.asked(project, cluster, state=State.ALLOCATED, hold_wanted=True)
    newest = quotas.asked(project, cluster, state=State.WAITING_FOR_APPROVAL)
    quotas.held(project, cluster, "gpu-0", oldest)
    quotas.held(project, cluster, "gpu-1", middle)
    quota = quotas.quota(project, "1", action=Action.RELEASE)
    assert quotas_watch.watch(now=NOW) == 2
    for request in (oldest, middle, newest):
        request.refresh_from_db()
    assert (oldest.state, oldest.hold_wanted) == (State.IN_USE, True)
    assert (middle.state, middle.end_reason, middle.hold_wanted, middle.due_at) == (
        State.ENDING, Reason.OVER_QUOTA, False, NOW,
    )  # fmt: skip
    assert (newest.state, newest.reason) == (State.CANCELLED, Reason.OVER_QUOTA)
    assert newest.message == "devices at once: 1 device"
    # Told: the leads and administrators of the crossing, the person of each request.
    assert Notification.objects.filter(person=cast.owner, kind="quota").count() == 2
    assert Notification.objects.filter(person=cast.lead).count() == 1
    # What is ending holds until its Pods end, and nothing more is ended for it.
    assert quotas_watch.watch(now=NOW + timedelta(minutes=1)) == 0
    quota.refresh_from_db()
    assert quota.over_since == NOW


def test_a_crossing_is_forgotten_within_the_limit_and_told_again_the_next_time(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    quota = quotas.quota(project, "0", action=Action.NOTIFY)
    held = quotas.held(project, cluster)
    quotas_watch.watch(now=NOW)
    quotas_watch.watch(now=NOW + timedelta(minutes=1))
    assert Notification.objects.filter(person=cast.lead).count() == 1
    type(held).objects.update(ended_at=NOW + timedelta(minutes=2))
    quotas_watch.watch(now=NOW + timedelta(minutes=3))
    quota.refresh_from_db()
    assert quota.over_since is None
    quotas.held(project, cluster, "gpu-1")
    quotas_watch.watch(now=NOW + timedelta(minutes=4), cluster=cluster)
    assert Notification.objects.filter(person=cast.lead).count() == 2


def test_a_desk_that_only_looks_ends_nothing(
    cast: Cast, project: Project, cluster: Cluster, settings: Any
) -> None:
    settings.READ_ONLY = True
    request = quotas.asked(project, cluster)
    quotas.quota(project, "0", action=Action.RELEASE)
    assert quotas_watch.watch(now=NOW) == 0
    request.refresh_from_db()
    assert request.state == State.WAITING_FOR_POD


def test_a_project_as_it_was_costs_only_the_look(
    cast: Cast, project: Project, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas.quota(project, "1", action=Action.RELEASE)
    quotas.asked(project, cluster)
    monkeypatch.setattr(quotas_watch, "lock", lambda _project: pytest.fail("locked"))
    assert quotas_watch.watch(now=NOW, cluster=cluster) == 0


# --- what a quota would mean ------------------------------------------------------------------------


def test_the_effect_names_who_would_be_over_and_writes_nothing(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    old = quotas.asked(project, cluster)
    new = quotas.asked(project, cluster)
    quotas.held(project, cluster, "gpu-9")
    said = quotas_admin.read_said(
        {"project": project.slug, "kind": "devices", "limit": "2", "action": "release"}, now=NOW
    )
    effect = quotas_admin.effect(said=said, now=NOW)
    assert effect.over
    assert [request.pk for request, _piece in effect.counted] == [new.pk, old.pk]
    assert effect.past_the_desk.used == 1
    assert [request.pk for request in effect.ended] == [new.pk]
    assert not Quota.objects.exists()


def test_what_was_ended_can_be_asked_for_again_when_there_is_room(
    cast: Cast, project: Project, values: dict[str, Any], fake: FakeCluster
) -> None:
    made = submit(cast, values, fake)
    quota = quotas_admin.create(
        said=quotas_admin.read_said(
            {"project": project.slug, "kind": "devices", "limit": "0", "action": "release"}, now=NOW
        ),
        user=cast.admin,
        now=NOW,
    )
    quotas_watch.watch(now=NOW)
    made.refresh_from_db()
    assert made.state == State.CANCELLED
    with pytest.raises(UnableToSubmit):
        submit(cast, values, fake)
    quotas_admin.end(quota=quota, user=cast.admin, now=NOW + timedelta(hours=1))
    assert quota.valid_until == NOW + timedelta(hours=1)
    later = NOW + timedelta(hours=2)
    assert requests.submit(user=cast.owner, values=values, now=later, connect=lambda _c: fake).pk


def test_the_queue_tells_the_quota_and_an_administrator_approves_beyond_it_knowingly(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    request = quotas.asked(
        project, cluster, count=2, requester=cast.owner, state=State.WAITING_FOR_APPROVAL,
        approval=Flavor.Approval.LEAD,
    )  # fmt: skip
    quotas.quota(project, "1")
    client = signed_in(cast.admin)
    told = client.get(reverse("approval-list")).content.decode()
    assert "Over the quota (devices at once): the limit is 1 device" in told
    url = reverse("request-approve", args=[request.key])
    refused = signed_in(cast.lead).post(url, {"comment": "Go"})
    assert refused.status_code == 303
    answer = client.post(url, {"comment": "Go"})
    assert answer.status_code == 422
    assert "Say that you approve it all the same." in answer.content.decode()
    assert ">Go</textarea>" in answer.content.decode()
    request.refresh_from_db()
    assert (request.state, request.decisions.count()) == (State.WAITING_FOR_APPROVAL, 0)
    assert client.post(url, {"comment": "Go", "over_quota": "1"}).status_code == 303
    request.refresh_from_db()
    assert request.state == State.APPROVED
    entry = AuditEntry.objects.get(action="request.beyond-quota")
    assert entry.actor == cast.admin
