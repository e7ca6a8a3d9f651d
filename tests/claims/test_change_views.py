"""Pages and REST of changes: who does what, what stays typed, and what the queue and the request tell."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.changes import changing as changes
from claims.changes import decisions as change_decisions
from claims.models import Flavor, Placement, Request, RequestChange
from claims.requests import actions as requests
from inventory.models import Cluster
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import JSON, client_of
from tests.claims.test_changes import serve
from tests.claims.test_request_views import page, signed_in

State = RequestChange.State
MORE = {"duration": "5", "duration_unit": "days", "reason": "It takes longer"}


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views talk to the cluster in the dictionary."""
    for act in (requests.submit, changes.ask, change_decisions.accept):
        monkeypatch.setitem(act.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def held(request_: Request, fake: FakeCluster) -> Request:
    """Views have no other clock than the real one."""
    held = serve(request_, fake)
    held.allocated_at = timezone.now()
    held.expires_at = held.allocated_at + held.duration
    held.save()
    return held


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    """More of the class needs a lead's approval from now on."""
    made = Flavor.objects.create(
        slug="h100", name="H100", approval=Flavor.Approval.LEAD, created_at=NOW, changed_at=NOW,
        min_duration=timedelta(hours=1), default_duration=timedelta(days=1), max_duration=timedelta(days=30),
    )  # fmt: skip
    Placement.objects.create(flavor=made, cluster=cluster, device_class="h100")
    return made


@pytest.fixture
def waiting(held: Request, cast: Cast, flavor: Flavor) -> RequestChange:
    return changes.ask(request=held, user=cast.owner, values=MORE, now=NOW)


def test_the_form_shows_what_is_and_the_panel_what_would_be(held: Request, cast: Cast) -> None:
    url = reverse("request-change", args=[held.key])
    client = signed_in(cast.owner)
    text = page(client, url)
    assert 'id="change-preview"' in text
    assert 'name="duration" value="3"' in text
    assert "matching devices" in text or "free" in text


def test_what_is_wrong_is_told_and_what_was_typed_stays(held: Request, cast: Cast) -> None:
    answer = signed_in(cast.owner).post(
        reverse("request-change", args=[held.key]), {"duration": "soon", "reason": "So and so"}
    )
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "is not a whole number" in text
    assert "So and so" in text


def test_a_change_is_asked_for_decided_and_told(held: Request, cast: Cast, flavor: Flavor) -> None:
    owner, lead = signed_in(cast.owner), signed_in(cast.lead)
    answer = owner.post(reverse("request-change", args=[held.key]), MORE)
    assert answer.status_code == 303
    change = RequestChange.objects.get()
    text = page(owner, reverse("request-detail", args=[held.key]))
    assert "It takes longer" in text
    assert "Withdraw the change" in text
    queue = page(lead, reverse("approval-list"))
    assert reverse("change-approve", args=[change.key]) in queue
    refused = lead.post(reverse("change-reject", args=[change.key]), {"comment": ""})
    assert (refused.status_code, "Say why" in refused.content.decode()) == (422, True)
    assert lead.post(reverse("change-approve", args=[change.key]), {}).status_code == 303
    held.refresh_from_db()
    assert held.duration == timedelta(days=5)


def test_a_condition_that_makes_no_sense_stays_typed(waiting: RequestChange, cast: Cast) -> None:
    answer = signed_in(cast.lead).post(
        reverse("change-approve", args=[waiting.key]), {"duration": "9", "duration_unit": "days"}
    )
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "less than was asked for" in text
    assert 'value="9"' in text


def test_only_who_asked_accepts_a_condition(waiting: RequestChange, cast: Cast) -> None:
    lead = signed_in(cast.lead)
    lead.post(reverse("change-approve", args=[waiting.key]), {"duration": "4", "duration_unit": "days"})
    accept = reverse("change-accept", args=[waiting.key])
    assert lead.post(accept).status_code == 403
    assert signed_in(cast.stranger).post(accept).status_code == 404
    owner = signed_in(cast.owner)
    assert "Accept the condition" in page(owner, reverse("request-detail", args=[waiting.request.key]))
    assert owner.post(accept).status_code == 303
    waiting.refresh_from_db()
    assert (waiting.state, waiting.wanted) == (State.APPLIED, {"duration_hours": 96})


def test_a_request_is_approved_on_a_condition_on_its_page(
    cast: Cast, values: dict[str, Any], flavor: Flavor
) -> None:
    made = requests.submit(user=cast.owner, values=values, now=NOW)
    offer = reverse("request-offer", args=[made.key])
    lead = signed_in(cast.lead)
    assert offer in page(lead, reverse("request-detail", args=[made.key]))
    assert lead.post(offer, {"duration": "1", "duration_unit": "days", "comment": "A day"}).status_code == 303
    text = page(signed_in(cast.owner), reverse("request-detail", args=[made.key]))
    assert "Accept the condition" in text
    assert "Withdraw the request" in text


def test_the_same_by_rest(held: Request, cast: Cast, flavor: Flavor) -> None:
    owner, lead = client_of(cast.owner), client_of(cast.lead)
    url = reverse("api-request-changes", args=[held.key])
    refused = owner.post(url, {"duration": 4, "reason": ""}, content_type=JSON)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "reason"
    asked = owner.post(url, {"duration": 96, "reason": "longer"}, content_type=JSON)
    assert (asked.status_code, asked.json()["state"]) == (201, "waiting")
    assert [row["key"] for row in lead.get(reverse("api-change-list")).json()["results"]] == [
        asked.json()["key"]
    ]
    approve = reverse("api-change-approve", args=[asked.json()["key"]])
    assert owner.post(approve, {}, content_type=JSON).status_code == 403
    assert lead.post(approve, {}, content_type=JSON).json()["state"] == "applied"
    assert lead.post(approve, {}, content_type=JSON).status_code == 409
    assert owner.get(url).json()[0]["decisions"][0]["person"] == "leo"
