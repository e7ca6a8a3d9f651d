"""What is learnt of idle time once the operator's month is closed: corrected exactly, on that account."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from claims.ledger.conservation import Piece, Span, Use
from claims.models import Allocation, Charge, Price, PriceBook, PriceRule, Statement
from claims.money import announcing, closing, idle_cost, tasks
from claims.money.books import IDLE, Kind
from claims.money.idle_cost import rate_idle
from claims.money.months import Month
from claims.money.rated import rate_month
from claims.money.statements import told_of
from inventory.models import Cluster
from portal.accounts.models import Project, User

MARCH = Month(2026, 3)
T0 = datetime(2026, 3, 1, tzinfo=UTC)
APRIL, MAY = datetime(2026, 4, 2, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOUR_US = 3_600_000_000
START = int(T0.timestamp()) * 1_000_000
NAME = ("d", "p", "g")


class Known:
    """What the ledger knows of one device that was there for ten hours of March: when it was held."""

    def __init__(self) -> None:
        self.held: list[tuple[int, int]] = []
        self.there = True
        self.product = "H100"

    def pieces(self, *_args: Any, **_more: Any) -> list[Any]:
        if not self.there:
            return []
        uses = [Use(START + since, START + until, {"": 1}) for since, until in self.held]
        return [(Piece("d/p/g", uses, [Span(START, START + 10 * HOUR_US)]), [NAME], [])]


@pytest.fixture
def known(db: None, monkeypatch: pytest.MonkeyPatch) -> Known:
    known = Known()
    monkeypatch.setattr(idle_cost, "pieces", known.pieces)
    monkeypatch.setattr(
        idle_cost, "_kinds", lambda *_args: {NAME: (Kind(use=IDLE, product=known.product), "")}
    )
    Cluster.objects.create(name="c1", created_at=T0)
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - 999 * HOUR)
    Price.objects.create(book=book, per_hour=Decimal(3))
    PriceRule.objects.create(book=book, position=0, use="idle", product="H100", per_hour=Decimal("0.7"))
    PriceRule.objects.create(book=book, position=1, use="idle", per_hour=Decimal("0.1"))
    return known


@pytest.fixture
def finn(db: None) -> User:
    return User.objects.create(username="finn", is_finance=True)


def close(month: Month, finn: User, now: datetime) -> Statement:
    common: dict[str, Any] = {"project": None, "month": month, "zone": UTC, "actor": finn, "now": now}
    closing.move(**common, action="review")
    return closing.close(**common)


def rate(now: datetime = MAY) -> None:
    rate_idle(month=MARCH, zone=UTC, now=now)


def corrections() -> list[Any]:
    rows = Charge.objects.filter(kind="correction").order_by("month")
    return [(row.month, row.fixed, row.note, row.project, row.use) for row in rows]


def corrected(month: str, amount: str) -> Any:
    return (month, Fraction(amount), "2026-03", None, "idle")


def test_use_that_is_learnt_of_late_relieves_the_operator_in_the_next_open_month(
    known: Known, finn: User, client: Client
) -> None:
    row = close(MARCH, finn, APRIL)
    before = list(Charge.objects.filter(month="2026-03").order_by("pk").values())
    rate()
    assert corrections() == [], "nothing was learnt"
    # A third of a second more than two hours, in between: the stretches are others, the sum is less.
    known.held = [(3 * HOUR_US, 5 * HOUR_US + 333_333)]
    rate()
    rate()
    exact = Fraction(-7, 10) * (2 * HOUR_US + 333_333) / HOUR_US
    assert corrections() == [corrected("2026-04", str(exact))]
    charge = Charge.objects.get(kind="correction")
    assert charge.origin_id == before[0]["id"]
    assert list(Charge.objects.filter(month="2026-03").order_by("pk").values()) == before
    assert closing.verify(row)
    lines = told_of(project=None, month=Month(2026, 4), bounds=Month(2026, 4).bounds(UTC), now=MAY)
    assert lines.totals == {"EUR": Decimal("-1.40")}
    client.force_login(finn)
    page = client.get(reverse("statement-nobody", args=["2026-04"])).content.decode()
    assert "idle time, on the operator" in page
    # What was wrong after all is taken back, without a trace where nobody was billed yet.
    known.held = []
    rate()
    assert corrections() == []


def test_what_was_corrected_in_a_month_that_is_closed_too_is_made_good_after_it(
    known: Known, finn: User
) -> None:
    close(MARCH, finn, APRIL)
    known.held = [(0, HOUR_US)]
    rate()
    close(Month(2026, 4), finn, MAY)
    known.held = [(0, 3 * HOUR_US)]
    rate()
    assert corrections() == [corrected("2026-04", "-7/10"), corrected("2026-05", "-7/5")]
    # The device was never there at all.
    known.there = False
    rate()
    assert corrections() == [corrected("2026-04", "-7/10"), corrected("2026-05", "-63/10")]
    known.there, known.held = True, []
    rate()
    assert corrections() == [corrected("2026-04", "-7/10"), corrected("2026-05", "7/10")]


def test_a_device_that_nobody_knew_of_is_charged_late(known: Known, finn: User) -> None:
    known.there = False
    close(MARCH, finn, APRIL)
    known.there = True
    rate()
    assert corrections() == [corrected("2026-04", "7")]


def test_another_product_by_now_is_no_reason_to_correct(known: Known, finn: User) -> None:
    close(MARCH, finn, APRIL)
    assert {charge.product for charge in Charge.objects.all()} == {"H100"}
    known.product = "H200"
    rate()
    assert corrections() == []


def test_money_is_conserved_whoever_is_closed_when_use_comes_late(known: Known, finn: User) -> None:
    cluster = Cluster.objects.get()
    tides = Project.objects.create(slug="tides", name="Tides", created_at=T0)
    close(MARCH, finn, APRIL)
    known.held = [(2 * HOUR_US, 6 * HOUR_US)]
    Allocation.objects.create(
        cluster=cluster, project=tides, namespace="n", claim_name="c", claim_uid="u", epoch=1, driver="d",
        pool_name="p", device_name="g", product="H100", started_at=T0 + 2 * HOUR, ended_at=T0 + 6 * HOUR,
    )  # fmt: skip
    rate_month(month=MARCH, zone=UTC)
    rate()
    sums: dict[str, Fraction] = {}
    for charge in Charge.objects.all():
        sums[charge.use] = sums.get(charge.use, Fraction(0)) + (charge.amount() or 0)
    # Six hours idle and four held, as if that had been known in time.
    assert sums == {"idle": Fraction(42, 10), "held": Fraction(12)}


def test_workers_correct_closed_idle_time_once_a_day_and_tell_of_it(
    known: Known, finn: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(MARCH, finn, APRIL)
    known.held = [(0, HOUR_US)]
    told: list[Month] = []
    monkeypatch.setattr(announcing, "corrections", lambda **named: told.append(named["month"]))
    cache.clear()
    tasks.rate_changed(now=APRIL)
    assert corrections() == [corrected("2026-04", "-7/10")]
    known.held = [(0, 2 * HOUR_US)]
    tasks.rate_changed(now=APRIL)
    assert corrections() == [corrected("2026-04", "-7/10")], "it was looked at already today"
    cache.delete(f"claims:idle:{MARCH}")
    tasks.rate_changed(now=APRIL)
    assert corrections() == [corrected("2026-04", "-7/5")]
    assert told.count(MARCH) >= 2
    cache.clear()
