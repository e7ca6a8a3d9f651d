"""REST: the same rules and messages as the pages, tokens with scopes, and a complete description."""

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator

from claims.ledger import storage
from claims.models import PriceBook, Request
from claims.requests import actions as requests
from claims.requests import pursuit
from inventory.models import Cluster, Observation
from portal.accounts.models import ApiToken, User
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, observe

State = Request.State
JSON = "application/json"


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API talks to the cluster in the dictionary."""
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def live(request_: Request, fake: FakeCluster, cluster: Cluster) -> Request:
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request_.refresh_from_db()
    mirror_claim(request_)
    observe(request_, Observation.Kind.CLAIM_ALLOCATED, 0)
    observe(request_, Observation.Kind.CLAIM_RELEASED, 120)
    storage.apply(cluster=cluster)
    return request_


def client_of(user: User, *scopes: str) -> Client:
    _row, token = ApiToken.objects.create(user=user)
    ApiToken.objects.filter(pk=_row.pk).update(scopes=list(scopes or ApiToken.Scope.values))
    return Client(headers={"Authorization": f"Bearer {token}"})


def test_a_request_is_made_read_held_and_released(
    cast: Cast, values: dict[str, Any], fake: FakeCluster
) -> None:
    client = client_of(cast.owner)
    answer = client.post(reverse("api-request-list"), values | {"count": 2, "duration": 3}, content_type=JSON)
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["state"], made["count"], made["duration_hours"]) == ("submitted", 2, 72)
    row = Request.objects.get()
    pursuit.pursue(request_id=row.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    url = reverse("api-request-detail", args=[row.key])
    read = client.get(url).json()
    assert (read["state"], read["devices"], read["claims_total"]) == ("waiting-for-pod", [], 0)
    assert "resourceClaimName" in read["pod_snippet"]
    held = client.post(f"{url}hold/", content_type=JSON)
    assert (held.status_code, held.json()["hold"]) == (200, True)
    assert client.post(f"{url}release/", content_type=JSON).json()["state"] == "ending"
    assert client.post(f"{url}release/", content_type=JSON).status_code == 200
    late = client.post(f"{url}hold/", content_type=JSON)
    assert (late.status_code, late.json()["code"]) == (409, "not_now")
    assert late["Content-Type"] == "application/problem+json"


def test_the_same_key_again_is_the_same_request(cast: Cast, values: dict[str, Any]) -> None:
    client = client_of(cast.owner)
    body = values | {"key": str(uuid.uuid4())}
    answers = [client.post(reverse("api-request-list"), body, content_type=JSON) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json()["key"] == answers[1].json()["key"] == body["key"]


def test_wrong_fields_get_the_forms_messages(cast: Cast, values: dict[str, Any]) -> None:
    wrong = values | {"count": 0, "min_memory": "eighty", "purpose": "x" * 10_000, "shape": None}
    answer = client_of(cast.owner).post(reverse("api-request-list"), wrong, content_type=JSON)
    assert answer.status_code == 400
    said = {error["field"]: error["message"] for error in answer.json()["errors"]}
    assert set(said) == {"count", "min_memory", "purpose", "shape"}
    form = Client()
    form.force_login(cast.owner)
    html = form.post(reverse("request-create"), {**wrong, "shape": ""}).content.decode()
    for message in said.values():
        assert message in html
    assert Request.objects.count() == 0


@pytest.mark.parametrize(
    "body", ["[]", '"text"', "null", "{", '{"count": {"a": 1}, "project": [1], "key": 5}']
)
def test_any_body_gets_an_answer(cast: Cast, cluster: Cluster, body: str) -> None:
    answer = client_of(cast.owner).post(reverse("api-request-list"), body, content_type=JSON)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("who", "read", "change"),
    [
        ("owner", 200, 200), ("admin", 200, 200), ("auditor", 200, 403), ("finance", 403, 403),
        ("stranger", 404, 404),
    ],
)  # fmt: skip
def test_who_may_read_and_change(cast: Cast, live: Request, who: str, read: int, change: int) -> None:
    client = client_of(getattr(cast, who))
    url = reverse("api-request-detail", args=[live.key])
    assert client.get(url).status_code == read
    assert client.post(f"{url}hold/", content_type=JSON).status_code == change
    listed = client.get(reverse("api-request-list")).json()["results"]
    assert bool(listed) is (read == 200)


def test_a_token_without_the_scope_is_refused(cast: Cast, live: Request) -> None:
    client = client_of(cast.owner, "inventory")
    for name in ("api-request-list", "api-allocation-list", "api-charges"):
        assert client.get(reverse(name)).json()["code"] == "scope_missing"
    assert Client().get(reverse("api-charges")).status_code == 401


def test_allocations_tell_strangers_devices_and_projects_only(cast: Cast, live: Request) -> None:
    (own,) = client_of(cast.owner).get(reverse("api-allocation-list")).json()["results"]
    assert (own["claim"], own["person"], own["request"]) == (live.object_name, "rhea", str(live.key))
    (seen,) = client_of(cast.stranger).get(reverse("api-allocation-list")).json()["results"]
    assert (seen["device"], seen["project"]) == ("gpu-0", "protein-folding")
    assert (seen["claim"], seen["person"], seen["request"], seen["consumers"]) == ("", "", None, [])


def test_charges_add_up_and_carry_the_exact_amount(cast: Cast, live: Request, prices: PriceBook) -> None:
    period = {"from": "2026-11-01", "to": "2026-11-30"}
    answer = client_of(cast.owner).get(reverse("api-charge-lines"), period).json()
    (line,) = answer["lines"]
    assert (line["device_hours"], line["price_per_device_hour"], line["amount"]) == (
        "2.000000",
        "2.50",
        "5.00",
    )
    assert (line["exact_numerator"], line["exact_denominator"]) == ("5", "1")
    assert answer["totals"] == [{"currency": "EUR", "amount": "5.00"}]
    stranger = client_of(cast.stranger)
    assert stranger.get(reverse("api-charge-lines"), period).json()["lines"] == []
    assert stranger.get(reverse("api-charge-lines"), {"project": "protein-folding"}).status_code == 404
    assert (
        client_of(cast.finance).get(reverse("api-charge-lines"), period).json()["totals"] == answer["totals"]
    )


@pytest.mark.parametrize("name", ["api-charges", "api-charge-lines", "api-allocation-list"])
def test_a_date_that_cannot_be_read_is_named(cast: Cast, cluster: Cluster, name: str) -> None:
    answer = client_of(cast.owner).get(reverse(name), {"from": "yesterday"})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "from"


def test_queries_of_lists_do_not_grow(
    cast: Cast, live: Request, values: dict[str, Any], fake: FakeCluster, cluster: Cluster
) -> None:
    client = client_of(cast.owner)
    urls = [reverse("api-request-list"), reverse("api-allocation-list"), reverse("api-charge-lines")]

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
        requests.submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
        observe(live, Observation.Kind.CLAIM_ALLOCATED, number, uid=f"more-{number}")
    storage.apply(cluster=cluster)
    assert counts() == few


TAGS = ("requests", "approvals", "changes", "launches", "chargeback")


def test_the_description_is_complete() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # untyped library
    ours = {
        path: methods
        for path, methods in schema["paths"].items()
        if any(part in path for part in ("/requests/", "/allocations/", "/charges/"))
    }
    assert len(ours) == 20
    for methods in ours.values():
        for operation in methods.values():
            assert operation["description"]
            assert operation["tags"] in [[tag] for tag in TAGS]
            # What is read with a scope is changed with that of administrators.
            assert operation["x-scope"] in ("requests", "chargeback", "administration")
