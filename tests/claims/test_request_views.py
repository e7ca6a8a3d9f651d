"""Pages of requests: who sees and does what, and what stays typed when something is wrong."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.models import PriceBook, Request
from claims.requests import actions as requests
from claims.requests import pursuit
from inventory.models import Cluster, Stream
from portal.accounts.models import Project, User
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod

State = Request.State
HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views talk to the cluster in the dictionary."""
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def live(request_: Request, fake: FakeCluster) -> Request:
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request_.refresh_from_db()
    mirror_claim(request_)
    return request_


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, url: str, **extra: Any) -> str:
    response = client.get(url, **extra)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


# --- who may --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "status"),
    [
        ("owner", 200), ("teammate", 200), ("lead", 200), ("admin", 200), ("auditor", 200),
        ("stranger", 404), ("finance", 403),
    ],
)  # fmt: skip
def test_the_page_of_a_request_is_for_its_project(cast: Cast, live: Request, who: str, status: int) -> None:
    client = signed_in(getattr(cast, who))
    assert client.get(reverse("request-detail", args=[live.key])).status_code == status


@pytest.mark.parametrize("action", ["hold", "release", "cancel", "retry"])
@pytest.mark.parametrize(("who", "status"), [("stranger", 404), ("finance", 403), ("auditor", 403)])
def test_only_those_who_work_in_the_project_change_it(
    cast: Cast, live: Request, action: str, who: str, status: int
) -> None:
    client = signed_in(getattr(cast, who))
    assert client.post(reverse(f"request-{action}", args=[live.key])).status_code == status
    live.refresh_from_db()
    assert (live.state, live.hold_wanted) == (State.WAITING_FOR_POD, False)


def test_a_request_of_an_archived_project_can_only_be_ended(cast: Cast, live: Request) -> None:
    Project.objects.filter(pk=live.project_id).update(archived_at=NOW)
    client = signed_in(cast.owner)
    html = page(client, reverse("request-detail", args=[live.key]))
    assert "Hold the device now" not in html
    assert client.post(reverse("request-hold", args=[live.key])).status_code == 403
    assert client.post(reverse("request-release", args=[live.key])).status_code == 303
    live.refresh_from_db()
    assert live.state == State.ENDING


def test_nobody_changes_anything_by_get(cast: Cast, live: Request) -> None:
    client = signed_in(cast.owner)
    for action in ("hold", "retry"):
        assert client.get(reverse(f"request-{action}", args=[live.key])).status_code == 405
    for action in ("release", "cancel"):
        assert client.get(reverse(f"request-{action}", args=[live.key])).status_code == 200
    live.refresh_from_db()
    assert live.state == State.WAITING_FOR_POD


def test_a_change_needs_the_csrf_token(cast: Cast, live: Request) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.owner)
    assert client.post(reverse("request-release", args=[live.key])).status_code == 403


def test_somebody_who_is_not_signed_in_is_sent_to_the_entrance(live: Request) -> None:
    response = Client().get(reverse("request-detail", args=[live.key]))
    assert response.status_code == 302
    assert "/accounts/login/" in response["Location"]


def test_a_key_that_does_not_exist_is_not_found(cast: Cast) -> None:
    assert signed_in(cast.admin).get(reverse("request-detail", args=[uuid.uuid4()])).status_code == 404


# --- the form -------------------------------------------------------------------------------------


def test_the_form_proposes_what_is_likely(cast: Cast, cluster: Cluster) -> None:
    html = page(signed_in(cast.owner), reverse("request-create") + "?device_class=h100")
    assert '<option value="protein-folding" selected>' in html
    assert '<option value="h100" selected>' in html
    assert "Weather models" not in html


def test_a_good_form_leads_to_the_page_of_the_request(cast: Cast, values: dict[str, Any]) -> None:
    response = signed_in(cast.owner).post(reverse("request-create"), values)
    made = Request.objects.get()
    assert response.status_code == 303
    assert response["Location"] == reverse("request-detail", args=[made.key])


def test_a_form_sent_twice_makes_one_request(cast: Cast, values: dict[str, Any]) -> None:
    client = signed_in(cast.owner)
    typed = values | {"key": str(uuid.uuid4())}
    answers = [client.post(reverse("request-create"), typed)["Location"] for _ in range(2)]
    assert page(client, answers[0]).count("This form was sent before") == 1
    assert answers[0] == answers[1]
    assert Request.objects.count() == 1


def test_everything_typed_stays_and_messages_stand_next_to_their_fields(
    cast: Cast, values: dict[str, Any]
) -> None:
    typed = values | {"count": "0", "min_memory": "eighty", "purpose": "Folding <b>now</b>"}
    response = signed_in(cast.owner).post(reverse("request-create"), typed)
    html = response.content.decode()
    assert response.status_code == 422
    assert 'id="id_count_error"' in html
    assert "“eighty” is not an amount of memory" in html
    assert 'value="eighty"' in html
    assert "Folding &lt;b&gt;now&lt;/b&gt;" in html
    assert '<option value="h100" selected>' in html
    assert Request.objects.count() == 0


def test_a_class_that_is_gone_stays_visible_in_its_field(cast: Cast, values: dict[str, Any]) -> None:
    response = signed_in(cast.owner).post(reverse("request-create"), values | {"device_class": "gone"})
    html = response.content.decode()
    assert '<option value="gone" selected>' in html
    assert "no DeviceClass “gone”" in html


def test_a_purpose_of_ten_thousand_characters_is_kept_and_named(cast: Cast, values: dict[str, Any]) -> None:
    response = signed_in(cast.owner).post(reverse("request-create"), values | {"purpose": "x" * 10_000})
    html = response.content.decode()
    assert "this has 10000" in html
    assert "x" * 10_000 in html


def test_another_cluster_draws_only_the_choices_anew(cast: Cast, cluster: Cluster) -> None:
    html = page(signed_in(cast.owner), reverse("request-create") + "?cluster=main", **HTMX)
    assert 'id="request-choices"' in html
    assert "<html" not in html


def test_somebody_without_a_project_is_told_the_way_out(cast: Cast, cluster: Cluster) -> None:
    cast.stranger.memberships.all().delete()
    html = page(signed_in(cast.stranger), reverse("request-create"))
    assert "You are in no project yet" in html


@pytest.mark.parametrize("form", ["request-create", "booking-create"])
def test_somebody_whose_project_is_archived_is_told_so_and_who_restores_it(
    cast: Cast, cluster: Cluster, form: str
) -> None:
    Project.objects.update(archived_at=NOW)
    html = page(signed_in(cast.stranger), reverse(form))
    assert "Your project Weather models is archived" in html
    assert "A platform administrator can restore it" in html
    assert reverse("project-detail", args=["weather-models"]) in html
    assert "no project yet" not in html


# --- the live panel -------------------------------------------------------------------------------


def test_the_panel_tells_what_matches_and_what_it_costs(
    cast: Cast, values: dict[str, Any], prices: PriceBook
) -> None:
    Stream.objects.update(heard_at=timezone.now())
    Cluster.objects.update(contacted_at=timezone.now())
    html = page(signed_in(cast.owner), reverse("request-preview"), data=values | {"count": "2"})
    text = " ".join(html.split())
    assert "2 devices × 72 h × 2.50 EUR = <strong>€360.00</strong>" in text


def test_the_panel_does_not_tell_the_past_as_the_present(cast: Cast, values: dict[str, Any]) -> None:
    html = page(signed_in(cast.owner), reverse("request-preview"), data=values)
    assert "not in step" in html
    assert "unknown" in html


@pytest.mark.parametrize(
    "typed",
    [
        {}, {"count": "x"}, {"device_class": "gone"}, {"min_memory": "eighty"}, {"project": "weather-models"},
        {"duration": "9" * 40}, {"cluster": "\x00"},
    ],
)  # fmt: skip
def test_the_panel_bears_anything(cast: Cast, values: dict[str, Any], typed: dict[str, str]) -> None:
    assert page(signed_in(cast.owner), reverse("request-preview"), data=values | typed)


# --- the page of a request ------------------------------------------------------------------------


def test_the_page_says_what_to_do_and_offers_it(cast: Cast, live: Request) -> None:
    html = page(signed_in(cast.owner), reverse("request-detail", args=[live.key]))
    assert "waits for a Pod" in html
    assert "Hold the device now" in html
    assert f"resourceClaimName: {live.object_name}" in html
    assert "created on the cluster" in html


def test_a_reader_is_offered_no_buttons(cast: Cast, live: Request) -> None:
    html = page(signed_in(cast.auditor), reverse("request-detail", args=[live.key]))
    assert "Hold the device now" not in html


def test_the_polled_part_is_only_sent_when_it_changed(cast: Cast, live: Request) -> None:
    client = signed_in(cast.owner)
    url = reverse("request-detail", args=[live.key])
    first = client.get(url, **HTMX)  # type: ignore[arg-type]  # headers
    html = first.content.decode()
    assert "<html" not in html
    seen = html.split("?seen=")[1].split('"')[0]
    assert client.get(url, {"seen": seen}, **HTMX).status_code == 204  # type: ignore[arg-type]  # headers
    mirror_pod(live)
    assert client.get(url, {"seen": seen}, **HTMX).status_code == 200  # type: ignore[arg-type]  # headers


def test_polling_stops_when_the_state_is_final(cast: Cast, request_: Request) -> None:
    requests.cancel(request=request_, user=cast.owner, now=NOW)
    client = signed_in(cast.owner)
    url = reverse("request-detail", args=[request_.key])
    assert client.get(url, **HTMX).status_code == 286  # type: ignore[arg-type]  # headers
    assert "hx-get" not in page(client, url).split('id="request-status"')[1].split(">")[0]


def test_release_names_the_pods_that_go_on_costing(cast: Cast, live: Request) -> None:
    pod = mirror_pod(live, node="node-h100")
    mirror_claim(live, consumers=(pod.uid,))
    Request.objects.filter(pk=live.pk).update(state=State.IN_USE)
    client = signed_in(cast.owner)
    html = page(client, reverse("request-release", args=[live.key]))
    assert "These Pods still use it: work" in html
    assert client.post(reverse("request-release", args=[live.key])).status_code == 303
    html = page(client, reverse("request-detail", args=[live.key]))
    assert "it still costs" in html
    assert "never deletes your Pods" in html


def test_what_is_not_possible_now_is_said_on_the_page(cast: Cast, request_: Request) -> None:
    client = signed_in(cast.owner)
    assert client.post(reverse("request-hold", args=[request_.key])).status_code == 303
    html = page(client, reverse("request-detail", args=[request_.key]))
    assert "That is not possible while the request is “submitted”" in html


def test_a_claims_device_and_node_are_shown(cast: Cast, live: Request) -> None:
    mirror_claim(live, consumers=(mirror_pod(live, "hold", node="node-h100").uid,))
    Request.objects.filter(pk=live.pk).update(state=State.ALLOCATED, hold_wanted=True)
    html = page(signed_in(cast.owner), reverse("request-detail", args=[live.key]))
    assert "gpu-0" in html
    assert "node-h100" in html
    assert "the desk's hold" in html


# --- the list -------------------------------------------------------------------------------------


def test_the_list_shows_the_readers_projects_only(cast: Cast, request_: Request) -> None:
    url = reverse("request-list")
    for who in ("owner", "teammate", "lead", "admin", "auditor"):
        assert request_.object_name in page(signed_in(getattr(cast, who)), url)
    for who in ("stranger", "finance"):
        assert request_.object_name not in page(signed_in(getattr(cast, who)), url)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=active", True), ("state=submitted", True), ("state=over", False), ("state=nonsense", False),
        ("q=MARCH", True), ("q=nothing", False), ("project=protein-folding", True), ("project=x", False),
        ("mine=1", True), ("q=%00&page=999999", True), ("page=x", True),
    ],
)  # fmt: skip
def test_the_list_is_narrowed_by_its_address(cast: Cast, request_: Request, query: str, found: bool) -> None:
    html = page(signed_in(cast.owner), f"{reverse('request-list')}?{query}")
    assert (request_.object_name in html) is found


def test_queries_of_list_and_page_do_not_grow(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, live: Request
) -> None:
    client = signed_in(cast.owner)
    urls = [reverse("request-list"), reverse("request-detail", args=[live.key])]

    def counts() -> list[int]:
        found = []
        for url in urls:
            client.get(url)
            with CaptureQueriesContext(connection) as seen:
                client.get(url)
            found.append(len(seen))
        return found

    few = counts()
    for number in range(10):
        made = requests.submit(
            user=cast.owner, values=values, now=NOW + timedelta(minutes=number), connect=lambda _cluster: fake
        )
        mirror_pod(live, f"work-{number}", node="node-h100")
        assert made.pk
    assert counts() == few
    assert max(few) <= 26
