"""What comes late: moves that were planned, uses that turn out otherwise months later, and idle cost that was
passed on before everything was known."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.cache import cache

from claims.history.curves import us
from claims.models import (
    Allocation,
    Charge,
    ChargeMonth,
    CostCentre,
    LedgerCursor,
    Price,
    PriceBook,
    PriceDiscount,
)
from claims.money import closing
from claims.money.books import Centres
from claims.money.centres import assign, settle
from claims.money.disputing import answer, open_dispute
from claims.money.explaining import explain
from claims.money.idle_cost import pass_on
from claims.money.rated import rate_month
from claims.money.rating import content_of
from claims.money.statements import told_of
from claims.money.tasks import rate_changed
from inventory.models import NamespaceBinding, Observation
from portal.accounts.models import Project, User
from portal.accounts.projects import change_project
from tests.claims.test_statements import APRIL, HOUR, MARCH, T0, ada, closed, finn, leo, tides, told, used

__all__ = ["ada", "finn", "leo", "tides", "used"]
pytestmark = pytest.mark.django_db


def test_a_move_that_was_planned_is_shown_when_it_is_due_and_not_taken_back(
    tides: Project, ada: User
) -> None:
    assign(project=tides, code="ICE", valid_from=T0 + 9 * HOUR, actor=ada, now=T0)
    assert settle(now=T0 + 8 * HOUR) == 0
    # Due, and not shown yet: a new name says nothing about the cost centre.
    tides.name = "Tides and waves"
    tides.save(update_fields=["name"])
    assert Centres().of(tides.pk, T0 + 10 * HOUR) == "ICE"
    assert settle(now=T0 + 9 * HOUR) == 1
    tides.refresh_from_db()
    assert tides.cost_centre == "ICE"
    assert settle(now=T0 + 10 * HOUR) == 0
    assert CostCentre.objects.filter(project=tides).count() == 2


def test_another_cost_centre_typed_into_the_form_is_none_of_what_is_past(
    tides: Project, used: list[Allocation], ada: User
) -> None:
    book = PriceBook.objects.create(name="less", currency="EUR", valid_from=T0 - HOUR)
    Price.objects.create(book=book, per_hour=Decimal(1))
    PriceDiscount.objects.create(book=book, position=0, cost_centre="GEO", percent=Decimal(50))
    closed(tides, ada)
    # The namespace was its own before the desk knew the project.
    NamespaceBinding.objects.create(
        cluster=used[0].cluster, namespace="n", project=tides, valid_from=T0 - 999 * HOUR
    )
    change_project(
        project=tides, name="Tides", description="", cost_centre="ICE", actor=ada,
        now=datetime(2026, 4, 3, tzinfo=UTC),
    )  # fmt: skip
    rate_month(month=MARCH, zone=UTC)
    assert not Charge.objects.filter(kind=Charge.Kind.CORRECTION).exists()
    centres = Centres()
    known = CostCentre.objects.get(project=tides, code="ICE").valid_from
    moments = (T0 - 999 * HOUR, T0, known - timedelta(seconds=1), known)
    assert [centres.of(tides.pk, at) for at in moments] == ["GEO", "GEO", "GEO", "ICE"]


def test_what_comes_late_is_charged_in_months_long_past_too(tides: Project, used: list[Allocation]) -> None:
    cache.clear()
    autumn = datetime(2026, 9, 5, tzinfo=UTC)
    rate_changed(now=autumn)
    before = told(tides).totals["EUR"]
    used[0].ended_at = T0 + 10 * HOUR
    used[0].save()
    LedgerCursor.objects.create(cluster=used[0].cluster, changes=1)
    # Not at once, and each no more often than once a day.
    assert MARCH not in rate_changed(now=autumn)
    cache.delete(f"claims:late:{MARCH}")
    assert MARCH in rate_changed(now=autumn)
    assert told(tides).totals["EUR"] == before + Decimal("9.67")
    cache.clear()


def test_what_was_held_long_before_anybody_looked_is_charged_too(
    tides: Project, used: list[Allocation]
) -> None:
    """A cluster is added that has held devices since before the desk was there."""
    cache.clear()
    Charge.objects.all().delete()
    ChargeMonth.objects.all().delete()
    rate_changed(now=datetime(2026, 9, 5, tzinfo=UTC))
    assert told(tides).totals == {"EUR": Decimal("1.00")}
    cache.clear()


def test_idle_cost_is_passed_on_by_what_was_used_in_the_end(
    tides: Project, used: list[Allocation], finn: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "rate_idle", lambda **_more: 0)
    dunes = Project.objects.create(slug="dunes", name="Dunes", created_at=T0)
    idle = Charge(
        kind=Charge.Kind.IDLE, source="idle", month=str(MARCH), started_us=us(T0),
        ended_us=us(T0 + 30 * HOUR), currency="EUR", list_micros=1_000_000, use="idle",
        quantity=Fraction(1),  # type: ignore[misc] # the field takes fractions
    )  # fmt: skip
    idle.content = content_of(idle)
    idle.save()
    pass_on(month=MARCH, zone=UTC, actor=finn, now=APRIL)
    shared = Charge.objects.filter(kind=Charge.Kind.SHARED)
    assert {charge.project: charge.fixed for charge in shared} == {tides: 30, None: -30}
    # What a project disputes of it hinders nobody.
    disputed = shared.get(project=tides)
    answer(
        dispute=open_dispute(charge=disputed, text="No.", actor=finn, now=APRIL), state="rejected",
        text="Yes.", actor=finn, now=APRIL,
    )  # fmt: skip
    # It turns out that somebody else used as much.
    Allocation.objects.filter(pk__in=[row.pk for row in used[:2]]).delete()
    Allocation.objects.create(
        cluster=used[0].cluster, namespace="n", claim_uid="late", device_name="g9", epoch=1, product="A",
        project=dunes, started_at=T0, ended_at=T0 + timedelta(minutes=40),
    )  # fmt: skip
    closed(tides, finn)
    assert {charge.project: charge.fixed for charge in shared.all()} == {tides: 10, dunes: 20, None: -30}
    # One is closed: from now on it stays as it is.
    Allocation.objects.filter(project=dunes).update(ended_at=T0 + 9 * HOUR)
    closed(dunes, finn)
    assert {charge.project: charge.fixed for charge in shared.all()} == {tides: 10, dunes: 20, None: -30}


def test_an_explanation_tells_what_a_share_is_made_of_and_of_which_allocation(
    tides: Project, used: list[Allocation]
) -> None:
    shared = Allocation.objects.create(
        cluster=used[0].cluster, namespace="n", claim_uid="shared", claim_name="s", device_name="g7",
        epoch=60, product="A", project=tides, share_id="x", started_at=T0, ended_at=T0 + HOUR,
        consumed_capacity={"gpu.example.com/memory": "10Gi", "gpu.example.com/cores": "50"},
        capacity={"gpu.example.com/memory": {"value": "40Gi"}, "gpu.example.com/cores": {"value": "100"}},
    )  # fmt: skip
    for epoch in range(1, 61):
        Observation.objects.create(
            cluster=used[0].cluster, kind="claim-allocated", uid="shared", key=f"shared/{epoch}", name="s",
            namespace="n", at=T0 + timedelta(seconds=epoch), observed_at=T0 + HOUR, source="observed",
            facts={"epoch": epoch},
        )  # fmt: skip
    rate_month(month=MARCH, zone=UTC)
    charge = Charge.objects.get(claim_uid=shared.claim_uid)
    told_ = explain(charge=charge, now=APRIL)
    assert charge.quantity == Fraction(1, 2)
    assert told_.amounts == [
        ("gpu.example.com/cores", "50", "100"),
        ("gpu.example.com/memory", "10Gi", "40Gi"),
    ]
    assert [seen.key for seen in told_.observations] == ["shared/60"]


def test_a_month_is_closed_as_it_was_rated_where_the_zone_is_another_since_its_review(
    tides: Project, used: list[Allocation], finn: User
) -> None:
    west = ZoneInfo("America/New_York")
    start, end = MARCH.bounds(west)
    Allocation.objects.update(started_at=end - HOUR, ended_at=end + HOUR)
    common: dict[str, Any] = {"project": tides, "month": MARCH, "actor": finn, "now": APRIL}
    closing.move(**common, zone=UTC, action="review")
    row = closing.close(**common, zone=west)
    assert (row.zone, row.starts_at, row.ends_at) == (str(west), start, end)
    assert told_of(project=tides, month=MARCH, bounds=(start, end), now=APRIL).totals == {"EUR": 3}
