"""Idle time costs the operator by its own price, and can be passed on without a cent being lost."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from claims.ledger.conservation import Piece, Span, Use, add_up, idle
from claims.models import Charge, Price, PriceBook, PriceRule, Statement
from claims.money import idle_cost
from claims.money.idle_cost import UnableToPassOn, pass_on, rate_idle
from claims.money.months import Month
from claims.money.rating import content_of
from claims.money.statements import told_of
from inventory.models import Cluster
from portal.accounts.models import Project, User

MARCH = Month(2026, 3)
T0 = datetime(2026, 3, 1, tzinfo=UTC)
APRIL = datetime(2026, 4, 2, tzinfo=UTC)
HOUR_US = 3_600_000_000
START = int(T0.timestamp()) * 1_000_000


def piece() -> Piece:
    """Ten hours: held as a whole for two, half of it for one, barred for one, unseen for one."""

    def at(hours: int) -> int:
        return START + hours * HOUR_US

    return Piece(
        "d/p/g",
        uses=[Use(at(1), at(3), {"": 1}), Use(at(4), at(5), {"": Fraction(1, 2)})],
        published=[Span(at(0), at(10))],
        barred=[Span(at(6), at(7))],
    )


BLANKS = [(START + 8 * HOUR_US, START + 9 * HOUR_US)]


def test_idle_stretches_sum_to_what_the_audit_finds_idle() -> None:
    stretches = list(idle(piece(), BLANKS))
    hours = [((start - START) // HOUR_US, (end - START) // HOUR_US, share) for start, end, share in stretches]
    assert hours == [(0, 1, 1), (3, 4, 1), (4, 5, Fraction(1, 2)), (5, 6, 1), (7, 8, 1), (9, 10, 1)]
    sums, excess = add_up(piece(), BLANKS)
    assert excess is None
    assert sum((end - start) * share for start, end, share in stretches) == sums.idle
    assert sums.conserved


@pytest.fixture
def priced(db: None, monkeypatch: pytest.MonkeyPatch) -> PriceBook:
    Cluster.objects.create(name="c1", created_at=T0)
    monkeypatch.setattr(idle_cost, "pieces", lambda _cluster, _now: [(piece(), [("d", "p", "g")], BLANKS)])
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - timedelta(days=9))
    Price.objects.create(book=book, per_hour=Decimal(3))
    PriceRule.objects.create(book=book, position=0, use="idle", per_hour=Decimal("0.5"))
    return book


def use(project: Project, amount: int) -> None:
    charge = Charge(
        source=f"s{project.pk}", month="2026-03", started_us=START, ended_us=START + HOUR_US, currency="EUR",
        project=project, quantity=Fraction(1), list_micros=amount * 1_000_000,  # type: ignore[misc] # fractions
    )  # fmt: skip
    charge.content = content_of(charge)
    charge.save()


def told(project: Project | None) -> Any:
    return told_of(project=project, month=MARCH, bounds=MARCH.bounds(UTC), now=APRIL).totals


def test_idle_time_is_the_operators_and_rated_again_the_same(priced: PriceBook) -> None:
    assert rate_idle(month=MARCH, zone=UTC, now=APRIL) == 6
    before = list(Charge.objects.order_by("pk").values())
    assert rate_idle(month=MARCH, zone=UTC, now=APRIL) == 6
    assert list(Charge.objects.order_by("pk").values()) == before
    assert told(None) == {"EUR": Decimal("2.75")}


def test_what_is_passed_on_is_marked_and_comes_to_the_same(priced: PriceBook) -> None:
    projects = [Project.objects.create(slug=s, name=s, created_at=T0) for s in ("tides", "dunes", "ice")]
    for project, amount in zip(projects, (1, 1, 0), strict=True):
        use(project, amount)
    rate_idle(month=MARCH, zone=UTC, now=APRIL)
    finn = User.objects.create(username="finn", is_finance=True)
    for _again in range(2):
        assert pass_on(month=MARCH, zone=UTC, actor=finn, now=APRIL) == 2
    shared = Charge.objects.filter(kind=Charge.Kind.SHARED)
    assert sum((charge.fixed or 0 for charge in shared), start=Fraction(0)) == 0
    assert told(None) == {"EUR": 0}
    assert told(projects[0]) == {"EUR": Decimal("2.38")}
    Statement.objects.create(
        project=projects[0], month="2026-03", zone="UTC", starts_at=T0, ends_at=APRIL, state="closed",
        closed_at=APRIL, digest="x",
    )  # fmt: skip
    with pytest.raises(UnableToPassOn, match="closed"):
        pass_on(month=MARCH, zone=UTC, actor=finn, now=APRIL)
