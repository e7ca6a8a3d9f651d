"""Statements add up, go their course, and are closed for good; what is wrong with them has its own course."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claims.models import (
    Adjustment,
    Allocation,
    BookedTotal,
    Charge,
    CostCentre,
    Price,
    PriceBook,
    Statement,
)
from claims.money import adjusting, budgets, centres, closing, disputing, explaining, reconciling
from claims.money.adjusting import UnableToAdjust
from claims.money.budgets import UnableToBudget, why_blocked
from claims.money.centres import UnableToAssign
from claims.money.closing import UnableToMove, verify
from claims.money.disputing import UnableToDispute
from claims.money.months import Month
from claims.money.rated import rate_month
from claims.money.reconciling import UnableToImport
from claims.money.statements import apportioned, overview, told_of
from inventory.models import Cluster
from portal.accounts.models import AuditEntry, Membership, Notification, Project, User

MARCH = Month(2026, 3)
T0 = datetime(2026, 3, 1, tzinfo=UTC)
APRIL = datetime(2026, 4, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
pytestmark = pytest.mark.django_db


@pytest.fixture
def tides() -> Project:
    return Project.objects.create(slug="tides", name="Tides", cost_centre="GEO", created_at=T0 - 99 * HOUR)


@pytest.fixture
def finn() -> User:
    return User.objects.create(username="finn", is_finance=True)


@pytest.fixture
def ada() -> User:
    return User.objects.create(username="ada", is_administrator=True)


@pytest.fixture
def leo(tides: Project) -> User:
    leo = User.objects.create(username="leo")
    Membership.objects.create(user=leo, project=tides, role="lead")
    return leo


@pytest.fixture
def used(tides: Project) -> list[Allocation]:
    """Three uses whose thirds of a cent have to be put somewhere."""
    cluster = Cluster.objects.create(name="c1", created_at=T0)
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - 999 * HOUR)
    Price.objects.create(book=book, per_hour=Decimal(1))
    rows = []
    for number, product in enumerate(("A", "B", "C")):
        rows.append(
            Allocation.objects.create(
                cluster=cluster, namespace="n", claim_uid=f"u{number}", device_name=f"g{number}", epoch=1,
                product=product, project=tides, started_at=T0, ended_at=T0 + timedelta(minutes=20),
            )
        )  # fmt: skip
    rate_month(month=MARCH, zone=UTC)
    return rows


def told(project: Project, now: datetime = APRIL) -> Any:
    return told_of(project=project, month=MARCH, bounds=MARCH.bounds(UTC), now=now)


def closed(project: Project, actor: User) -> Statement:
    common: dict[str, Any] = {
        "project": project, "month": MARCH, "zone": UTC, "actor": actor, "now": APRIL,
    }  # fmt: skip
    closing.move(**common, action="review")
    return closing.close(**common)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.fractions(min_value=-1000, max_value=1000, max_denominator=10**6), min_size=1, max_size=12)
)
def test_rounded_lines_sum_to_the_rounded_total(amounts: list[Fraction]) -> None:
    parts = apportioned(amounts, currency="EUR")
    assert sum(parts) == round(100 * sum(amounts, Fraction(0)))
    assert all(abs(part - 100 * exact) <= 1 for part, exact in zip(parts, amounts, strict=True))


def test_the_lines_of_a_statement_sum_to_its_total(tides: Project, used: list[Allocation]) -> None:
    statement = told(tides)
    assert [line.amount for line in statement.lines] == [Decimal("0.34"), Decimal("0.33"), Decimal("0.33")]
    assert statement.totals == {"EUR": Decimal("1.00")}
    (row,) = overview(month=MARCH, projects=[tides], unattributed=False, zone=UTC, now=APRIL)
    assert row.totals == statement.totals


def test_a_month_grows_until_it_is_over(tides: Project, used: list[Allocation]) -> None:
    Allocation.objects.update(ended_at=None)
    rate_month(month=MARCH, zone=UTC)
    assert told(tides, T0 + HOUR).totals == {"EUR": 3}
    assert told(tides, T0 + 2 * HOUR).totals == {"EUR": 6}
    assert told(tides).totals == {"EUR": 3 * 744}


def test_a_closed_statement_is_kept_with_a_digest_and_told(
    tides: Project, used: list[Allocation], finn: User, leo: User
) -> None:
    before = told(tides)
    row = closed(tides, finn)
    after = told(tides)
    assert [(line.key, line.minor) for line in after.lines] == [
        (line.key, line.minor) for line in before.lines
    ]
    assert verify(row)
    assert Notification.objects.get(person=leo).project == tides
    used[0].delete()
    rate_month(month=MARCH, zone=UTC)
    assert verify(row)
    assert told(tides).totals == before.totals
    assert Charge.objects.get(kind=Charge.Kind.CORRECTION).fixed == Fraction(-1, 3)


def test_a_statement_goes_its_course_only(tides: Project, used: list[Allocation], finn: User) -> None:
    common: dict[str, Any] = {"project": tides, "month": MARCH, "zone": UTC, "actor": finn}
    with pytest.raises(UnableToMove, match="not over"):
        closing.move(**common, action="review", now=T0 + HOUR)
    with pytest.raises(UnableToMove, match="is open"):
        closing.close(**common, now=APRIL)
    closing.move(**common, action="review", now=APRIL)
    closing.move(**common, action="reopen", now=APRIL)
    closed(tides, finn)
    with pytest.raises(UnableToMove, match="is closed"):
        closing.move(**common, action="reopen", now=APRIL)
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "statement.review", "statement.reopen", "statement.review", "statement.close",
    ]  # fmt: skip


def test_a_credit_note_needs_two_people_and_an_open_month(
    tides: Project, used: list[Allocation], finn: User, ada: User
) -> None:
    common: dict[str, Any] = {"project": tides, "currency": "EUR", "actor": finn, "now": APRIL}
    with pytest.raises(UnableToAdjust, match="nothing"):
        adjusting.propose(**common, month=MARCH, minor=0, reason="x")
    credit = adjusting.propose(**common, month=MARCH, minor=-50, reason="A broken node")
    assert told(tides).totals == {"EUR": 1}
    with pytest.raises(UnableToAdjust, match="second person"):
        adjusting.decide(adjustment=credit, approve=True, actor=finn, now=APRIL)
    closing.move(project=tides, month=MARCH, zone=UTC, action="review", actor=finn, now=APRIL)
    with pytest.raises(UnableToMove, match="second person"):
        closing.close(project=tides, month=MARCH, zone=UTC, actor=finn, now=APRIL)
    adjusting.decide(adjustment=credit, approve=True, actor=ada, now=APRIL)
    assert told(tides).totals == {"EUR": Decimal("0.50")}
    with pytest.raises(UnableToAdjust, match="already"):
        adjusting.decide(adjustment=credit, approve=False, actor=ada, now=APRIL)
    closing.close(project=tides, month=MARCH, zone=UTC, actor=finn, now=APRIL)
    with pytest.raises(UnableToAdjust, match="closed"):
        adjusting.propose(**common, month=MARCH, minor=-50, reason="More")


def test_a_dispute_has_a_course_and_holds_the_closing(
    tides: Project, used: list[Allocation], finn: User, leo: User
) -> None:
    charge = Charge.objects.order_by("pk")[0]
    dispute = disputing.open_dispute(charge=charge, text="We never had it", actor=leo, now=APRIL)
    with pytest.raises(UnableToDispute, match="already"):
        disputing.open_dispute(charge=charge, text="Again", actor=leo, now=APRIL)
    with pytest.raises(UnableToMove, match="disputed"):
        closed(tides, finn)
    disputing.answer(dispute=dispute, state="open", text="We look", actor=finn, now=APRIL)
    disputing.answer(dispute=dispute, state="rejected", text="You did", actor=finn, now=APRIL)
    with pytest.raises(UnableToDispute, match="over"):
        disputing.answer(dispute=dispute, state="open", text="But", actor=leo, now=APRIL)
    client = Client()
    client.force_login(finn)
    stale = client.post(reverse("dispute-detail", args=[dispute.pk]), {"state": "accepted", "text": "But"})
    assert stale.status_code == 422
    assert "The dispute is over." in stale.content.decode()
    assert list(dispute.entries.order_by("pk").values_list("state", flat=True)) == [
        "open",
        "open",
        "rejected",
    ]
    # What is disputed stays, though the ledger loses it.
    used[0].delete()
    rate_month(month=MARCH, zone=UTC)
    assert Charge.objects.get(pk=charge.pk).amount() == 0


def test_totals_of_the_house_are_compared(tides: Project, used: list[Allocation], finn: User) -> None:
    other = Project.objects.create(slug="dunes", name="Dunes", created_at=T0)
    text = "project;currency;amount\ntides;EUR;1.10\ndunes;EUR;2\n"
    assert reconciling.import_totals(text=text, month=MARCH, actor=finn, now=APRIL) == 2
    rows = reconciling.compare(
        month=MARCH, ours={(tides.pk, "EUR"): Decimal("1.00")}, projects={tides.pk: tides}
    )
    assert [(row.project, row.difference) for row in rows] == [(other, 2), (tides, Decimal("0.10"))]
    for wrong in ("", "a;b\n1;2", text + "tides;EUR;x\n", text + "nix;EUR;1\n", text + "tides;EUR;1\n", "\0"):
        with pytest.raises(UnableToImport):
            reconciling.import_totals(text=wrong, month=MARCH, actor=finn, now=APRIL)
    assert BookedTotal.objects.count() == 2


def test_a_budget_tells_once_per_threshold_and_blocks_when_it_is_spent(
    tides: Project, used: list[Allocation], leo: User
) -> None:
    common: dict[str, Any] = {"project": tides, "currency": "EUR", "actor": leo, "now": T0}
    budgets.set_budget(**common, minor=90, thresholds=[50, 100, 200], blocks=True)
    assert budgets.watch(zone=UTC, now=T0 + HOUR) == 1
    assert budgets.watch(zone=UTC, now=T0 + HOUR) == 0
    assert Notification.objects.get(person=leo).subject["values"]["percent"] == 111
    assert "1.00 of 0.90" in why_blocked(project=tides, zone=UTC, now=T0 + HOUR)
    budgets.set_budget(**common, minor=200, thresholds=[], blocks=True)
    assert why_blocked(project=tides, zone=UTC, now=T0 + HOUR) == ""
    with pytest.raises(UnableToBudget):
        budgets.set_budget(**common, minor=0, thresholds=[], blocks=False)
    budgets.set_budget(**common, minor=None, thresholds=[], blocks=False)
    assert budgets.standings(project=tides, zone=UTC, now=T0) == []


def test_a_forecast_takes_what_is_held_to_be_held_on(tides: Project, used: list[Allocation]) -> None:
    Allocation.objects.filter(pk=used[0].pk).update(ended_at=None)
    told_ = budgets.forecasts(project=tides, zone=UTC, now=T0 + HOUR)["EUR"]
    assert told_.spent == 1 + Fraction(2, 3)
    assert told_.expected == 744 + Fraction(2, 3)


def test_a_move_between_cost_centres_is_recorded_with_what_was_before(tides: Project, ada: User) -> None:
    centres.assign(project=tides, code="BIO", valid_from=T0, actor=ada, now=T0 + HOUR)
    centres.assign(project=tides, code="ART", valid_from=APRIL, actor=ada, now=T0 + HOUR)
    rows = CostCentre.objects.order_by("valid_from").values_list("code", "valid_from", "valid_until")
    assert list(rows) == [("GEO", T0 - 99 * HOUR, T0), ("BIO", T0, APRIL), ("ART", APRIL, None)]
    assert Project.objects.get().cost_centre == "BIO"
    with pytest.raises(UnableToAssign, match="already"):
        centres.assign(project=tides, code="X", valid_from=APRIL, actor=ada, now=T0)
    Project.objects.update(cost_centre="MED")
    tides.refresh_from_db()
    centres.follow(project=tides, now=T0 + 5 * HOUR)
    codes = CostCentre.objects.order_by("valid_from").values_list("code", flat=True)
    assert list(codes) == ["GEO", "BIO", "MED", "ART"]


def test_a_charge_is_explained_by_what_was_observed_and_by_the_price_of_then(
    tides: Project, used: list[Allocation]
) -> None:
    found = explaining.explain(charge=Charge.objects.order_by("source")[0], now=APRIL)
    assert found.allocation in used
    assert (found.exact, found.rounded) == (Fraction(1, 3), Decimal("0.33"))
    assert [price.per_hour for price in found.listed] == [1]
    Allocation.objects.all().delete()
    assert explaining.explain(charge=found.charge, now=APRIL).allocation is None


NO_LEDGER = "has no such interval"
OF_NOBODY: dict[str, Any] = {"kind": "idle", "use": "idle", "project": None, "claim_uid": ""}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (OF_NOBODY, "nobody held it"),
        ({"kind": "credit", "use": "", "fixed": "-1", "claim_uid": ""}, "a fixed amount"),
        ({"source": "gone"}, NO_LEDGER),
        ({}, "are kept in the archive"),
    ],
)
def test_the_page_of_a_charge_says_what_is_behind_it(
    client: Client, used: list[Allocation], ada: User, values: dict[str, Any], said: str
) -> None:
    charge = Charge.objects.order_by("source")[0]
    Charge.objects.filter(pk=charge.pk).update(**values)
    client.force_login(ada)
    html = client.get(reverse("charge-detail", args=[charge.pk])).content.decode()
    assert said in html
    assert (NO_LEDGER in html) == (said == NO_LEDGER)


# --- pages --------------------------------------------------------------------------------------------


def test_finance_closes_a_month_on_the_pages(
    client: Client, tides: Project, used: list[Allocation], finn: User, leo: User
) -> None:
    client.force_login(finn)
    page = client.get(reverse("statement-list"), {"month": "2026-03"}).content.decode()
    assert "Tides" in page
    for action in ("review", "close"):
        answer = client.post(reverse("statement-move-all", args=["2026-03", action]))
        assert answer.status_code == 303
    statement = Statement.objects.get(project=tides)
    assert statement.state == "closed"
    address = reverse("statement-detail", args=["2026-03", "tides"])
    assert statement.digest in client.get(address).content.decode()
    assert "1.00" in client.get(address, {"print": "1"}).content.decode()
    client.force_login(leo)
    exported = b"".join(client.get(reverse("statement-export", args=["2026-03", "tides"])))
    assert exported.count(b"closed") == 3
    assert client.get(reverse("statement-detail", args=["2026-99", "tides"])).status_code == 404


def test_its_period_is_told_in_the_organisations_zone_whatever_the_readers_is(
    client: Client, tides: Project, finn: User
) -> None:
    User.objects.filter(pk=finn.pk).update(time_zone="Asia/Shanghai")
    client.force_login(finn)
    address = reverse("statement-detail", args=["2026-03", "tides"])
    for told in (
        client.get(address),
        client.get(address, {"print": "1"}),
    ):
        assert ">2026-03-01 00:00</time> – <time" in told.content.decode()
    cost = client.get(reverse("cost"), {"from": "2026-03-01", "to": "2026-03-31"}).content.decode()
    assert "From 2026-03-01 00:00 until before 2026-04-01 00:00, UTC." in cost


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"amount": "x"}, "amount"),
        ({"amount": "-1"}, "amount"),
        ({"amount": "0.001"}, "amount"),
        ({"currency": "euro"}, "currency"),
        ({"month": "2026-3"}, "month"),
        ({"refers_to": "2025-01"}, "refers_to"),
        ({"reason": ""}, "reason"),
    ],
)
def test_a_wrong_adjustment_is_named_and_kept_as_typed(
    client: Client, tides: Project, finn: User, typed: dict[str, str], field: str
) -> None:
    client.force_login(finn)
    good = {
        "kind": "credit", "amount": "5", "currency": "EUR", "month": "2026-03", "refers_to": "",
        "reason": "A broken node",
    }  # fmt: skip
    answer = client.post(reverse("adjustment-create", args=["tides"]), good | typed)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert client.post(reverse("adjustment-create", args=["tides"]), good).status_code == 303
    assert Adjustment.objects.get().minor == -500


def test_a_wrong_draft_is_kept_and_named(client: Client, ada: User) -> None:
    client.force_login(ada)
    made = client.post(reverse("price-draft-create"))
    address = made["Location"]
    answer = client.post(
        address, {"version": "1", "name": "Neap", "currency": "EUR", "rules-0-per_hour": "1,5"}
    )
    assert answer.status_code == 422
    assert "“1,5” is not a price" in answer.content.decode()
    assert client.get(address).status_code == 200
    assert client.post(address, {"version": "1", "name": "Other"}).status_code == 422
    good = {"version": "2", "name": "Neap", "currency": "EUR", "rules-0-per_hour": "1.5", "try": "1"}
    answer = client.post(address, good)
    assert answer["Location"].endswith("/publish/")
    assert client.get(answer["Location"]).status_code == 200
    wrong = client.post(answer["Location"], {"version": "3", "valid_from": "soon"})
    assert wrong.status_code == 422
    assert client.post(answer["Location"], {"version": "3", "valid_from": "2026-12-01"}).status_code == 303
    assert PriceBook.objects.get().rules.get().per_hour == Decimal("1.5")


def test_a_book_that_is_published_while_a_month_is_closed_closes_nothing_by_other_prices(
    tides: Project, used: list[Allocation], finn: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    common: dict[str, Any] = {"month": MARCH, "zone": UTC, "actor": finn, "now": APRIL}
    closing.move(project=tides, **common, action="review")

    def rate_and_publish(*, month: Month, zone: Any) -> None:
        rate_month(month=month, zone=zone)
        book = PriceBook.objects.create(name="late", currency="EUR", valid_from=T0 - HOUR)
        Price.objects.create(book=book, per_hour=Decimal(2))

    monkeypatch.setattr(closing, "rate_month", rate_and_publish)
    with pytest.raises(UnableToMove, match="moved on"):
        closing.close(project=tides, **common)
    monkeypatch.setattr(closing, "rate_month", rate_month)
    closing.close(project=tides, **common)
    assert told(tides).totals == {"EUR": Decimal("2.00")}
