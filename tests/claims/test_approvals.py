"""Approvals: who decides, once and never about themselves; the queue with its effect; nothing by GET."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import Decision, Flavor, PriceBook, Request
from claims.money.pricing import price_list
from claims.requests import actions as requests
from claims.requests import advance, approvals, pursuit
from claims.requests.approvals import UnableToDecide, Verdict, decidable, queue
from inventory import snapshot
from inventory.models import Cluster
from portal.accounts.models import AuditEntry, Membership, Project, User
from tests.claims import catalogue
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import JSON, client_of
from tests.claims.test_request_views import page, signed_in

State = Request.State
ASK: dict[str, Any] = {"project": "protein-folding", "flavor": "h100", "purpose": "Folding"}


@pytest.fixture(autouse=True)
def fresh(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    snapshot._cached.clear()
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    made = catalogue.flavor(approval=Flavor.Approval.LEAD)
    catalogue.placement(made, cluster)
    return made


def asked(user: User, flavor: Flavor, approval: str = "lead", **typed: Any) -> Request:
    Flavor.objects.filter(pk=flavor.pk).update(approval=approval)
    return requests.submit(user=user, values={**ASK, **typed}, now=NOW)


def decide(user: User, request: Request, verdict: str = Verdict.APPROVED, comment: str = "") -> None:
    approvals.decide(request=request, user=user, verdict=verdict, comment=comment, now=NOW)


# --- the way of a request ---------------------------------------------------------------------------


def test_nothing_is_created_before_it_is_approved(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    request = asked(cast.owner, flavor)
    assert (request.state, request.due_at) == (State.WAITING_FOR_APPROVAL, None)
    pursuit.pursue(request_id=request.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    assert fake.names("resourceclaims") == []
    later = NOW + timedelta(days=2)
    approvals.decide(request=request, user=cast.lead, verdict=Verdict.APPROVED, comment="Go", now=later)
    assert (request.state, request.due_at) == (State.APPROVED, later)
    # The wait for a device begins with the decision.
    assert request.expires_at == later + timedelta(days=7)
    pursuit.pursue(request_id=request.pk, now=later, hold_image=IMAGE, connect=lambda _cluster: fake)
    request.refresh_from_db()
    assert request.state == State.WAITING_FOR_POD
    assert fake.names("resourceclaims") == [request.object_name]


def test_without_a_rule_nobody_is_asked(cast: Cast, flavor: Flavor) -> None:
    assert asked(cast.owner, flavor, "none").state == State.SUBMITTED


def test_a_rejection_ends_it_and_says_why(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor)
    with pytest.raises(UnableToDecide, match="Say why") as refused:
        decide(cast.lead, request, Verdict.REJECTED)
    assert refused.value.field == "comment"
    decide(cast.lead, request, Verdict.REJECTED, "Use the A100s")
    assert (request.state, request.message) == (State.REJECTED, "Use the A100s")
    with pytest.raises(UnableToDecide, match="no longer waits"):
        decide(cast.admin, request)
    entry = AuditEntry.objects.get(action="request.reject")
    assert (entry.actor, entry.target_id) == (cast.lead, str(request.key))


def test_both_are_two_persons_in_any_order(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor, "both")
    decide(cast.admin, request, comment="There is room")
    assert request.state == State.WAITING_FOR_APPROVAL
    with pytest.raises(PermissionDenied, match="decided already"):
        decide(cast.admin, request)
    decide(cast.lead, request)
    assert request.state == State.APPROVED
    assert sorted(request.decisions.values_list("role", "person")) == [
        ("administrator", cast.admin.pk), ("lead", cast.lead.pk),
    ]  # fmt: skip
    assert AuditEntry.objects.filter(action="request.approve").count() == 2


def test_nobody_decides_about_their_own_unless_the_flavor_says_so(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.lead, flavor)
    with pytest.raises(PermissionDenied, match="of your own"):
        decide(cast.lead, request)
    # An administrator stands in for the lead.
    decide(cast.admin, request)
    assert request.state == State.APPROVED
    Flavor.objects.update(own_approval=True)
    own = asked(cast.lead, flavor)
    decide(cast.lead, own)
    assert own.state == State.APPROVED


@pytest.mark.parametrize(
    ("approval", "who"),
    [
        ("lead", "owner"), ("lead", "teammate"), ("lead", "auditor"), ("lead", "finance"),
        ("administrator", "lead"), ("administrator", "teammate"), ("both", "teammate"),
    ],
)  # fmt: skip
def test_others_do_not_decide(cast: Cast, flavor: Flavor, approval: str, who: str) -> None:
    request = asked(cast.owner, flavor, approval)
    with pytest.raises(PermissionDenied):
        decide(getattr(cast, who), request)
    assert not Decision.objects.exists()
    assert request.state == State.WAITING_FOR_APPROVAL


def test_a_lead_of_another_project_does_not_decide(cast: Cast, flavor: Flavor) -> None:
    Membership.objects.filter(user=cast.stranger).update(role=Membership.Role.LEAD)
    request = asked(cast.owner, flavor)
    with pytest.raises(PermissionDenied):
        decide(cast.stranger, request)
    assert request not in decidable(cast.stranger)


def test_asking_past_the_catalogue_is_no_way_around(cast: Cast, flavor: Flavor, cluster: Cluster) -> None:
    described = {
        **ASK, "flavor": "", "cluster": "main", "device_class": "h100", "count": "1", "shape": "claim",
        "duration": "1",
    }  # fmt: skip
    made = requests.submit(user=cast.owner, values=described, now=NOW)
    assert (made.state, made.approval) == (State.WAITING_FOR_APPROVAL, "lead")
    catalogue.placement(catalogue.flavor("big", approval="administrator"), cluster, device_class="h100")
    made = requests.submit(user=cast.owner, values=described, now=NOW)
    assert made.approval == "both"
    made = requests.submit(user=cast.owner, values={**described, "device_class": "a100"}, now=NOW)
    assert made.state == State.SUBMITTED


def test_a_change_of_the_flavor_does_not_change_what_was_asked(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor, "both")
    Flavor.objects.update(approval="none")
    assert approvals.open_roles(request, []) == ["lead", "administrator"]


def test_it_can_be_cancelled_while_it_waits(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor)
    requests.cancel(request=request, user=cast.owner, now=NOW)
    assert request.state == State.CANCELLED
    with pytest.raises(UnableToDecide):
        decide(cast.lead, request)


def test_nothing_is_approved_for_an_archived_project(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor)
    Project.objects.filter(pk=request.project_id).update(archived_at=NOW)
    request = Request.objects.get(pk=request.pk)
    with pytest.raises(UnableToDecide, match="archived"):
        decide(cast.admin, request)
    decide(cast.admin, request, Verdict.REJECTED, "The project is over")
    assert request.state == State.REJECTED


def test_what_nobody_decides_lapses(cast: Cast, flavor: Flavor, cluster: Cluster) -> None:
    request = asked(cast.owner, flavor)
    advance.advance(cluster=cluster, now=NOW + timedelta(days=6))
    request.refresh_from_db()
    assert request.state == State.WAITING_FOR_APPROVAL
    advance.advance(cluster=cluster, now=NOW + timedelta(days=7))
    request.refresh_from_db()
    assert (request.state, request.reason) == (State.EXPIRED, "not-decided")


# --- the queue --------------------------------------------------------------------------------------


def test_the_queue_tells_what_a_decision_would_mean(
    cast: Cast, flavor: Flavor, cluster: Cluster, prices: PriceBook
) -> None:
    Cluster.objects.update(contacted_at=NOW)
    first = asked(cast.owner, flavor, count="3", duration="10")
    asked(cast.teammate, flavor)
    rows = list(decidable(cast.lead).select_related("project", "cluster", "flavor").order_by("pk"))
    told = queue(rows, user=cast.lead, prices=price_list(), now=NOW)
    assert (told[0].request, told[0].others, told[0].missing) == (first, 1, ["lead"])
    assert told[0].place is not None
    assert (told[0].place.free, told[0].fits) == (2, False)
    # 3 devices for 10 hours at 2.50.
    assert (told[0].cost, told[0].currency) == (Fraction(75), "EUR")
    assert told[1].fits is True
    assert all(row.may_decide for row in told)


def test_the_questions_of_the_queue_are_those_of_deciding(cast: Cast, flavor: Flavor) -> None:
    for approval in ("lead", "administrator", "both"):
        asked(cast.owner, flavor, approval)
        asked(cast.lead, flavor, approval)
    rows = list(Request.objects.select_related("project", "cluster", "flavor"))
    for name in ("owner", "lead", "admin", "auditor"):
        user = getattr(cast, name)
        told = {row.request: row.may_decide for row in queue(rows, user=user, prices=price_list(), now=NOW)}
        assert told == {row: approvals.may_decide(user, row, []) for row in rows}


def test_queries_of_the_queue_do_not_grow(cast: Cast, flavor: Flavor) -> None:
    counts = []
    for _more in range(3):
        asked(cast.owner, flavor)
        rows = list(decidable(cast.lead).select_related("project", "cluster", "flavor", "requester"))
        with CaptureQueriesContext(connection) as asked_for:
            queue(rows, user=cast.lead, prices=price_list(), now=NOW)
        counts.append(len(asked_for))
    assert counts[1] == counts[2], counts


# --- pages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "status"),
    [("lead", 200), ("admin", 200), ("auditor", 200), ("owner", 403), ("stranger", 403), ("finance", 403)],
)
def test_the_queue_is_for_those_who_decide(cast: Cast, flavor: Flavor, who: str, status: int) -> None:
    asked(cast.owner, flavor)
    assert signed_in(getattr(cast, who)).get(reverse("approval-list")).status_code == status


@pytest.mark.parametrize("action", ["approve", "reject"])
@pytest.mark.parametrize(
    ("who", "status"),
    [("owner", 403), ("teammate", 403), ("auditor", 403), ("finance", 403), ("stranger", 404)],
)
def test_only_they_decide(cast: Cast, flavor: Flavor, action: str, who: str, status: int) -> None:
    request = asked(cast.owner, flavor)
    url = reverse(f"request-{action}", args=[request.key])
    assert signed_in(getattr(cast, who)).post(url, {"comment": "x"}).status_code == status
    assert signed_in(cast.lead).get(url).status_code == 405
    request.refresh_from_db()
    assert request.state == State.WAITING_FOR_APPROVAL


def test_deciding_on_the_page(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor)
    client = signed_in(cast.lead)
    html = page(client, reverse("approval-list"))
    assert "Still has to agree" in html
    assert "1 request waits for a decision" in page(client, reverse("request-list"))
    reject, approve = (reverse(f"request-{verb}", args=[request.key]) for verb in ("reject", "approve"))
    response = client.post(reject, {"comment": "  "})
    assert response.status_code == 422
    assert "Say why" in response.content.decode()
    response = client.post(approve, {"comment": "Fine", "back": "request"})
    assert response["Location"] == reverse("request-detail", args=[request.key])
    html = page(client, response["Location"])
    assert "approved by leo (lead of the project)" in html
    assert "Fine" in html
    client.post(approve)
    assert "It no longer waits for a decision" in page(client, reverse("approval-list"))


def test_a_comment_that_is_too_long_stays_typed(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor)
    url = reverse("request-approve", args=[request.key])
    response = signed_in(cast.lead).post(url, {"comment": "x" * 1001})
    assert response.status_code == 422
    assert "x" * 1001 in response.content.decode()


def test_the_page_of_a_request_tells_that_it_waits(cast: Cast, flavor: Flavor) -> None:
    request = asked(cast.owner, flavor)
    url = reverse("request-detail", args=[request.key])
    html = page(signed_in(cast.owner), url)
    assert "Somebody has to approve it" in html
    assert reverse("request-approve", args=[request.key]) not in html
    assert reverse("request-cancel", args=[request.key]) in html
    assert reverse("request-approve", args=[request.key]) in page(signed_in(cast.lead), url)


# --- REST -------------------------------------------------------------------------------------------


def test_deciding_by_rest(cast: Cast, flavor: Flavor, project: Project) -> None:
    request = asked(cast.owner, flavor)
    lead = client_of(cast.lead)
    (row,) = lead.get(reverse("api-approval-list")).json()["results"]
    assert (row["request"]["key"], row["missing"], row["may_decide"]) == (str(request.key), ["lead"], True)
    assert client_of(cast.owner).get(reverse("api-approval-list")).json()["results"] == []
    reject, approve = (reverse(f"api-request-{verb}", args=[request.key]) for verb in ("reject", "approve"))
    answer = lead.post(reject, {}, content_type=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "comment")
    assert client_of(cast.owner).post(approve, {}, content_type=JSON).status_code == 403
    assert client_of(cast.stranger).post(approve, {}, content_type=JSON).status_code == 404
    answer = lead.post(approve, {"comment": "Go"}, content_type=JSON)
    assert (answer.status_code, answer.json()["state"]) == (200, "approved")
    answer = lead.post(approve, {}, content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_now")
