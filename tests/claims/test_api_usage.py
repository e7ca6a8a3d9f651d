"""REST of use and cost: every grouping, its pages, its streams and the charges come to the same."""

import csv
import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from claims.history.curves import us
from claims.models import Charge, PriceBook
from claims.money.rating import content_of
from claims.rest import cursors
from portal.accounts.models import ApiToken, User
from tests.cast import Cast, make_cast
from tests.claims.money import make_money, source

USAGE, ROWS = "/api/v1/usage/", "/api/v1/charges/"
JANUARY = "from=2026-01-01&to=2026-01-31"
GROUPINGS = (
    "", "project", "cost_centre", "person", "cluster", "product", "class", "profile", "kind", "hour", "day",
    "month", "product,day", "hour,project", "day,product,person",
)  # fmt: skip


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


@pytest.fixture
def book(cast: Cast) -> PriceBook:
    return PriceBook.objects.create(name="2026", currency="EUR", valid_from=datetime(2025, 1, 1, tzinfo=UTC))


@pytest.fixture
def month(cast: Cast, book: PriceBook) -> Cast:
    """January: six uses, one of them without a price, and a credit."""
    make_money(cast, book)
    Charge.objects.filter(source=source(5)).update(list_micros=None, currency="")
    first = Charge.objects.get(source=source(0))
    Charge.objects.filter(pk=first.pk).update(person=cast.member)
    credit = Charge(
        kind=Charge.Kind.CREDIT, source="credit", month="2026-01", started_us=first.started_us,
        ended_us=first.started_us, project=cast.project, currency="EUR", unit="", use="",
        quantity="1", fixed="-10/3", note="=SUM(A1)",
    )  # fmt: skip
    credit.content = content_of(credit)
    credit.save()
    return cast


def get(user: User, url: str, query: str = "", **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(f"{url}?{query}", headers=headers)


def usage(user: User, query: str) -> dict[str, Any]:
    response = get(user, USAGE, query)
    assert response.status_code == 200, response.content
    told: dict[str, Any] = response.json()
    return told


def exact(rows: Any) -> Fraction:
    return sum(
        (
            Fraction(int(r["exact_numerator"]), int(r["exact_denominator"]))
            for r in rows
            if r["exact_numerator"]
        ),
        start=Fraction(0),
    )


def pages(user: User, url: str, query: str) -> list[dict[str, Any]]:
    found, following = [], f"{url}?{query}"
    client = Client()
    client.force_login(user)
    while following:
        told = client.get(following).json()
        found += told["results"]
        following = told["next"]
    return found


def whole() -> Fraction:
    return sum((charge.amount() or Fraction(0) for charge in Charge.objects.all()), start=Fraction(0))


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_and_its_pages_come_to_the_charges(month: Cast, grouping: str) -> None:
    query = f"{JANUARY}&group_by={grouping}"
    told = usage(month.finance, f"{query}&limit=1000")
    assert exact(told["totals"]) == exact(told["results"]) == whole()
    paged = pages(month.finance, USAGE, f"{query}&limit=2")
    assert paged == told["results"]
    (total,) = told["totals"]
    cents = sum(Fraction(row["amount"]) for row in paged if row["amount"])
    assert cents == Fraction(total["amount"])
    assert total["amount"] == usage(month.finance, JANUARY)["totals"][0]["amount"]


@pytest.mark.parametrize("cut", ["2026-01-01T03:00:00.000001Z", "2026-01-02T12:34:56Z"])
def test_two_parts_of_a_period_come_to_the_whole(month: Cast, cut: str) -> None:
    parts = [f"from=2026-01-01&to={cut}&group_by=hour", f"from={cut}&to=2026-01-31&group_by=day"]
    assert sum(exact(usage(month.finance, part)["totals"]) for part in parts) == whole()


def test_charges_paged_and_streamed_come_to_the_same(month: Cast) -> None:
    paged = pages(month.finance, ROWS, f"{JANUARY}&limit=2")
    lines = b"".join(get(month.finance, ROWS, f"{JANUARY}&format=ndjson").streaming_content).decode()
    assert [json.loads(line) for line in lines.splitlines()] == paged
    assert len(paged) == 7
    table = b"".join(get(month.finance, ROWS, f"{JANUARY}&format=csv").streaming_content).decode()
    rows = list(csv.DictReader(StringIO(table)))
    assert exact(rows) == exact(paged) == whole()
    credit = next(row for row in rows if row["kind"] == "credit")
    assert (credit["amount"], credit["note"]) == ("-3.333333", "'=SUM(A1)")


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("billed=2026-01", ["correction", *["usage"] * 6, "credit"]), (JANUARY, [*["usage"] * 6, "credit"]),
        ("from=2025-11-01&to=2025-11-30", ["correction"]), ("billed=2025-11", []),
    ],
)  # fmt: skip
def test_what_corrects_an_earlier_time_is_among_the_charges_that_it_is_billed_with(
    month: Cast, query: str, kinds: list[str]
) -> None:
    """Amounts that no time makes are billed long after they were."""
    at = int(datetime(2025, 11, 5, tzinfo=UTC).timestamp()) * 10**6
    late = Charge(
        kind=Charge.Kind.CORRECTION, source="late", month="2026-01", started_us=at, ended_us=at,
        project=month.project, currency="EUR", quantity="1", fixed="7/3", note="2025-11",
    )  # fmt: skip
    late.content = content_of(late)
    late.save()
    rows = pages(month.finance, ROWS, f"{query}&limit=3")
    assert sorted(row["kind"] for row in rows) == sorted(kinds)
    assert exact(rows) == exact(usage(month.finance, query)["totals"])


def test_the_first_page_of_charges_tells_what_all_pages_come_to(month: Cast) -> None:
    first = get(month.finance, ROWS, f"{JANUARY}&limit=2").json()
    told = usage(month.finance, JANUARY)
    assert (first["totals"], first["quantities"]) == (told["totals"], told["quantities"])
    assert exact(pages(month.finance, ROWS, f"{JANUARY}&limit=2")) == exact(first["totals"]) == whole()
    client = Client()
    client.force_login(month.finance)
    assert client.get(first["next"]).json()["totals"] is None


@pytest.mark.parametrize("form", ["json", "csv", "ndjson"])
def test_charges_put_together_are_the_rows_of_usage(month: Cast, form: str) -> None:
    query = f"{JANUARY}&group_by=day,product&format={form}"
    charged, used = (get(month.finance, url, query) for url in (ROWS, USAGE))
    if form == "json":
        charged, used = charged.json(), used.json()
        assert charged["results"]
        assert {**charged, "as_of": None} == {**used, "as_of": None}
    else:
        assert b"".join(charged.streaming_content) == b"".join(used.streaming_content)


def test_the_former_address_of_charges_answers_the_same(month: Cast) -> None:
    old, new = (
        get(month.finance, url, f"{JANUARY}&limit=1000").json() for url in ("/api/v1/charge-rows/", ROWS)
    )
    assert {**old, "as_of": None} == {**new, "as_of": None}


def test_what_a_month_is_billed_with_is_what_its_statement_says(month: Cast) -> None:
    told = usage(month.finance, "billed=2026-01&group_by=project")
    statement = get(month.finance, "/statements/2026-01/of/tides.csv")
    rows = csv.DictReader(StringIO(b"".join(statement.streaming_content).decode().removeprefix("\ufeff")))
    stated = sum(Fraction(row["amount"]) for row in rows if row["amount"])
    assert Fraction(told["totals"][0]["amount"]) == stated
    assert usage(month.finance, "billed=2026-02")["results"] == []


def test_days_and_hours_are_those_of_the_organisation(month: Cast, settings: Any) -> None:
    settings.ORGANISATION_ZONE = "Europe/Paris"
    start = datetime(2026, 3, 28, 23, tzinfo=UTC)
    charge = Charge(
        kind=Charge.Kind.USAGE, source="spring", month="2026-03", project=month.project, currency="EUR",
        started_us=int(start.timestamp()) * 10**6,
        ended_us=int((start + timedelta(hours=47)).timestamp()) * 10**6, quantity="1",
        list_micros=1_000_000,
    )  # fmt: skip
    charge.content = content_of(charge)
    charge.save()
    told = usage(month.finance, "from=2026-03-28&to=2026-03-31&group_by=day")["results"]
    assert [(row["day"], row["unit_hours"]) for row in told] == [
        ("2026-03-29", "23.000000"),
        ("2026-03-30", "24.000000"),
    ]
    hours = usage(month.finance, "from=2026-03-29&to=2026-03-29&group_by=hour")["results"]
    assert len(hours) == 23
    assert hours[0]["hour"] == "2026-03-28T23:00:00Z"


def test_an_answer_that_is_known_is_not_sent_again(month: Cast) -> None:
    for url in (USAGE, ROWS):
        for form in ("json", "csv"):
            first = get(month.finance, url, f"{JANUARY}&format={form}")
            again = get(month.finance, url, f"{JANUARY}&format={form}", **{"if-none-match": first["ETag"]})
            assert (again.status_code, again["ETag"]) == (304, first["ETag"])
            charge = Charge.objects.get(source=source(1))
            charge.discount_micros += 1
            charge.content = content_of(charge)
            charge.save()
            new = get(month.finance, url, f"{JANUARY}&format={form}", **{"if-none-match": first["ETag"]})
            assert new.status_code == 200


def test_numbers_do_not_know_languages(month: Cast) -> None:
    german = get(month.finance, USAGE, f"{JANUARY}&group_by=product", **{"accept-language": "zh-hans"})
    assert german.json() == usage(month.finance, f"{JANUARY}&group_by=product")


def test_everybody_sees_their_projects_and_persons_only_where_they_may(month: Cast) -> None:
    assert usage(month.stranger, JANUARY)["results"] == []
    assert get(month.stranger, USAGE, "project=tides").status_code == 404
    assert get(month.stranger, ROWS, "project=tides").status_code == 404
    people = f"{JANUARY}&group_by=person"
    assert {row["person"] for row in usage(month.lead, people)["results"]} == {"", "mina"}
    assert {row["person"] for row in usage(month.finance, people)["results"]} == {""}
    assert usage(month.finance, f"{JANUARY}&person=mina")["results"] == []
    assert len(usage(month.lead, f"{JANUARY}&person=mina")["results"]) == 1
    assert len(usage(month.lead, f"{JANUARY}&project=tides&class=gpu.nvidia.com")["totals"]) == 1


def test_a_token_needs_the_scope(month: Cast) -> None:
    for scope, status in (("chargeback", 200), ("requests", 403)):
        row, secret = ApiToken.objects.create(user=month.finance)
        ApiToken.objects.filter(pk=row.pk).update(scopes=[scope])
        for url in (USAGE, ROWS):
            answer = Client().get(url, headers={"authorization": f"Bearer {secret}"})
            assert answer.status_code == status


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=x", "from"), ("group_by=colour", "group_by"), ("group_by=day,hour", "group_by"),
        ("from=2026-01-01&to=2026-12-31&group_by=hour", "group_by"), ("kind=x", "kind"),
        ("billed=2026-13", "billed"), ("billed=2026-01&group_by=day", "group_by"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(month: Cast, query: str, field: str) -> None:
    answer = get(month.finance, USAGE, query)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.parametrize("cursor", ["x", "!!", "W10", "eyJhIjoxfQ==", "\u00e4"])
def test_a_cursor_that_nobody_gave_out_is_not_found(month: Cast, cursor: str) -> None:
    assert get(month.finance, USAGE, f"cursor={cursor}").status_code in (200, 404)
    assert get(month.finance, ROWS, f"cursor={cursor}").status_code in (200, 404)


@pytest.mark.parametrize(
    ("path", "query", "field", "choice"),
    [
        ("usage/", "month=2026-01", "month", "billed"),
        ("charges/", "billed=2026-01&projekt=tides", "projekt", "project"),
        ("charges/lines/", "billed=2026-01", "billed", "from"),
        ("statements/", "billed=2026-01", "billed", "month"),
        ("usage/", "billed=2026-01&format=xlsx", "format", "csv"),
        ("charges/", "format=xlsx", "format", "ndjson"),
        ("allocations/", "format=xlsx", "format", "ndjson"),
        ("focus/", "format=xlsx", "format", "parquet"),
        ("focus/", "month=2026-01", "month", "period"),
        ("charges/lines/", "format=xml", "format", "json"),
        ("statements/", "format=xml", "format", "json"),
        ("statements/2026-01/of/tides/", "format=xml", "format", "json"),
        ("statements/2026-01/unattributed/", "format=xml", "format", "json"),
        # Only one of two would count.
        ("usage/", "billed=2026-01&billed=2026-02", "billed", "twice"),
        ("statements/", "month=2026-01&group_by=project&group_by=kind", "group_by", "twice"),
    ],
)
def test_what_is_misspelt_is_refused_and_told_no_other_month(
    month: Cast, path: str, query: str, field: str, choice: str
) -> None:
    response = get(month.finance, f"/api/v1/{path}", query)
    assert response.status_code == 400, response.content
    (error,) = response.json()["errors"]
    assert error["field"] == field
    assert choice in error["message"]


def test_an_answer_tells_which_month_of_statements_it_is(month: Cast) -> None:
    assert usage(month.finance, "billed=2026-01")["billed"] == "2026-01"
    assert usage(month.finance, JANUARY)["billed"] is None


@pytest.mark.parametrize("group_by", ["", "project", "hour", "day", "month,product"])
def test_what_will_be_comes_to_nothing_and_not_to_less(month: Cast, group_by: str) -> None:
    first = Charge.objects.get(source=source(0))
    Charge.objects.filter(pk=first.pk).update(ended_us=us(datetime(2026, 2, 1, tzinfo=UTC)))
    # It runs at `as_of`, and is rated to the month's end.
    query = f"from=2026-01-20&to=2026-01-25&as_of=2026-01-10T00:00:00Z&group_by={group_by}"
    told = usage(month.finance, query)
    assert (told["results"], told["totals"]) == ([], [])
    told = get(month.finance, ROWS, query.removesuffix(f"group_by={group_by}")).json()
    assert (told["results"], told["totals"]) == ([], [])


def test_pages_count_up_to_one_moment(month: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    Charge.objects.update(ended_us=us(datetime(2026, 2, 1, tzinfo=UTC)))
    for path, grouped in ((USAGE, "&group_by=product,kind"), (ROWS, "")):
        moment, rows, totals = now, [], None
        link = f"{path}?{JANUARY}&limit=1{grouped}"
        client = Client()
        client.force_login(month.finance)
        while link:
            moment += timedelta(hours=5)
            monkeypatch.setattr(cursors, "timezone", SimpleNamespace(now=lambda at=moment: at))
            told = client.get(link).json()
            rows += told["results"]
            totals = totals or told["totals"]
            link = told["next"]
        assert len(rows) > 1
        assert exact(row for row in rows if row["exact_numerator"]) == exact(totals)
