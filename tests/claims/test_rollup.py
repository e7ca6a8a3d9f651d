"""Charges added up by day: whoever asks gets the same with and without, and only while it is true."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Charge, ChargeDay, ChargeMonth, Statement
from claims.money import rollup
from claims.money.months import Month
from claims.money.rating import content_of
from claims.money.statements import overview, told_of
from claims.money.usage import Row, Wanted, rows_of
from claims.money.versions import version
from tests.cast import Cast, make_cast

PARIS = ZoneInfo("Europe/Paris")
MARCH, APRIL = Month(2026, 3), Month(2026, 4)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
GROUPINGS = (
    "",
    "project",
    "day",
    "month",
    "day,product",
    "project,month,person",
    "hour",
    "class,cost_centre",
)
PERIODS = (
    {"from": "2026-03-01", "to": "2026-04-30"},
    {"from": "2026-03-29", "to": "2026-03-29"},
    {"from": "2026-03-28T12:34:56.000001Z", "to": "2026-04-02T01:02:03Z"},
    {"from": "2026-03-29T00:30:00Z", "to": "2026-03-29T02:30:00Z"},
    {"from": "2026-02-10", "to": "2026-03-05"},
)


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


@pytest.fixture
def charges(cast: Cast) -> Cast:
    """Two months with a day of 23 hours: two projects, rates of all kinds, and a fixed amount."""
    dice = random.Random(7)
    for month in (MARCH, APRIL):
        start, end = month.bounds(PARIS)
        for number in range(60):
            begins = start + timedelta(
                microseconds=dice.randrange(int((end - start).total_seconds()) * 10**6)
            )
            lasts = timedelta(
                microseconds=dice.choice([1, 999, 3_600_000_000, dice.randrange(1, 9 * 86_400 * 10**6)])
            )
            make(
                cast, month, number, begins, min(end, begins + lasts),
                project=dice.choice([cast.project, cast.other, None]), product=dice.choice(["L4", "H100"]),
                quantity=dice.choice(["1", "1/3", "7/40"]),
                list_micros=dice.choice([None, 1_250_000, 333_333]),
                discount_micros=dice.choice([0, 125_000]), person=dice.choice([None, cast.member]),
            )  # fmt: skip
    # What was taken back and is still spoken of has no time.
    make(
        cast, MARCH, 98, MARCH.start(PARIS), MARCH.start(PARIS), product="Gone", list_micros=None,
        project=cast.other,
    )  # fmt: skip
    make(cast, APRIL, 99, APRIL.start(PARIS), APRIL.start(PARIS), kind=Charge.Kind.CREDIT, fixed="-10/3")
    return cast


def make(cast: Cast, month: Month, number: int, start: datetime, end: datetime, **values: Any) -> Charge:
    charge = Charge(
        **{
            "kind": Charge.Kind.USAGE, "source": f"{month}-{number}", "month": str(month),
            "project": cast.project,
            "cost_centre": "OC-7", "device_class": "gpu", "product": "L4", "quantity": Fraction(1),
            "started_us": int(start.timestamp()) * 10**6 + start.microsecond,
            "ended_us": int(end.timestamp()) * 10**6 + end.microsecond, **values,
        }
    )  # fmt: skip
    charge.currency = "EUR" if charge.list_micros is not None or charge.fixed is not None else ""
    charge.content = content_of(charge)
    charge.save()
    return Charge.objects.get(pk=charge.pk)


def asked(cast: Cast, query: dict[str, str], now: datetime = NOW) -> list[Row]:
    wanted = Wanted.parse(query, now=now, zone=PARIS)
    assert not wanted.errors
    return rows_of(wanted, viewer=cast.finance, now=now)


def add_up() -> None:
    for month in (MARCH, APRIL):
        rollup.stale(month)
    assert rollup.refresh(zone=PARIS) == ["2026-03", "2026-04"]


def questions() -> Iterator[dict[str, str]]:
    for grouping in GROUPINGS:
        for period in PERIODS:
            yield {**period, "group_by": grouping}
    yield {"billed": "2026-04", "group_by": "project"}
    yield {**PERIODS[0], "group_by": "day", "project": "tides", "product": "L4", "kind": "usage"}


@pytest.mark.parametrize("now", [NOW, datetime(2026, 4, 11, 9, 8, 7, 6, tzinfo=UTC)])
def test_every_question_has_the_same_answer_with_days_added_up(charges: Cast, now: datetime) -> None:
    before = [asked(charges, query, now) for query in questions()]
    add_up()
    assert ChargeDay.objects.exists()
    assert [asked(charges, query, now) for query in questions()] == before


@pytest.mark.parametrize("now", [NOW, datetime(2026, 4, 11, 9, 8, 7, 6, tzinfo=UTC)])
def test_statements_come_to_the_same_with_days_added_up(charges: Cast, now: datetime) -> None:
    def told() -> list[Any]:
        projects = [charges.project, charges.other]
        rows = [
            overview(month=month, projects=projects, unattributed=True, zone=PARIS, now=now)
            for month in (MARCH, APRIL)
        ]
        return [(row.project, dict(row.totals), row.unpriced) for month in rows for row in month]

    before = told()
    add_up()
    with CaptureQueriesContext(connection) as seen:
        assert told() == before
    # Fixed amounts of either month, and charges of the day that is not over yet.
    assert sum('FROM "claims_charge"' in q["sql"] for q in seen) == (2 if now == NOW else 3)


def test_what_takes_no_time_lacks_no_price(cast: Cast) -> None:
    make(cast, MARCH, 1, MARCH.start(PARIS), MARCH.start(PARIS), list_micros=None)
    common: dict[str, Any] = {"month": MARCH, "zone": PARIS, "now": NOW}
    (before,) = overview(**common, projects=[cast.project], unattributed=False)
    add_up()
    assert overview(**common, projects=[cast.project], unattributed=False) == [before]
    assert not before.unpriced
    assert not told_of(project=cast.project, month=MARCH, bounds=MARCH.bounds(PARIS), now=NOW).unpriced


def test_by_hour_is_what_the_charges_come_to(charges: Cast) -> None:
    for period in PERIODS:
        hourly, whole = (asked(charges, {**period, "group_by": by}) for by in ("hour", ""))
        for rows in (hourly, whole):
            assert rows
        for unpriced in (True, False):
            assert sum(r.time for r in hourly if (r.exact is None) is unpriced) == sum(
                r.time for r in whole if (r.exact is None) is unpriced
            )
        assert sum(r.exact or 0 for r in hourly) == sum(r.exact or 0 for r in whole)
    day = asked(charges, {"from": "2026-03-29", "to": "2026-03-29", "group_by": "hour"})
    assert len({row.key.groups[0] for row in day}) <= 23


def test_a_whole_month_is_asked_of_its_days_alone(charges: Cast) -> None:
    add_up()
    with CaptureQueriesContext(connection) as seen:
        asked(charges, {"from": "2026-03-01", "to": "2026-04-30", "group_by": "project"})
    of_charges = [q["sql"] for q in seen if 'FROM "claims_charge"' in q["sql"]]
    assert len(of_charges) == 1
    assert '"fixed" IS NOT NULL' in of_charges[0]


def test_days_that_are_not_true_any_more_are_not_used(charges: Cast) -> None:
    add_up()
    Charge.objects.filter(month="2026-03").delete()
    rollup.stale(MARCH)
    assert asked(charges, {"from": "2026-03-01", "to": "2026-03-31"}) == []
    assert rollup.refresh(zone=PARIS) == ["2026-03"]
    assert asked(charges, {"from": "2026-03-01", "to": "2026-03-31"}) == []
    assert rollup.refresh(zone=PARIS) == []


def test_what_was_written_while_days_were_added_up_makes_them_no_truth(
    charges: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollup.stale(MARCH)
    real = rollup._add_up_day

    def meanwhile(*told: Any) -> None:
        real(*told)
        rollup.stale(MARCH)

    monkeypatch.setattr(rollup, "_add_up_day", meanwhile)
    assert rollup.refresh(zone=PARIS) == []
    assert not ChargeMonth.objects.get().fresh
    monkeypatch.undo()
    before = asked(charges, PERIODS[0])
    assert rollup.refresh(zone=PARIS) == ["2026-03"]
    assert asked(charges, PERIODS[0]) == before


def test_days_that_somebody_else_adds_up_meanwhile_are_theirs(
    charges: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asked(charges, PERIODS[0])
    rollup.stale(MARCH)
    real, others = rollup._add_up_day, []

    def meanwhile(*told: Any) -> None:
        real(*told)
        monkeypatch.setattr(rollup, "_add_up_day", real)
        others.extend(rollup.refresh(zone=PARIS))

    monkeypatch.setattr(rollup, "_add_up_day", meanwhile)
    assert (rollup.refresh(zone=PARIS), others) == ([], ["2026-03"])
    assert asked(charges, PERIODS[0]) == before


def test_months_of_another_time_zone_are_asked_of_the_charges(charges: Cast) -> None:
    add_up()
    start, end = MARCH.bounds(UTC)
    Statement.objects.create(
        project=charges.project, month="2026-03", zone="UTC", starts_at=start, ends_at=end, state="closed",
        closed_at=end, closed_by=charges.finance, digest="x",
    )  # fmt: skip
    assert rollup.pieces(start=0, end=10**18, zone=PARIS) == []
    # Its days would not be those of the month.
    assert rollup.refresh(zone=ZoneInfo("Asia/Tokyo")) == []


MARCH_ASKED = {"from": "2026-03-01", "to": "2026-03-31"}
APRIL_ASKED = {"from": "2026-04-01", "to": "2026-04-30"}
APRIL_BILLED = {"billed": "2026-04"}


def version_now(cast: Cast, query: dict[str, str], *, viewer: Any = None, at: datetime = NOW) -> Any:
    wanted = Wanted.parse(query, now=at, zone=PARIS)
    return list(version(wanted, viewer=viewer or cast.finance, now=at))


def test_a_version_is_another_with_whatever_is_told(charges: Cast) -> None:
    asked = (MARCH_ASKED, APRIL_ASKED, APRIL_BILLED)
    start, end = MARCH.bounds(PARIS)
    known: list[Any] = []

    def changed() -> list[bool]:
        before, known[:] = known[:], [version_now(charges, query) for query in asked]
        return [one != other for one, other in zip(known, before, strict=False)]

    add_up()
    changed()
    assert changed() == [False, False, False]
    assert version_now(charges, MARCH_ASKED, at=NOW + timedelta(days=1)) == known[0]
    assert version_now(charges, MARCH_ASKED, viewer=charges.lead) != known[0]
    rollup.stale(APRIL)
    assert changed() == [False, True, True]
    # Closing, and getting there.
    values = {"month": str(MARCH), "zone": str(PARIS), "starts_at": start, "ends_at": end}
    Statement.objects.create(project=charges.project, state=Statement.State.REVIEW, **values)
    assert changed() == [True, False, False]
    # What no time makes counts when it began, and in the month that bills it; nobody bumps a month for it.
    at = start + timedelta(days=3)
    make(charges, APRIL, 100, at, at, kind=Charge.Kind.CORRECTION, fixed="1/3")
    assert changed() == [True, False, True]


def test_a_version_follows_what_runs_and_looks_at_no_charge_that_takes_time(charges: Cast) -> None:
    add_up()
    before = version_now(charges, APRIL_BILLED)
    # Whoever writes charges bumps their month.
    Charge.objects.filter(month=str(APRIL), fixed=None).update(content="unseen")
    assert version_now(charges, APRIL_BILLED) == before
    ChargeMonth.objects.all().delete()
    assert version_now(charges, APRIL_BILLED) != before
    middle = APRIL.start(PARIS) + timedelta(days=15)
    first, second = (version_now(charges, APRIL_BILLED, at=middle + timedelta(seconds=n)) for n in (0, 1))
    assert first != second
