"""REST of budgets, of statements' course, adjustments and disputes: what the pages do, for programs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from claims.models import Adjustment, Budget, Charge, Dispute, PriceBook, Statement
from claims.money import closing
from claims.money.budgets import set_budget
from portal.accounts.models import AuditEntry, User
from tests.cast import NOW, Cast, make_cast
from tests.claims.money import make_money, source

API = "/api/v1/"


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


@pytest.fixture
def month(cast: Cast) -> Cast:
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=datetime(2025, 1, 1, tzinfo=UTC))
    make_money(cast, book)
    return cast


@pytest.fixture
def rated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The charges are not those of a ledger: rated again, they would go."""
    monkeypatch.setattr(closing, "rate_month", lambda **_options: None)
    monkeypatch.setattr(closing, "rate_idle", lambda **_options: None)


def call(user: User, method: str, path: str, body: Any = None) -> Any:
    client = Client()
    client.force_login(user)
    sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    return getattr(client, method)(API + path, **sent)


def test_a_lead_sets_a_budget_and_anybody_of_the_project_reads_it(month: Cast) -> None:
    answer = call(month.lead, "put", "budgets/tides/EUR/", {"amount": "750.50", "thresholds": [90, 50]})
    assert answer.status_code == 200
    (row,) = answer.json()["budgets"]
    assert (row["amount"], row["thresholds"], row["blocks"], row["percent"]) == ("750.50", [50, 90], False, 0)
    assert call(month.member, "get", "budgets/tides/").json() == answer.json()
    assert call(month.finance, "get", "budgets/").json()["results"] == [row]
    assert call(month.stranger, "get", "budgets/").json()["results"] == []
    assert call(month.member, "put", "budgets/tides/EUR/", {"amount": "1"}).status_code == 403
    assert call(month.lead, "delete", "budgets/tides/EUR/").status_code == 204
    assert not Budget.objects.exists()
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")][-2:] == [
        "budget.set",
        "budget.remove",
    ]


@pytest.mark.parametrize(
    ("currency", "body", "field"),
    [
        ("EUR", {"amount": "0"}, "amount"), ("EUR", {"amount": "1.001"}, "amount"),
        ("EUR", {"amount": "NaN"}, "amount"), ("EUR", {"amount": "1e30"}, "amount"),
        ("EUR", {}, "amount"), ("EUR", {"amount": "5", "thresholds": [0]}, "thresholds.0"),
        ("eur", {"amount": "5"}, "amount"), ("EUR", {"amount": "5", "thresholds": [1] * 11}, "thresholds"),
    ],
)  # fmt: skip
def test_a_budget_that_cannot_be_kept_is_named(month: Cast, currency: str, body: Any, field: str) -> None:
    before = list(Budget.objects.values())
    answer = call(month.lead, "put", f"budgets/tides/{currency}/", body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert list(Budget.objects.values()) == before


def test_more_budgets_are_no_more_queries(month: Cast) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert call(month.finance, "get", "budgets/").status_code == 200
        return len(seen)

    count()
    before = count()
    for project, currency in ((month.other, "EUR"), (month.other, "CHF"), (month.project, "USD")):
        set_budget(
            project=project, currency=currency, minor=100, thresholds=[], blocks=False,
            actor=month.lead, now=NOW,
        )  # fmt: skip
    assert count() == before


def test_a_month_goes_its_course_to_closed(month: Cast, rated: None) -> None:
    path = "statements/2026-01/of/tides/move/"
    refused = call(month.finance, "post", path, {"action": "close"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_moved")
    dispute = Dispute.objects.get()
    said = call(
        month.finance, "post", f"disputes/{dispute.pk}/", {"text": "You had it.", "state": "rejected"}
    )
    assert [entry["state"] for entry in said.json()["entries"]] == ["open", "rejected"]
    credit = Adjustment.objects.get()
    assert (
        call(month.finance, "post", f"adjustments/{credit.pk}/decide/", {"approve": False}).status_code == 200
    )
    told = call(month.finance, "post", path, {"action": "close"}).json()
    row = Statement.objects.get(project=month.project)
    assert told == {"project": "tides", "month": "2026-01", "state": "closed", "digest": row.digest}
    assert call(month.finance, "post", path, {"action": "reopen"}).status_code == 409


def test_all_of_a_month_at_once(month: Cast, rated: None) -> None:
    told = call(month.finance, "post", "statements/2026-01/move/", {"action": "review"}).json()
    assert told == {"moved": 2, "refused": []}
    told = call(month.finance, "post", "statements/2026-01/move/", {"action": "close"}).json()
    assert told["moved"] == 2
    assert [row["project"] for row in told["refused"]] == ["tides"]


def test_a_credit_note_counts_once_a_second_person_has_agreed(month: Cast) -> None:
    body = {"project": "tides", "month": "2026-01", "amount": "-12.50", "currency": "EUR", "reason": "Fire",
            "refers_to": "2026-01"}  # fmt: skip
    made = call(month.finance, "post", "adjustments/", body).json()
    assert (made["amount"], made["state"], made["refers_to"]) == ("-12.50", "proposed", "2026-01")
    path = f"adjustments/{made['id']}/decide/"
    assert call(month.finance, "post", path, {"approve": True}).status_code == 409
    done = call(month.administrator, "post", path, {"approve": True, "note": "yes"}).json()
    assert (done["state"], done["decided_by"]) == ("approved", month.administrator.username)
    assert Charge.objects.get(kind="credit").note == "Fire"
    listed = call(month.lead, "get", "adjustments/?project=tides").json()["results"]
    assert listed[0]["id"] == made["id"]
    assert call(month.stranger, "get", "adjustments/").json()["results"] == []
    assert call(month.stranger, "get", "adjustments/?project=tides").status_code == 404


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"month": "2026-13"}, "month"), ({"amount": "1.001"}, "amount"), ({"amount": "x"}, "amount"),
        ({"currency": "E"}, "amount"), ({"refers_to": "2019-01"}, "refers_to"),
        ({"reason": "a\u202eb"}, "reason"), ({"reason": ""}, "reason"),
    ],
)  # fmt: skip
def test_an_adjustment_that_cannot_be_read_is_named(month: Cast, changed: Any, field: str) -> None:
    body = {"project": "tides", "month": "2026-01", "amount": "5", "currency": "EUR", "reason": "Fire"}
    answer = call(month.finance, "post", "adjustments/", body | changed)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert Adjustment.objects.count() == 1


def test_leads_dispute_and_withdraw_and_finance_decides(month: Cast) -> None:
    charge = Charge.objects.get(source=source(1))
    made = call(month.lead, "post", f"charges/{charge.pk}/dispute/", {"text": "Not ours"}).json()
    again = call(month.lead, "post", f"charges/{charge.pk}/dispute/", {"text": "Not ours"})
    assert again.status_code == 409
    path = f"disputes/{made['id']}/"
    assert call(month.lead, "post", path, {"text": "x", "state": "accepted"}).status_code == 403
    assert call(month.finance, "post", path, {"text": "x", "state": "withdrawn"}).status_code == 403
    assert call(month.lead, "post", path, {"text": "Ours after all", "state": "withdrawn"}).status_code == 200
    assert call(month.finance, "post", path, {"text": "late"}).status_code == 409
    assert call(month.stranger, "get", path).status_code == 404
    told = call(month.member, "get", path).json()
    assert (told["state"], told["charge"], len(told["entries"])) == ("withdrawn", charge.pk, 2)
