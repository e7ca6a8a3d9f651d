"""Changes of requests that go on: asked for, decided, done in place or by a request that takes the place."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from claims.asks.reading import WHOLE
from claims.changes import applying
from claims.changes import changing as changes
from claims.changes import decisions as change_decisions
from claims.changes.wanted import UnableToChangeRequest
from claims.models import Flavor, Placement, Request, RequestChange
from claims.requests import actions as requests
from claims.requests import pursuit
from claims.requests.advance import advance
from claims.requests.approvals import UnableToDecide, Verdict
from inventory.models import Cluster
from portal.accounts.models import AuditEntry
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod
from tests.claims.quotas import quota

State = RequestChange.State
DAY = timedelta(days=1)


@pytest.fixture
def flavor(cast: Cast, cluster: Cluster) -> Flavor:
    """A flavor of which a lead has to approve every request."""
    made = Flavor.objects.create(
        slug="h100", name="H100", approval=Flavor.Approval.LEAD, created_at=NOW, changed_at=NOW,
        min_duration=timedelta(hours=1), default_duration=DAY, max_duration=10 * DAY, max_count=4,
    )  # fmt: skip
    Placement.objects.create(flavor=made, cluster=cluster, device_class="h100")
    return made


@pytest.fixture
def held(request_: Request, fake: FakeCluster) -> Request:
    """A request that holds a device for three days from NOW; nobody had to approve it."""
    return serve(request_, fake)


def serve(request: Request, fake: FakeCluster) -> Request:
    pursue(request, fake)
    requests.hold(request=request, user=request.requester, now=NOW)
    pursue(request, fake)
    pod = mirror_pod(request, "hold", node="node-h100")
    mirror_claim(request, consumers=(pod.uid,), allocated_at=NOW)
    advance(cluster=request.cluster, now=NOW)
    request.refresh_from_db()
    assert request.state == Request.State.ALLOCATED
    return request


def pursue(request: Request, fake: FakeCluster) -> None:
    pursuit.pursue(request_id=request.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request.refresh_from_db()


def ask(request: Request, cast: Cast, fake: FakeCluster, **values: Any) -> RequestChange:
    return changes.ask(
        request=request,
        user=cast.owner,
        values={"reason": "It takes longer than thought", **values},
        now=NOW + DAY,
        connect=lambda _cluster: fake,
    )


def refused(request: Request, cast: Cast, fake: FakeCluster, **values: Any) -> dict[str, list[str]]:
    with pytest.raises(UnableToChangeRequest) as error:
        ask(request, cast, fake, **values)
    assert not RequestChange.objects.filter(request=request).open().exists()
    return error.value.errors


# --- in place -------------------------------------------------------------------------------------


def test_more_time_that_nobody_has_to_agree_to_is_there_at_once(
    held: Request, cast: Cast, fake: FakeCluster
) -> None:
    change = ask(held, cast, fake, duration="5", duration_unit="days")
    held.refresh_from_db()
    assert change.state == State.APPLIED
    assert (change.current, change.wanted) == ({"duration_hours": 72}, {"duration_hours": 120})
    assert (held.duration, held.expires_at) == (5 * DAY, NOW + 5 * DAY)
    told = AuditEntry.objects.filter(target_id=str(held.key)).values_list("action", flat=True)
    assert {"request.change-ask", "request.change-apply"} <= set(told)


def test_more_time_waits_for_whom_the_flavor_names(
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    change = ask(held, cast, fake, duration="5", duration_unit="days")
    assert (change.state, change.approval) == (State.WAITING, Flavor.Approval.LEAD)
    assert held.expires_at == NOW + 3 * DAY
    with pytest.raises(PermissionDenied):
        change_decisions.decide(
            change=change, user=cast.teammate, verdict=Verdict.APPROVED, comment="", now=NOW
        )
    change_decisions.decide(
        change=change, user=cast.lead, verdict=Verdict.APPROVED, comment="", now=NOW + DAY
    )
    held.refresh_from_db()
    assert (change.state, held.expires_at) == (State.APPLIED, NOW + 5 * DAY)
    with pytest.raises(UnableToDecide):
        change_decisions.decide(change=change, user=cast.admin, verdict=Verdict.APPROVED, comment="", now=NOW)


def test_less_time_and_another_purpose_need_nobody(
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    change = ask(held, cast, fake, duration="2", duration_unit="days", purpose="The April set")
    held.refresh_from_db()
    assert change.state == State.APPLIED
    assert (held.expires_at, held.purpose) == (NOW + 2 * DAY, "The April set")


def test_a_full_quota_refuses_neither_another_purpose_nor_other_times(
    held: Request, cast: Cast, fake: FakeCluster
) -> None:
    quota(held.project, limit="1")
    change = ask(held, cast, fake, purpose="The April set", duration="2", duration_unit="days")
    assert change.state == State.APPLIED
    assert ask(held, cast, fake, duration="4", duration_unit="days").state == State.APPLIED
    assert "Over the quota" in refused(held, cast, fake, count="2")["count"][0]


def test_a_spent_budget_refuses_more_and_not_less(
    held: Request, cast: Cast, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("claims.money.budget_guard.why_blocked", lambda **_facts: "It is spent.")
    assert refused(held, cast, fake, duration="5", duration_unit="days")[WHOLE] == ["It is spent."]
    assert ask(held, cast, fake, duration="2", duration_unit="days").state == State.APPLIED


def test_a_rejection_says_why_and_changes_nothing(
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    change = ask(held, cast, fake, duration="5", duration_unit="days")
    with pytest.raises(UnableToDecide, match="Say why"):
        change_decisions.decide(change=change, user=cast.lead, verdict=Verdict.REJECTED, comment="", now=NOW)
    change_decisions.decide(
        change=change, user=cast.lead, verdict=Verdict.REJECTED, comment="Others wait", now=NOW
    )
    held.refresh_from_db()
    assert (change.state, change.message, held.expires_at) == (
        State.REJECTED,
        "Others wait",
        NOW + 3 * DAY,
    )


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({}, WHOLE, "Nothing would change"),
        ({"duration": "72"}, WHOLE, "Nothing would change"),
        ({"duration": "4", "reason": ""}, "reason", "Say why"),
        ({"duration": "4", "reason": "x" * 1001}, "reason", "At most 1000"),
        ({"duration": "4", "reason": "a\x00b"}, "reason", "control character"),
        ({"duration": "4"}, "duration", "over already"),
        ({"duration": "99999999999999"}, "duration", "At most 90 days"),
        ({"duration": "soon"}, "duration", "not a whole number"),
        ({"count": "33"}, "count", "At most 32"),
        ({"min_memory": "lots"}, "min_memory", "not an amount"),
        ({"count": "2", "release": "never"}, "release", "Choose one of"),
    ],
)
def test_what_makes_no_sense_is_told_at_its_field(  # noqa: PLR0917 - fixtures and parameters
    held: Request, cast: Cast, fake: FakeCluster, typed: dict[str, Any], field: str, said: str
) -> None:
    assert said in " ".join(refused(held, cast, fake, **typed)[field])


def test_a_flavor_bounds_the_whole_time(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, flavor: Flavor
) -> None:
    Flavor.objects.update(approval=Flavor.Approval.NONE)
    asked = values | {"flavor": "h100", "device_class": "", "min_memory": ""}
    made = requests.submit(user=cast.owner, values=asked, now=NOW, connect=lambda _cluster: fake)
    errors = refused(serve(made, fake), cast, fake, duration="11", duration_unit="days")
    assert "1 to 240 hours" in errors["duration"][0]


def test_only_one_change_is_open_at_a_time_and_none_of_a_request_that_is_over(
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    first = ask(held, cast, fake, duration="5", duration_unit="days")
    with pytest.raises(UnableToChangeRequest, match="Another change"):
        ask(held, cast, fake, duration="6", duration_unit="days")
    changes.withdraw(change=first, user=cast.owner, now=NOW)
    changes.withdraw(change=first, user=cast.owner, now=NOW)
    second = ask(held, cast, fake, duration="6", duration_unit="days")
    requests.release(request=held, user=cast.owner, now=NOW)
    second.refresh_from_db()
    assert (first.state, second.state) == (State.WITHDRAWN, State.WITHDRAWN)
    assert "while it is on the cluster" in refused(held, cast, fake, duration="6")[WHOLE][0]


# --- by a request that takes the place ------------------------------------------------------------


def test_more_devices_are_a_new_request_and_the_first_one_goes_when_they_are_there(
    held: Request, cast: Cast, fake: FakeCluster
) -> None:
    change = ask(held, cast, fake, count="2")
    follower = change.successor
    assert follower is not None
    assert (change.state, change.replaces, follower.count) == (State.APPLIED, True, 2)
    assert (follower.key, follower.hold_wanted) == (change.key, True)
    assert applying.release_replaced(cluster=held.cluster, now=NOW) == 0
    held.refresh_from_db()
    assert held.state == Request.State.ALLOCATED, "it is not let go before the other is there"
    pursue(follower, fake)
    mirror_claim(follower, consumers=("w",), allocated_at=NOW, uid=follower.object_uid)
    advance(cluster=held.cluster, now=NOW + DAY)
    assert applying.release_replaced(cluster=held.cluster, now=NOW) == 1
    assert applying.release_replaced(cluster=held.cluster, now=NOW) == 0
    held.refresh_from_db()
    assert (held.state, held.end_reason) == (Request.State.ENDING, Request.Reason.REPLACED)


def test_the_first_one_may_be_kept_until_a_person_releases_it(
    held: Request, cast: Cast, fake: FakeCluster
) -> None:
    change = ask(held, cast, fake, count="2", release="by-hand")
    assert change.successor_id is not None
    Request.objects.filter(pk=change.successor_id).update(allocated_at=NOW)
    assert applying.release_replaced(cluster=held.cluster, now=NOW) == 0


def test_the_cluster_judges_the_new_request_before_anything_is_asked(
    held: Request, cast: Cast, fake: FakeCluster
) -> None:
    fake.drops = {"selectors"}
    errors = refused(held, cast, fake, count="2")
    assert "silently drop" in errors[WHOLE][0]
    assert fake.names("resourceclaims") == [held.object_name]


def test_what_is_no_longer_possible_when_it_is_agreed_to_fails_and_says_why(
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    change = ask(held, cast, fake, count="2")
    Cluster.objects.update(enabled=False)
    change_decisions.decide(change=change, user=cast.lead, verdict=Verdict.APPROVED, comment="", now=NOW)
    held.refresh_from_db()
    assert (change.state, change.successor) == (State.FAILED, None)
    assert "switched off" in change.message
    assert held.state == Request.State.ALLOCATED


# --- conditions -----------------------------------------------------------------------------------


def test_a_condition_of_a_change_holds_once_it_is_accepted(
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    change = ask(held, cast, fake, duration="9", duration_unit="days")
    change_decisions.decide(
        change=change, user=cast.lead, verdict=Verdict.APPROVED, comment="A week", now=NOW,
        condition={"duration": "7", "duration_unit": "days"},
    )  # fmt: skip
    held.refresh_from_db()
    assert (change.state, held.expires_at) == (State.OFFERED, NOW + 3 * DAY)
    change.refresh_from_db()
    change_decisions.accept(change=change, user=cast.owner, now=NOW + DAY, connect=lambda _cluster: fake)
    held.refresh_from_db()
    assert (change.state, held.expires_at) == (State.APPLIED, NOW + 7 * DAY)
    decision = change.decisions.get()
    assert (decision.person, decision.verdict) == (cast.lead, Verdict.APPROVED)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"count": ""}, "Say what"),
        ({"duration": "10", "duration_unit": "days"}, "not more"),
        ({"duration": "9", "duration_unit": "days"}, "as it is"),
        ({"duration": "x"}, "whole number"),
        ({"count": "0"}, "At least 1"),
    ],
)
def test_a_condition_is_less_than_what_was_asked_for(  # noqa: PLR0917 - fixtures and parameters
    held: Request, cast: Cast, fake: FakeCluster, flavor: Flavor, condition: dict[str, str], said: str
) -> None:
    change = ask(held, cast, fake, duration="9", duration_unit="days")
    with pytest.raises(UnableToDecide, match=said):
        change_decisions.decide(
            change=change, user=cast.lead, verdict=Verdict.APPROVED, comment="", now=NOW, condition=condition
        )
    change.refresh_from_db()
    assert change.state == State.WAITING


@pytest.fixture
def waiting(cast: Cast, values: dict[str, Any], fake: FakeCluster, flavor: Flavor) -> Request:
    """Two devices for three days, which a lead has to approve."""
    asked = values | {"flavor": "h100", "device_class": "", "min_memory": "", "count": "2"}
    return requests.submit(user=cast.owner, values=asked, now=NOW, connect=lambda _cluster: fake)


def test_a_request_is_approved_on_a_condition_and_goes_on_when_it_is_accepted(
    waiting: Request, cast: Cast, fake: FakeCluster
) -> None:
    change = change_decisions.offer(
        request=waiting, user=cast.lead, comment="One will do", now=NOW,
        condition={"count": "1", "duration": "1", "duration_unit": "days"},
    )  # fmt: skip
    assert waiting.state == Request.State.WAITING_FOR_APPROVAL
    change_decisions.accept(change=change, user=cast.owner, now=NOW, connect=lambda _cluster: fake)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.count, waiting.duration) == (Request.State.APPROVED, 1, DAY)
    assert waiting.spec["devices"]["requests"][0]["exactly"]["count"] == 1
    assert waiting.decisions.get().person == cast.lead
    assert change.state == State.APPLIED


def test_declining_the_condition_withdraws_the_request(waiting: Request, cast: Cast) -> None:
    change = change_decisions.offer(
        request=waiting, user=cast.lead, comment="", now=NOW, condition={"count": "1"}
    )
    change_decisions.decline(change=change, user=cast.owner, now=NOW)
    waiting.refresh_from_db()
    assert (waiting.state, change.state) == (Request.State.CANCELLED, State.WITHDRAWN)


def test_who_may_not_approve_may_not_set_conditions(waiting: Request, cast: Cast) -> None:
    for user in (cast.owner, cast.teammate, cast.auditor):
        with pytest.raises(PermissionDenied):
            change_decisions.offer(request=waiting, user=user, comment="", now=NOW, condition={"count": "1"})
    assert not RequestChange.objects.exists()
