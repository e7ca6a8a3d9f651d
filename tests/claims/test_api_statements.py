"""REST of statements: they say what the pages say, to whom may know."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from claims.models import Adjustment, Dispute, PriceBook
from claims.money import closing
from portal.accounts.models import User
from tests.cast import Cast, make_cast
from tests.claims.money import JANUARY, make_money

URL = "/api/v1/statements/"
FEBRUARY = datetime(2026, 2, 3, tzinfo=UTC)


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


@pytest.fixture
def month(cast: Cast) -> Cast:
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=datetime(2025, 1, 1, tzinfo=UTC))
    make_money(cast, book)
    return cast


def get(user: User, path: str = "", **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(URL + path, headers=headers)


def test_lines_add_up_to_the_total_that_the_list_says(month: Cast) -> None:
    listed = get(month.finance, "?month=2026-01").json()["results"]
    (mine,) = [row for row in listed if row["project"] == "tides"]
    told = get(month.lead, "2026-01/of/tides/").json()
    assert (told["state"], told["digest"], mine["state"]) == ("review", "", "review")
    assert told["totals"] == mine["totals"]
    assert sum(Decimal(line["amount"]) for line in told["lines"]) == Decimal(told["totals"][0]["amount"])


def test_a_closed_statement_has_its_digest_and_is_not_sent_twice(month: Cast) -> None:
    Dispute.objects.update(state=Dispute.State.WITHDRAWN)
    Adjustment.objects.all().delete()
    row = closing.close(
        project=month.project, month=JANUARY, zone=UTC, actor=month.finance, now=FEBRUARY, rated=True
    )
    first = get(month.lead, "2026-01/of/tides/")
    assert (first.json()["state"], first.json()["digest"]) == ("closed", row.digest)
    assert get(month.lead, "2026-01/of/tides/", **{"if-none-match": first["ETag"]}).status_code == 304


def test_finance_sees_all_and_leads_theirs(month: Cast) -> None:
    everybody = [row["project"] for row in get(month.finance, "?month=2026-01").json()["results"]]
    assert {"tides", "glaciers", None} <= set(everybody)
    mine = [row["project"] for row in get(month.lead, "?month=2026-01").json()["results"]]
    assert mine == ["tides"]
    assert get(month.stranger, "2026-01/of/tides/").status_code == 404
    assert get(month.lead, "2026-01/unattributed/").status_code == 403
    assert get(month.finance, "2026-01/unattributed/").json()["project"] is None


@pytest.mark.parametrize("path", ["?month=2026-13", "x/of/tides/", "9999-01/of/tides/"])
def test_what_is_no_month_is_named(month: Cast, path: str) -> None:
    answer = get(month.lead, path)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "month")
