"""Statements over REST: by themselves, paged, in files and put together, they come to what is billed."""

import csv
import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from claims.models import Charge
from claims.money import closing
from claims.money.months import Month
from claims.money.statements import overview
from portal.accounts.models import User
from tests.cast import Cast, make_cast
from tests.claims.test_rollup import make

URL = "/api/v1/statements/"
PARIS = ZoneInfo("Europe/Paris")
MARCH, APRIL = Month(2026, 3), Month(2026, 4)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
BOTH = "from=2026-03-01&to=2026-04-30"
GROUPINGS = (
    "month", "project", "state", "cost_centre", "kind", "product", "class", "month,project",
    "project,cost_centre,product", "state,class,month,kind",
)  # fmt: skip
pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(db: None, settings: Any) -> Cast:
    """Two months of two projects and nobody, in two currencies and without a price; one of them is closed."""
    settings.ORGANISATION_ZONE = "Europe/Paris"
    cast, dice = make_cast(), random.Random(11)
    for month in (MARCH, APRIL):
        start, end = month.bounds(PARIS)
        for number in range(50):
            begins = start + timedelta(microseconds=dice.randrange(30 * 86_400 * 10**6))
            lasts = timedelta(microseconds=dice.choice([1, 77_777_777, dice.randrange(1, 10**11)]))
            charge = make(
                cast, month, number, begins, min(end, begins + lasts),
                project=dice.choice([cast.project, cast.other, None]), product=dice.choice(["L4", "H100"]),
                cost_centre=dice.choice(["", "GEO", "BIO"]), quantity=dice.choice(["1", "1/3", "7/40"]),
                list_micros=dice.choice([None, 1_250_000, 333_333]), unit=dice.choice(["device", "counters"]),
            )  # fmt: skip
            if charge.list_micros and dice.random() < 0.3:
                Charge.objects.filter(pk=charge.pk).update(currency="JPY")
        make(cast, month, 99, start, start, kind=Charge.Kind.CREDIT, fixed="-10/3", unit="", use="")
    # Until the very end of the month.
    end = MARCH.next().start(PARIS)
    make(cast, MARCH, 98, end - timedelta(hours=5), end, list_micros=1_250_000)
    common: dict[str, Any] = {"project": cast.project, "month": MARCH, "zone": PARIS, "actor": cast.finance}
    closing.move(**common, action="review", now=NOW)
    closing.close(**common, now=NOW, rated=True)
    return cast


def get(user: User, query: str, path: str = "") -> Any:
    client = Client()
    client.force_login(user)
    return client.get(f"{URL}{path}?{query}")


def told(user: User, query: str) -> dict[str, Any]:
    response = get(user, query)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def streamed(user: User, query: str, path: str = "") -> str:
    return b"".join(get(user, query, path).streaming_content).decode()


def added(rows: Any) -> dict[str, Decimal]:
    """Amounts by currency, of rows that have one each."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["amount"] not in ("", None):
            sums[row["currency"]] += Decimal(row["amount"])
    return dict(sums)


def paged(user: User, query: str) -> list[dict[str, Any]]:
    client, found, following = Client(), [], f"{URL}?{query}"
    client.force_login(user)
    while following:
        answer = client.get(following).json()
        found += answer["results"]
        following = answer["next"]
    return found


def test_a_list_its_pages_and_its_files_come_to_the_lines_of_the_statements(cast: Cast) -> None:
    whole = told(cast.finance, BOTH)
    assert whole["month"] is None
    assert paged(cast.finance, f"{BOTH}&limit=2") == whole["results"]
    totals = added(whole["totals"])
    assert added(total for row in whole["results"] for total in row["totals"]) == totals
    assert added(csv.DictReader(StringIO(streamed(cast.finance, f"{BOTH}&format=csv")))) == totals
    lines = streamed(cast.finance, f"{BOTH}&format=ndjson").splitlines()
    assert [json.loads(line) for line in lines] == whole["results"]
    of_lines: dict[str, Decimal] = defaultdict(Decimal)
    for row in whole["results"]:
        path = f"{row['month']}/of/{row['project']}/" if row["project"] else f"{row['month']}/unattributed/"
        one = get(cast.finance, "", path).json()
        assert one["totals"] == row["totals"]
        table = list(csv.DictReader(StringIO(streamed(cast.finance, "format=csv", path))))
        assert added(table) == added(one["lines"]) == added(row["totals"])
        assert [json.loads(n) for n in streamed(cast.finance, "format=ndjson", path).splitlines()] == [
            {"month": row["month"], "state": row["state"], "project": row["project"], **line}
            for line in one["lines"]
        ]
        for currency, amount in added(one["lines"]).items():
            of_lines[currency] += amount
    assert of_lines == totals
    assert {"EUR", "JPY"} == totals.keys()


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_put_together_by_anything_they_come_to_the_same(cast: Cast, grouping: str) -> None:
    query = f"{BOTH}&group_by={grouping}"
    whole = told(cast.finance, query)
    assert whole["totals"] == told(cast.finance, BOTH)["totals"]
    assert paged(cast.finance, f"{query}&limit=3") == whole["results"]
    table = list(csv.DictReader(StringIO(streamed(cast.finance, f"{query}&format=csv"))))
    assert added(table) == added(whole["results"]) == added(whole["totals"])
    exact = sum(
        (
            Fraction(int(row["exact_numerator"]), int(row["exact_denominator"]))
            for row in whole["results"]
            if row["exact_numerator"]
        ),
        start=Fraction(0),
    )
    assert exact == sum((charge.amount() or 0 for charge in Charge.objects.all()), start=Fraction(0))
    hours = sum((Decimal(row["unit_hours"]) for row in whole["results"]), start=Decimal(0))
    all_hours = sum((Decimal(row["unit_hours"]) for row in whole["quantities"]), start=Decimal(0))
    assert abs(hours - all_hours) < Decimal("0.001")


def test_a_group_of_statements_is_the_sum_of_them_to_the_cent(cast: Cast) -> None:
    by_project = told(cast.finance, f"{BOTH}&group_by=project,month")["results"]
    sums: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for row in by_project:
        if row["amount"]:
            sums[row["project"], row["month"], row["currency"]] += Decimal(row["amount"])
    assert sums == {
        (row["project"] or "", row["month"], total["currency"]): Decimal(total["amount"])
        for row in told(cast.finance, BOTH)["results"]
        for total in row["totals"]
    }


def test_filters_leave_the_others_out(cast: Cast) -> None:
    closed = told(cast.finance, f"{BOTH}&state=closed")
    assert [(row["month"], row["project"]) for row in closed["results"]] == [("2026-03", "tides")]
    assert told(cast.finance, f"{BOTH}&state=closed&group_by=month")["totals"] == closed["totals"]
    nobody = told(cast.finance, f"{BOTH}&project=unattributed")
    assert [row["project"] for row in nobody["results"]] == [None, None]
    own = told(cast.lead, f"{BOTH}&group_by=project")
    assert {row["project"] for row in own["results"]} == {"tides"}
    assert own["totals"] == told(cast.finance, f"{BOTH}&project=tides")["totals"]
    assert get(cast.lead, f"{BOTH}&project=glaciers").status_code == 404
    assert get(cast.lead, f"{BOTH}&project=unattributed").status_code == 404
    assert [row["month"] for row in told(cast.lead, "from=2026-03-31&to=2026-04-01")["results"]] == [
        "2026-03", "2026-04",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("month=2026-03&from=2026-03-01", "month"), ("from=x", "from"),
        ("from=2026-04-01&to=2026-03-01", "to"),
        ("from=2001-01-01&to=2026-01-01", "to"), ("state=lost", "state"), ("group_by=day", "group_by"),
        ("format=xml", "format"), ("mont=2026-03", "mont"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(cast: Cast, query: str, field: str) -> None:
    answer = get(cast.finance, query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_who_has_an_answer_is_not_sent_it_again(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.finance)
    for query in (BOTH, f"{BOTH}&format=csv", f"{BOTH}&group_by=project&limit=2"):
        etag = client.get(f"{URL}?{query}")["ETag"]
        assert client.get(f"{URL}?{query}", headers={"if-none-match": etag}).status_code == 304
        grown = Charge.objects.filter(closed=False, project=cast.project, list_micros=1_250_000)
        assert grown.update(list_micros=7_000_000)
        assert client.get(f"{URL}?{query}", headers={"if-none-match": etag}).status_code == 200
        Charge.objects.filter(list_micros=7_000_000).update(list_micros=1_250_000)


def test_a_closed_month_is_listed_as_it_was_closed_though_months_begin_otherwise_now(cast: Cast) -> None:
    common: dict[str, Any] = {
        "month": MARCH, "projects": [cast.project], "unattributed": False, "now": NOW,
    }  # fmt: skip
    # A use at the month's very end, which is another month's in a zone further east.
    (before,) = overview(**common, zone=PARIS)
    assert overview(**common, zone=ZoneInfo("Asia/Shanghai")) == [before]
