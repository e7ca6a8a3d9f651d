"""Drafts: kept as they were typed, seen by their owner alone, gone once they are sent."""

import uuid
from typing import Any

import pytest
from django.urls import reverse

from claims.asks import drafts
from claims.asks.drafts import MAX_OF_A_PERSON, UnableToKeep
from claims.asks.reading import WHOLE
from claims.models import Draft, Request
from claims.requests import actions as requests
from portal.accounts.models import AuditEntry
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import JSON, client_of
from tests.claims.test_request_views import page, signed_in

TYPED = {"count": "many", "purpose": "Folding", "expression": "not ( CEL"}


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


def test_a_draft_is_kept_as_it_was_typed_right_or_not(cast: Cast, values: dict[str, Any]) -> None:
    key = str(uuid.uuid4())
    owner = signed_in(cast.owner)
    for count in ("many", "3"):
        answer = owner.post(reverse("draft-keep"), {**TYPED, "count": count, "key": key})
        assert answer.status_code == 303
    draft = Draft.objects.get()
    assert (str(draft.key), draft.values["count"], draft.values["purpose"]) == (key, "3", "Folding")
    text = page(owner, reverse("request-create") + f"?draft={key}")
    assert f'name="key" value="{key}"' in text
    assert "Folding" in text


def test_sent_it_is_a_request_with_its_key_and_no_draft(cast: Cast, values: dict[str, Any]) -> None:
    draft = drafts.keep(user=cast.owner, values=values, now=NOW)
    made = requests.submit(user=cast.owner, values=draft.values, key=str(draft.key), now=NOW)
    assert made.key == draft.key
    assert not Draft.objects.exists()
    with pytest.raises(UnableToKeep) as taken:
        drafts.keep(user=cast.owner, values=values, key=draft.key, now=NOW)
    assert "taken" in taken.value.errors["key"][0]


def test_what_names_no_flavor_is_listed_too(cast: Cast) -> None:
    drafts.keep(user=cast.owner, values={**TYPED, "flavor": "", "project": ""}, now=NOW)
    Draft.objects.update(values={"purpose": "Folding"})
    assert "Folding" in page(signed_in(cast.owner), reverse("draft-list"))


def test_nobody_else_finds_it(cast: Cast) -> None:
    draft = drafts.keep(user=cast.owner, values=TYPED, now=NOW)
    for user in (cast.teammate, cast.lead, cast.admin, cast.auditor, cast.stranger):
        client = signed_in(user)
        assert client.get(reverse("draft-delete", args=[draft.key])).status_code == 404
        assert "Folding" not in page(client, reverse("draft-list"))
        with pytest.raises(UnableToKeep):
            drafts.keep(user=user, values=TYPED, key=draft.key, now=NOW)


def test_it_can_be_deleted(cast: Cast) -> None:
    draft = drafts.keep(user=cast.owner, values=TYPED, now=NOW)
    owner = signed_in(cast.owner)
    delete = reverse("draft-delete", args=[draft.key])
    assert "What you typed is lost" in page(owner, delete)
    assert owner.post(delete).status_code == 303
    assert not Draft.objects.exists()
    assert AuditEntry.objects.filter(action__startswith="draft.").count() == 2


@pytest.mark.parametrize(
    ("typed", "field"),
    [({"purpose": "a\x00b"}, "purpose"), ({"expression": "x" * 12_001}, "expression")],
)
def test_what_no_field_takes_is_told(cast: Cast, typed: dict[str, str], field: str) -> None:
    with pytest.raises(UnableToKeep) as refused:
        drafts.keep(user=cast.owner, values=typed, now=NOW)
    assert list(refused.value.errors) == [field]


def test_their_number_is_bounded(cast: Cast) -> None:
    for _ in range(MAX_OF_A_PERSON):
        drafts.keep(user=cast.owner, values=TYPED, now=NOW)
    with pytest.raises(UnableToKeep) as refused:
        drafts.keep(user=cast.owner, values=TYPED, now=NOW)
    assert WHOLE in refused.value.errors


def test_the_same_by_rest(cast: Cast, values: dict[str, Any]) -> None:
    owner = client_of(cast.owner)
    made = owner.post(reverse("api-draft-list"), {"values": TYPED}, content_type=JSON)
    assert made.status_code == 201
    url = reverse("api-draft-detail", args=[made.json()["key"]])
    changed = owner.put(url, {"values": values}, content_type=JSON)
    assert changed.json()["values"]["purpose"] == values["purpose"]
    assert owner.put(url, {"values": "none"}, content_type=JSON).status_code == 400
    sent = owner.post(reverse("api-request-list"), {**values, "key": made.json()["key"]}, content_type=JSON)
    assert sent.status_code == 201
    assert owner.get(url).status_code == 404
    assert Request.objects.get().key == uuid.UUID(made.json()["key"])
