"""Budgets: what counts as spent, and when leads are told again."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from claims.models import Allocation, BudgetAlert, Price, PriceBook
from claims.money import adjusting, budgets
from claims.money.budgets import UnableToBudget
from claims.money.months import Month
from inventory.models import Cluster
from portal.accounts.models import Notification
from tests.cast import Cast, make_cast

T0 = datetime(2026, 3, 1, tzinfo=UTC)
NOW = T0 + timedelta(hours=10)
pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(db: None) -> Cast:
    """A device for one EUR an hour, held from the first of March on."""
    cast = make_cast()
    cluster = Cluster.objects.create(name="c1", created_at=T0)
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0)
    Price.objects.create(book=book, per_hour=Decimal(1))
    Allocation.objects.create(
        cluster=cluster, namespace="n", claim_uid="u1", device_name="g1", epoch=1, product="A",
        project=cast.project, started_at=T0,
    )  # fmt: skip
    return cast


def adjust(cast: Cast, minor: int) -> None:
    made = adjusting.propose(
        project=cast.project, month=Month(2026, 3), minor=minor, currency="EUR", reason="x",
        actor=cast.finance, now=NOW,
    )  # fmt: skip
    adjusting.decide(adjustment=made, approve=True, actor=cast.administrator, now=NOW)


def set_budget(cast: Cast, minor: int) -> None:
    budgets.set_budget(
        project=cast.project, currency="EUR", minor=minor, thresholds=[80], blocks=True, actor=cast.lead,
        now=NOW,
    )  # fmt: skip


def messages(cast: Cast) -> list[Any]:
    rows = Notification.objects.filter(person=cast.lead).order_by("pk")
    return [row.subject["values"]["percent"] for row in rows if "percent" in row.subject["values"]]


def test_what_is_spent_is_what_the_statement_will_say(cast: Cast) -> None:
    set_budget(cast, 1_000)
    assert "10.00 of 10.00" in budgets.why_blocked(project=cast.project, zone=UTC, now=NOW)
    adjust(cast, -300)
    assert budgets.why_blocked(project=cast.project, zone=UTC, now=NOW) == ""
    told = budgets.forecasts(project=cast.project, zone=UTC, now=NOW)["EUR"]
    assert (told.spent, told.expected) == (Fraction(7), Fraction(741))
    (standing,) = budgets.standings_of(projects=[cast.project], zone=UTC, now=NOW)
    assert standing.forecast == told
    # Of a month without any use, and in another month it is not.
    later = T0 + timedelta(days=40)
    Allocation.objects.all().delete()
    assert budgets.forecasts(project=cast.project, zone=UTC, now=NOW)["EUR"].spent == -3
    assert budgets.forecasts(project=cast.project, zone=UTC, now=later) == {}


def test_a_raised_budget_tells_anew_and_the_same_one_never_twice(cast: Cast) -> None:
    set_budget(cast, 1_000)
    assert [budgets.watch(zone=UTC, now=NOW) for _ in range(2)] == [1, 0]
    set_budget(cast, 2_000)
    assert budgets.watch(zone=UTC, now=NOW) == 0
    assert not BudgetAlert.objects.exists()
    assert budgets.watch(zone=UTC, now=T0 + timedelta(hours=16)) == 1
    assert messages(cast) == [100, 80]
    # A credit and what is used after it pass the threshold once more, of which the leads know.
    adjust(cast, -300)
    budgets.watch(zone=UTC, now=T0 + timedelta(hours=16))
    budgets.watch(zone=UTC, now=T0 + timedelta(hours=20))
    assert messages(cast) == [100, 80]


@pytest.mark.parametrize("currency", ["EUT", "eur", "EURO", "", "€€€"])
def test_a_currency_that_there_is_not_is_named(cast: Cast, currency: str) -> None:
    with pytest.raises(UnableToBudget) as refused:
        budgets.set_budget(
            project=cast.project, currency=currency, minor=100, thresholds=[], blocks=False,
            actor=cast.lead, now=NOW,
        )  # fmt: skip
    assert refused.value.field == "currency"
