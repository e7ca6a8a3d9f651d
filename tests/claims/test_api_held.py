"""REST of allocations put together: how many and for how long, and the time is that of use."""

import csv
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from claims.models import Allocation, Charge, PriceBook
from claims.money import rollup
from claims.money.months import Month
from claims.money.rated import rate_month
from claims.money.usage import hours
from portal.accounts.models import User
from tests.cast import Cast, make_cast
from tests.claims.test_rollup import make
from tests.inventory_pages.factories import make_cluster

URL, USAGE = "/api/v1/allocations/", "/api/v1/usage/"
PARIS = ZoneInfo("Europe/Paris")
MARCH, APRIL = Month(2026, 3), Month(2026, 4)
BOTH = "from=2026-03-01&to=2026-04-30"
GROUPINGS = (
    "project", "cost_centre", "person", "cluster", "product", "class", "profile", "hour", "day", "month",
    "product,day", "hour,project", "day,product,person", "project,month",
)  # fmt: skip
PERIODS = (
    BOTH, "from=2026-03-29&to=2026-03-29", "from=2026-03-28T12:34:56.000001Z&to=2026-04-02T01:02:03Z",
    "from=2026-03-29T00:30:00Z&to=2026-03-29T02:30:00Z",
)  # fmt: skip


@pytest.fixture
def cast(db: None, settings: Any) -> Cast:
    settings.ORGANISATION_ZONE = "Europe/Paris"
    return make_cast()


@pytest.fixture
def charges(cast: Cast, request: pytest.FixtureRequest) -> Cast:
    """Two months with a day of 23 hours: allocations of one to four charges each, with gaps and in several
    rows; idle time; and what was held for no time."""
    dice = random.Random(getattr(request, "param", 1))
    for number in range(40):
        at = MARCH.start(PARIS) + timedelta(microseconds=dice.randrange(60 * 86_400 * 10**6))
        for _part in range(dice.randint(1, 4)):
            until = at + timedelta(
                microseconds=dice.choice([1, 1_800_000_000, dice.randrange(4 * 86_400 * 10**6)])
            )
            for month in (MARCH, APRIL):
                first, last = month.bounds(PARIS)
                if max(at, first) < min(until, last):
                    make(
                        cast, month, number, max(at, first), min(until, last), source=f"allocation-{number}",
                        project=dice.choice([cast.project, cast.other, None]),
                        person=dice.choice([None, cast.member]),
                        product="L4" if number % 2 else "H100", profile_digest=f"p{number % 3}",
                        cost_centre=dice.choice(["", "OC-7"]), quantity=dice.choice(["1", "1/3"]),
                        list_micros=dice.choice([None, 1_250_000]),
                        **dice.choice([{}, {"unit": "capacity", "per": "1Gi"}]),
                    )  # fmt: skip
            at = until + timedelta(microseconds=dice.choice([0, 1, 600_000_000]))
    start = MARCH.start(PARIS)
    make(cast, MARCH, 90, start, start + timedelta(hours=9), kind=Charge.Kind.IDLE, project=None)
    make(cast, MARCH, 91, start, start)
    make(cast, MARCH, 92, start, start, kind=Charge.Kind.CREDIT, fixed="-10/3")
    return cast


def get(user: User, query: str = "", url: str = URL, **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(f"{url}?{query}", headers=headers)


def told(user: User, query: str, url: str = URL) -> dict[str, Any]:
    response = get(user, query, url)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def times(rows: Sequence[dict[str, Any]], groups: Sequence[str]) -> dict[Any, Fraction]:
    """Unit-hours by groups and unit, whatever the currency."""
    found: dict[Any, Fraction] = defaultdict(Fraction)
    for row in rows:
        found[*(row[name] for name in groups), row["unit"], row["per"]] += Fraction(row["unit_hours"])
    return found


def label(name: str, charge: Charge, at: datetime) -> str:
    """What a charge is put under at a moment."""
    there = at.astimezone(PARIS)
    return str(
        {
            "project": charge.project.slug if charge.project else "", "cost_centre": charge.cost_centre,
            "person": charge.person.username if charge.person else "", "cluster": "",
            "product": charge.product, "class": charge.device_class, "profile": charge.profile_digest,
            "hour": f"{at:%Y-%m-%dT%H}:00:00Z", "day": f"{there:%Y-%m-%d}", "month": f"{there:%Y-%m}",
        }[name]
    )  # fmt: skip


def counted(groups: Sequence[str], start: datetime, end: datetime) -> tuple[dict[Any, tuple[str, int]], int]:
    """Hour by hour, and each charge by itself: who is where, and for how long."""
    found: dict[Any, set[str]] = defaultdict(set)
    held: dict[Any, Fraction] = defaultdict(Fraction)
    charges = Charge.objects.filter(kind=Charge.Kind.USAGE).select_related("project", "person")
    for charge in charges:
        first, last = max(charge.start, start), min(charge.end, end)
        while first < last:
            after = min(last, first.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1))
            key = *(label(name, charge, first) for name in groups), charge.unit, charge.per
            found[key].add(charge.source)
            held[key] += charge.quantity * ((after - first) // timedelta(microseconds=1))
            first = after
    rows = {key: (f"{hours(held[key]):f}", len(of)) for key, of in found.items()}
    return rows, len(set().union(*found.values()))


@pytest.mark.parametrize(("charges", "added_up"), [(1, False), (1, True), (2, True)], indirect=["charges"])
def test_the_time_is_that_of_use_and_each_allocation_counts_once_where_it_is(
    charges: Cast, added_up: bool
) -> None:
    if added_up:
        for month in (MARCH, APRIL):
            rollup.stale(month)
        assert rollup.refresh(zone=PARIS) == ["2026-03", "2026-04"]
    for at, grouping in enumerate(GROUPINGS):
        query = f"{PERIODS[at % len(PERIODS)]}&group_by={grouping}&limit=1000"
        held, used = told(charges.auditor, query), told(charges.auditor, f"{query}&kind=usage", USAGE)
        groups = grouping.split(",")
        assert held["quantities"] == used["quantities"] != []
        assert {held[name] for name in ("start", "end")} == {used[name] for name in ("start", "end")}
        if held["next"] is None and used["next"] is None:
            ours, theirs = times(held["results"], groups), times(used["results"], groups)
            assert ours.keys() == theirs.keys()
            # There what has a price is a row by itself, and each is rounded.
            assert max(abs(ours[key] - theirs[key]) for key in ours) <= Fraction(1, 10**6)
        start, end = datetime.fromisoformat(held["start"]), datetime.fromisoformat(held["end"])
        rows, whole = counted(groups, start, end)
        found = {
            (*(row[name] for name in groups), row["unit"], row["per"]): (
                row["unit_hours"],
                row["allocations"],
            )
            for row in held["results"]
        }
        assert held["allocations"] == whole
        assert found == rows if held["next"] is None else found.items() <= rows.items()


def test_pages_and_streams_are_the_same_rows(charges: Cast) -> None:
    query = f"{BOTH}&group_by=day,project"
    rows, following = [], f"{URL}?{query}&limit=7"
    client = Client()
    client.force_login(charges.finance)
    while following:
        page = client.get(following).json()
        rows += page["results"]
        following = page["next"]
    assert len(rows) > 20
    whole = told(charges.finance, f"{query}&limit=1000")
    assert (whole["results"], whole["group_by"], whole["next"]) == (rows, ["day", "project"], None)
    lines = b"".join(get(charges.finance, f"{query}&format=ndjson").streaming_content).decode()
    assert [json.loads(line) for line in lines.splitlines()] == rows
    table = b"".join(get(charges.finance, query, accept="text/csv").streaming_content).decode()
    assert [
        {**row, "allocations": int(row["allocations"])} for row in csv.DictReader(StringIO(table))
    ] == rows


@pytest.mark.parametrize("form", ["json", "csv", "ndjson"])
def test_who_has_this_version_gets_nothing_again(charges: Cast, form: str) -> None:
    query = f"{BOTH}&group_by=product&format={form}"
    first = get(charges.finance, query)
    again = get(charges.finance, query, **{"if-none-match": first["ETag"]})
    assert (again.status_code, again["ETag"]) == (304, first["ETag"])
    start = APRIL.start(PARIS)
    make(charges, APRIL, 500, start, start + timedelta(hours=1))
    assert get(charges.finance, query, **{"if-none-match": first["ETag"]}).status_code == 200


def test_filters_narrow_as_those_of_use_do(charges: Cast) -> None:
    for narrowed in (
        "project=tides", "project=unattributed", "person=mina", "product=L4", "class=gpu", "class=x",
        "profile=p1", "cost_centre=OC-7", "cluster=x", "billed=2026-04",
    ):  # fmt: skip
        query = f"{BOTH}&group_by=month&{narrowed}"
        held, used = told(charges.auditor, query), told(charges.auditor, f"{query}&kind=usage", USAGE)
        assert (held["quantities"], held["billed"]) == (used["quantities"], used["billed"])
        assert bool(held["allocations"]) == bool(used["results"])


def test_everybody_sees_what_they_may_see_the_cost_of(charges: Cast) -> None:
    query = f"{BOTH}&group_by=project"
    assert {row["project"] for row in told(charges.lead, query)["results"]} == {"tides"}
    assert {row["project"] for row in told(charges.finance, query)["results"]} == {"", "tides", "glaciers"}
    assert {row["project"] for row in told(charges.stranger, query)["results"]} == {"glaciers"}
    assert get(charges.stranger, f"{query}&project=tides").status_code == 404
    people = f"{BOTH}&group_by=person"
    assert {row["person"] for row in told(charges.lead, people)["results"]} == {"", "mina"}
    assert {row["person"] for row in told(charges.finance, people)["results"]} == {""}
    assert told(charges.finance, f"{people}&person=mina")["results"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("group_by=nothing", "group_by"), ("group_by=kind", "group_by"), ("group_by=day,hour", "group_by"),
        ("group_by=hour&from=2025-01-01&to=2026-01-01", "group_by"), ("group_by=day&from=yesterday", "from"),
        ("group_by=day&billed=2026-13", "billed"), ("group_by=day&from=2026-02-02&to=2026-02-01", "to"),
        ("group_by=day&device=g", "device"), ("group_by=day&running=1", "running"),
        ("group_by=day&kind=units", "kind"), ("group_by=day&as_of=x", "as_of"),
        ("group_by=day&month=2026-03", "month"), ("group_by=day&group_by=day", "group_by"),
        ("billed=2026-03", "billed"), ("as_of=2026-03-01", "as_of"),
        ("group_by=,&cost_centre=x", "cost_centre"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["json", "csv"])
def test_what_cannot_be_asked_is_named(cast: Cast, query: str, field: str, form: str) -> None:
    response = get(cast.auditor, f"{query}&format={form}")
    assert response.status_code == 400
    assert [error["field"] for error in response.json()["errors"]] == [field]


def test_a_cursor_of_the_other_rows_is_not_found(charges: Cast) -> None:
    cursor = told(charges.auditor, f"{BOTH}&group_by=day&limit=1")["next"].partition("cursor=")[2]
    cursor = cursor.partition("&")[0]
    assert get(charges.auditor, f"group_by=day&cursor={cursor}x1").status_code == 404
    assert get(charges.auditor, f"cursor={cursor}").status_code == 404


def test_what_will_be_is_nobodys_yet(charges: Cast) -> None:
    for grouping in ("project", "hour", "day"):
        found = told(charges.auditor, f"from=2999-01-01&to=2999-01-02&group_by={grouping}")
        assert (found["results"], found["allocations"], found["quantities"]) == ([], 0, [])


def test_what_the_ledger_has_is_what_is_put_together(cast: Cast) -> None:
    """From intervals, by rating: cut where the price changes; who only looks holds nothing."""
    first = MARCH.start(PARIS)
    for at in (first - timedelta(days=100), first + timedelta(hours=30)):
        PriceBook.objects.create(name=f"{at:%m-%d}", currency="EUR", valid_from=at)
    cluster = make_cluster()
    common: dict[str, Any] = {
        "cluster": cluster, "epoch": 1, "namespace": "n", "project": cast.project, "device_class": "gpu",
    }  # fmt: skip
    for number, (begins, lasts, admin) in enumerate([(-1, 100, False), (29, 2, False), (5, 1, True)]):
        start = first + timedelta(hours=begins)
        Allocation.objects.create(
            **common, claim_uid=f"c{number}", device_name=f"g{number}", admin_access=admin,
            started_at=start, ended_at=start + timedelta(hours=lasts),
        )  # fmt: skip
    rate_month(month=MARCH, zone=PARIS)
    assert Charge.objects.count() == 4
    found = told(cast.finance, "from=2026-03-01&to=2026-03-02&group_by=day,cluster")
    assert [(row["day"], row["unit_hours"], row["allocations"]) for row in found["results"]] == [
        ("2026-03-01", "24.000000", 1),
        ("2026-03-02", "26.000000", 2),
    ]
    assert (found["allocations"], {row["cluster"] for row in found["results"]}) == (2, {cluster.name})


def test_dates_begin_where_the_organisation_is(cast: Cast) -> None:
    """As those of use do; times are UTC unless they say otherwise."""
    cluster = make_cluster()
    for number, hour in enumerate((22, 23)):
        at = datetime(2026, 3, 1, hour, 30, tzinfo=UTC)
        Allocation.objects.create(
            cluster=cluster, claim_uid=f"c{number}", epoch=1, device_name="gh"[number], namespace="n",
            started_at=at, ended_at=at + timedelta(minutes=15),
        )  # fmt: skip

    def devices(query: str) -> list[str]:
        return [row["device"] for row in told(cast.auditor, query)["results"]]

    assert devices("from=2026-03-01&to=2026-03-01") == ["g"]
    assert devices("from=2026-03-02&to=2026-03-02") == devices("from=2026-03-02") == ["h"]
    assert devices("from=2026-03-01T23:00&to=2026-03-02T00:00Z") == ["h"]
    assert devices("from=2026-03-01T00:00Z&to=2026-03-02T00:00+01:00") == ["g"]
