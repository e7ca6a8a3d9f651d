"""The export as FOCUS over REST and on its page: for whom, in which form, and not twice."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.test import Client

from claims.focus import rules
from claims.models import Adjustment, Dispute, PriceBook
from claims.money import closing
from portal.accounts.models import ApiToken, User
from tests.cast import Cast, make_cast
from tests.claims.money import JANUARY, make_money

API, PAGE, FILE = "/api/v1/focus/", "/focus/", "/focus/file/"
PERIOD = "period=2026-01"


@pytest.fixture
def month(db: None) -> Cast:
    """A closed January of one project."""
    cast = make_cast()
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=datetime(2025, 1, 1, tzinfo=UTC))
    make_money(cast, book)
    Dispute.objects.update(state=Dispute.State.WITHDRAWN)
    Adjustment.objects.all().delete()
    closing.close(
        project=cast.project, month=JANUARY, zone=UTC, actor=cast.finance, rated=True,
        now=datetime(2026, 2, 3, tzinfo=UTC),
    )  # fmt: skip
    return cast


def get(user: User, url: str, query: str = PERIOD, **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(f"{url}?{query}", headers=headers)


def content(answer: Any) -> bytes:
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content)


def test_a_file_is_as_its_metadata_say(month: Cast) -> None:
    told = get(month.finance, API).json()
    answer = get(month.finance, API, f"{PERIOD}&format=csv")
    assert answer["Content-Disposition"] == 'attachment; filename="focus-1.4-2026-01.csv"'
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(content(answer).decode(), newline="")))
    assert len(rows) == told["x_Rows"] == 6
    assert list(rows[0]) == [one["ColumnName"] for one in told["Schema"][0]["ColumnDefinition"]]
    (invoice,) = told["x_Invoices"]
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal(invoice["BilledCost"])
    assert {row["InvoiceId"] for row in rows} == {invoice["InvoiceId"]} == {"2026-01-tides-EUR"}
    assert told["Recency"][0]["DatasetInstanceComplete"] is True


def test_parquet_is_streamed_in_the_version_that_is_asked_for(month: Cast) -> None:
    answer = get(month.finance, API, f"{PERIOD}&version=1.2", accept="application/vnd.apache.parquet")
    assert answer["Content-Type"] == "application/vnd.apache.parquet"
    table = pq.read_table(io.BytesIO(content(answer)))
    assert table.num_rows == 6
    names = table.schema.names
    assert "ProviderName" in names
    assert "HostProviderName" not in names
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert list(rules.check(rows, names, version="1.2", written=False)) == []


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_what_is_known_is_not_sent_again(month: Cast, form: str) -> None:
    first = get(month.finance, API, f"{PERIOD}&format={form}")
    again = get(month.finance, API, f"{PERIOD}&format={form}", **{"if-none-match": first["ETag"]})
    assert (again.status_code, again["ETag"]) == (304, first["ETag"])
    month.project.name = "Tides and waves"
    month.project.save()
    new = get(month.finance, API, f"{PERIOD}&format={form}", **{"if-none-match": first["ETag"]})
    assert new.status_code == 200


def test_everybody_gets_what_they_may_see(month: Cast) -> None:
    assert get(month.lead, API).json()["x_Rows"] == 6
    assert get(month.stranger, API).json()["x_Rows"] == 0
    assert get(month.stranger, API, f"{PERIOD}&project=tides").status_code == 404
    assert get(month.lead, API, f"{PERIOD}&project=unattributed").status_code == 404
    assert get(month.stranger, FILE, f"{PERIOD}&project=tides").status_code == 404
    assert len(content(get(month.stranger, FILE)).splitlines()) == 1


@pytest.mark.parametrize(("scope", "status"), [("chargeback", 200), ("requests", 403)])
def test_a_token_needs_the_scope(month: Cast, scope: str, status: int) -> None:
    row, secret = ApiToken.objects.create(user=month.finance)
    ApiToken.objects.filter(pk=row.pk).update(scopes=[scope])
    answer = Client().get(f"{API}?format=csv", headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("version=1.0", "version"), ("period=x", "period"), ("period=2026-02&through=2026-01", "through"),
        ("period=1999-01&through=2026-01", "through"), ("through=9999-99", "through"),
        ("period=0001-01", "period"), ("period=%00", None), ("version=%00", None),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_in_place(month: Cast, query: str, field: str | None) -> None:
    for form in ("json", "csv", "parquet"):
        answer = get(month.finance, API, f"{query}&format={form}")
        assert answer.status_code == (400 if field else 200)
        if field:
            assert answer["Content-Type"].startswith("application/problem+json")
            assert [error["field"] for error in answer.json()["errors"]] == [field]
    page = get(month.finance, PAGE, query)
    assert page.status_code == 200
    assert ("cd-notice-error" in page.content.decode()) == (field is not None)
    file = get(month.finance, FILE, query)
    assert file.status_code == (303 if field else 200)


def test_the_page_tells_what_is_in_the_file_and_leads_to_it(month: Cast) -> None:
    page = get(month.finance, PAGE, f"{PERIOD}&project=tides").content.decode()
    assert "focus-1.4-2026-01-tides" in page
    assert "2026-01-tides-EUR" in page
    query = "version=1.4&amp;period=2026-01&amp;through=2026-01&amp;project=tides"
    for form in ("csv", "parquet", "json"):
        assert f'href="{FILE}?{query}&amp;format={form}"' in page
        answer = get(month.finance, FILE, f"{query}&format={form}".replace("&amp;", "&"))
        assert answer.status_code == 200
        assert f".{'metadata.' if form == 'json' else ''}{form}" in answer["Content-Disposition"]
    assert get(month.finance, FILE, f"{PERIOD}&format=xml").status_code == 404
    assert f"{PAGE}?period=2026-01" in get(month.finance, "/statements/", "month=2026-01").content.decode()
    own = get(month.lead, "/statements/2026-01/of/tides/").content.decode()
    assert f"{PAGE}?period=2026-01&amp;project=tides" in own
