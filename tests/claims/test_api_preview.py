"""REST and pages of node pools that can grow, and the preview over REST."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from claims.models import GrowablePool, PriceBook
from claims.preview.panel import preview
from inventory.models import Cluster
from portal.accounts.models import ApiToken, AuditEntry
from tests.claims.conftest import NOW, Cast
from tests.claims.test_api import JSON, client_of
from tests.claims.test_preview import build

POOL = {
    "cluster": "main", "name": "burst", "labels": {"pool": "burst"}, "max_nodes": 4, "devices": 8,
    "device_class": "h100", "memory": "80Gi", "note": "Ten minutes.",
}  # fmt: skip
FORM = POOL | {"labels": "pool=burst"}


@pytest.fixture
def pool(cluster: Cluster) -> GrowablePool:
    columns = {name: value for name, value in POOL.items() if name != "cluster"}
    return GrowablePool.objects.create(cluster=cluster, changed_at=NOW, **columns)


def test_the_preview_answers_as_the_panel_does(
    cast: Cast, values: dict[str, Any], prices: PriceBook, pool: GrowablePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = build(held=1)
    monkeypatch.setattr("claims.rest.preview.timezone.now", lambda: NOW)
    monkeypatch.setitem(preview.__kwdefaults__, "fleet_of", lambda _cluster: fleet)  # type: ignore[arg-type]
    monkeypatch.setitem(preview.__kwdefaults__, "clock", lambda: 0.0)  # type: ignore[arg-type]
    ask = values | {"count": 2}
    del ask["purpose"]
    answer = client_of(cast.owner).post(reverse("api-request-preview"), ask, content_type=JSON)
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert (told["verdict"], told["feasible"], told["matching"]) == ("busy", False, 2)
    assert {"code": "fewer", "words": "1 instead of 2 would fit now.", "change": {"count": "1"}} in told[
        "suggestions"
    ]
    assert told["growth"][0]["pool"] == "burst"
    assert told["held"] == [{"project": "", "devices": 1, "until": None, "request": None}]
    assert (told["waiting"], told["expected_wait"]["cases"]) == (0, 0)
    assert (told["cost"][0]["amount"], told["cost"][0]["hours"]) == ("360.00", "72")
    # What was left out is no mistake in a question; what is wrong is named.
    assert told["refusals"] == {}
    wrong = client_of(cast.owner).post(reverse("api-request-preview"), ask | {"count": 99}, content_type=JSON)
    assert "count" in wrong.json()["refusals"]


def test_a_question_without_a_cluster_is_answered_with_nothing_known(cast: Cast) -> None:
    client = client_of(cast.owner)
    told = client.post(reverse("api-request-preview"), {}, content_type=JSON).json()
    assert (told["verdict"], told["feasible"], told["matching"]) == ("unknown", None, None)
    assert client.post(reverse("api-request-preview"), [], content_type=JSON).status_code == 400


def test_administrators_say_which_pools_can_grow_over_rest(cast: Cast, cluster: Cluster) -> None:
    client = client_of(cast.admin)
    made = client.post(reverse("api-growable-pool-list"), POOL, content_type=JSON)
    assert made.status_code == 201, made.content
    url = reverse("api-growable-pool-detail", args=[made.json()["id"]])
    assert client.get(url).json()["labels"] == {"pool": "burst"}
    again = client.post(reverse("api-growable-pool-list"), POOL, content_type=JSON)
    assert (again.status_code, again.json()["errors"][0]["field"]) == (400, "name")
    assert client.put(url, POOL | {"max_nodes": 9}, content_type=JSON).json()["max_nodes"] == 9
    assert client.delete(url).status_code == 204
    told = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert told == ["growable-pool.add", "growable-pool.change", "growable-pool.remove"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", ""), ("name", "x" * 64), ("cluster", "nowhere"), ("labels", {}), ("labels", {"a b": "c"})),
        *(("max_nodes", 0), ("max_nodes", 10**9), ("devices", "many"), ("memory", "-1Gi")),
        *(("device_class", ""), ("extended_resource", "gpu"), ("note", "a\0b"), ("name", ["burst"])),
    ],
)
def test_what_cannot_be_is_told_next_to_its_field(
    cast: Cast, cluster: Cluster, field: str, value: Any
) -> None:
    client = client_of(cast.admin)
    answer = client.post(reverse("api-growable-pool-list"), POOL | {field: value}, content_type=JSON)
    assert answer.status_code == 400
    assert field in {error["field"] for error in answer.json()["errors"]}
    assert not GrowablePool.objects.exists()


def test_the_form_keeps_what_was_typed_and_says_what_is_wrong(cast: Cast, cluster: Cluster) -> None:
    client = Client()
    client.force_login(cast.admin)
    answer = client.post(reverse("growable-pool-create"), FORM | {"max_nodes": "0"})
    page = answer.content.decode()
    assert (answer.status_code, "Ten minutes." in page, "A number from 1 to" in page) == (422, True, True)
    assert client.post(reverse("growable-pool-create"), FORM).status_code == 303
    row = GrowablePool.objects.get()
    assert (row.labels, row.changed_by) == ({"pool": "burst"}, cast.admin)
    assert "burst" in client.get(reverse("growable-pool-list")).content.decode()
    assert client.post(reverse("growable-pool-edit", args=[row.pk]), FORM | {"note": ""}).status_code == 303
    assert client.post(reverse("growable-pool-remove", args=[row.pk])).status_code == 303
    assert not GrowablePool.objects.exists()


def test_a_token_needs_the_scope_of_administration(cast: Cast, cluster: Cluster) -> None:
    client = client_of(cast.admin, ApiToken.Scope.INVENTORY)
    assert client.get(reverse("api-growable-pool-list")).status_code == 200
    assert client.post(reverse("api-growable-pool-list"), POOL, content_type=JSON).status_code == 403
