"""Charges in the database: rated again they stay, what is closed never changes, and pages agree with them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import DatabaseError, transaction

from claims.history.curves import us
from claims.models import (
    Allocation,
    Charge,
    Consumer,
    CostCentre,
    Dispute,
    HoldPod,
    Price,
    PriceBook,
    PriceRule,
    Request,
    Statement,
)
from claims.money import rated
from claims.money.books import Centres
from claims.money.charges import charges, charges_of_request
from claims.money.disputing import open_dispute
from claims.money.months import Month
from claims.money.rated import rate_claims, rate_month
from claims.requests.running import running
from inventory.models import Cluster, NamespaceBinding
from portal.accounts.models import Project, User

MARCH = Month(2026, 3)
T0 = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="c1", created_at=T0)


@pytest.fixture
def tides(db: None) -> Project:
    return Project.objects.create(slug="tides", name="Tides", cost_centre="GEO", created_at=T0)


@pytest.fixture(autouse=True)
def prices(db: None) -> PriceBook:
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - 999 * HOUR)
    Price.objects.create(book=book, per_hour=Decimal(3))
    return book


def hold(cluster: Cluster, start: datetime, end: datetime | None, **values: Any) -> Allocation:
    number = Allocation.objects.count()
    named = {"claim_uid": f"u{number}", "device_name": f"g{number}", "namespace": "n", "epoch": 1}
    return Allocation.objects.create(
        cluster=cluster, started_at=start, ended_at=end, **{**named, "product": "H100", **values}
    )


def close(project: Project | None, month: Month = MARCH) -> None:
    start, end = month.bounds(UTC)
    Charge.objects.filter(project=project, month=str(month)).update(closed=True)
    Statement.objects.create(
        project=project, month=str(month), zone="UTC", starts_at=start, ends_at=end, state="closed",
        closed_at=end, digest="x",
    )  # fmt: skip


def total(**where: Any) -> Fraction:
    return sum((c.amount() or Fraction(0) for c in Charge.objects.filter(**where)), start=Fraction(0))


def test_rating_again_changes_nothing(cluster: Cluster, tides: Project) -> None:
    hold(cluster, T0, T0 + 10 * HOUR, project=tides)
    assert rate_month(month=MARCH, zone=UTC).added == 1
    before = list(Charge.objects.values())
    assert rate_month(month=MARCH, zone=UTC).nothing
    assert list(Charge.objects.values()) == before
    assert total() == 30


def test_an_open_month_follows_the_ledger(cluster: Cluster, tides: Project) -> None:
    row = hold(cluster, T0, None, project=tides)
    rate_month(month=MARCH, zone=UTC)
    assert total() == 3 * 744
    Allocation.objects.filter(pk=row.pk).update(ended_at=T0 + 2 * HOUR)
    assert rate_month(month=MARCH, zone=UTC).changed == 1
    assert total() == 6
    row.delete()
    assert rate_month(month=MARCH, zone=UTC).removed == 1
    assert not Charge.objects.exists()


def test_charges_keep_their_key_when_the_ledger_is_folded_anew(cluster: Cluster, tides: Project) -> None:
    row = hold(cluster, T0, T0 + HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    Allocation.objects.all().delete()
    row.pk = None
    row.save(force_insert=True)
    assert rate_month(month=MARCH, zone=UTC).nothing


def test_a_closed_month_is_corrected_in_the_next_open_one(cluster: Cluster, tides: Project) -> None:
    row = hold(cluster, T0, T0 + 10 * HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    close(tides)
    Allocation.objects.filter(pk=row.pk).update(ended_at=T0 + 8 * HOUR)
    assert rate_month(month=MARCH, zone=UTC).corrected == 1
    correction = Charge.objects.get(kind=Charge.Kind.CORRECTION)
    assert correction.fixed == Fraction(-6)
    assert (correction.month, correction.note) == ("2026-04", "2026-03")
    assert correction.origin == Charge.objects.get(kind=Charge.Kind.USAGE)
    assert rate_month(month=MARCH, zone=UTC).nothing
    # Once that month is closed as well, only what differs from both is corrected, later still.
    close(tides, Month(2026, 4))
    row.delete()
    rate_month(month=MARCH, zone=UTC)
    late = Charge.objects.get(kind=Charge.Kind.CORRECTION, month="2026-05")
    assert late.fixed == -24
    assert total(kind="usage") + total(kind="correction") == 0


def test_a_correction_into_another_currency_is_one_of_each(cluster: Cluster, tides: Project) -> None:
    hold(cluster, T0 + HOUR, T0 + 10 * HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    close(tides)
    # As if it had been published at the moment of closing.
    dollars = PriceBook.objects.create(name="$", currency="USD", valid_from=T0)
    Price.objects.create(book=dollars, per_hour=Decimal(4))
    for _again in range(2):
        rate_month(month=MARCH, zone=UTC)
        found = [(c.currency, c.fixed) for c in Charge.objects.filter(kind="correction")]
        assert sorted(found) == [("EUR", -27), ("USD", 36)]
    close(tides, MARCH.next())
    Allocation.objects.all().delete()
    for _again in range(2):
        rate_month(month=MARCH, zone=UTC)
        assert total(currency="USD") == 0


def test_a_correction_that_is_disputed_still_becomes_another(cluster: Cluster, tides: Project) -> None:
    row = hold(cluster, T0, T0 + 10 * HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    close(tides)
    lea = User.objects.create(username="lea")
    for hours in (12, 13, 10, 9):
        row.ended_at = T0 + hours * HOUR
        row.save()
        rate_month(month=MARCH, zone=UTC)
        found = Charge.objects.get(kind="correction")
        assert found.fixed == 3 * (hours - 10)
        dispute = Dispute.objects.filter(state="open").first()
        assert dispute is None or dispute.charge == found
        if dispute is None:
            open_dispute(charge=found, text="No.", actor=lea, now=T0)
    assert rate_month(month=MARCH, zone=UTC).nothing


def test_a_correction_that_proves_wrong_goes_away_while_it_is_open(cluster: Cluster, tides: Project) -> None:
    row = hold(cluster, T0, T0 + 10 * HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    close(tides)
    for hours, left in ((8, 1), (10, 0)):
        Allocation.objects.filter(pk=row.pk).update(ended_at=T0 + hours * HOUR)
        rate_month(month=MARCH, zone=UTC)
        assert Charge.objects.filter(kind=Charge.Kind.CORRECTION).count() == left


def test_a_correction_of_what_another_pays_for_by_now_is_taken_back(cluster: Cluster, tides: Project) -> None:
    dunes = Project.objects.create(slug="dunes", name="Dunes", created_at=T0)
    close(tides)
    row = hold(cluster, T0, T0 + HOUR, project=tides)
    assert rate_month(month=MARCH, zone=UTC).corrected == 1
    assert total(project=tides, kind="correction", month="2026-04") == 3
    # Its namespace was bound to the wrong project.
    Allocation.objects.filter(pk=row.pk).update(project=dunes)
    rate_month(month=MARCH, zone=UTC)
    assert [total(project=tides), total(project=dunes), total()] == [0, 3, 3]
    assert rate_month(month=MARCH, zone=UTC).nothing


@pytest.mark.parametrize("billed", [False, True], ids=["not billed yet", "billed"])
@pytest.mark.parametrize("alone", [False, True], ids=["with its month", "by itself"])
def test_a_correction_of_what_never_was_is_taken_back(
    cluster: Cluster, tides: Project, billed: bool, alone: bool
) -> None:
    close(tides)
    row = hold(cluster, T0, T0 + HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    if billed:
        close(tides, Month(2026, 4))
    source = Charge.objects.get(kind="correction").source
    row.delete()
    for _again in range(2):
        if alone:
            rate_claims(month=MARCH, zone=UTC, claims={}, gone=[source])
        else:
            rate_month(month=MARCH, zone=UTC)
        told = {c.month: c.fixed for c in Charge.objects.filter(kind="correction")}
        assert told == ({"2026-04": 3, "2026-05": -3} if billed else {})


def test_a_month_that_is_closed_while_it_is_rated_gets_no_more_charges(
    cluster: Cluster, tides: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stays(*_rows: Any) -> Any:
        if not Statement.objects.exists():
            close(tides)
        return {}

    hold(cluster, T0, T0 + HOUR, project=tides)
    monkeypatch.setattr(rated, "stays_of", stays)
    for _again in range(2):
        rate_month(month=MARCH, zone=UTC)
        (charge,) = Charge.objects.all()
        assert (charge.kind, charge.month) == ("correction", "2026-04")
        assert charge.amount() == 3


def test_a_correction_is_known_by_its_month_whatever_the_zone_of_months_is_by_now(
    cluster: Cluster, tides: Project
) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    hold(
        cluster,
        datetime(2026, 3, 31, 22, 30, tzinfo=UTC),
        datetime(2026, 3, 31, 23, 30, tzinfo=UTC),
        project=tides,
    )
    rate_month(month=MARCH, zone=UTC)
    close(tides)
    # There, that hour is of April.
    assert rate_month(month=MARCH, zone=berlin).corrected == 1
    assert rate_month(month=MARCH, zone=berlin).nothing
    rate_month(month=Month(2026, 4), zone=berlin)
    assert [total(month="2026-03"), total(month="2026-04"), total()] == [3, 0, 3]


def test_what_nobody_paid_for_is_moved_to_who_does(cluster: Cluster, tides: Project) -> None:
    row = hold(cluster, T0, T0 + HOUR, project=None)
    rate_month(month=MARCH, zone=UTC)
    close(None)
    Allocation.objects.filter(pk=row.pk).update(project=tides)
    rate_month(month=MARCH, zone=UTC)
    assert total(project=None) == 0
    assert total(project=tides) == 3
    assert Charge.objects.get(project=tides).kind == Charge.Kind.USAGE


def test_what_is_closed_is_refused_by_the_database(cluster: Cluster, tides: Project) -> None:
    hold(cluster, T0, T0 + HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    close(tides)
    for change in (
        lambda: Charge.objects.update(ended_us=0),
        lambda: Charge.objects.all().delete(),
        lambda: Statement.objects.update(digest="y"),
    ):
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            change()


def test_pages_and_charges_come_to_the_same(cluster: Cluster, tides: Project, prices: PriceBook) -> None:
    other = Project.objects.create(slug="dunes", name="Dunes", created_at=T0)
    NamespaceBinding.objects.create(
        cluster=cluster, namespace="moved", project=tides, valid_from=T0 - HOUR, valid_until=T0 + 30 * HOUR
    )
    NamespaceBinding.objects.create(
        cluster=cluster, namespace="moved", project=other, valid_from=T0 + 40 * HOUR
    )
    later = PriceBook.objects.create(name="later", currency="EUR", valid_from=T0 + 50 * HOUR)
    Price.objects.create(book=later, per_hour=Decimal("4.123456"))
    PriceRule.objects.create(book=later, position=0, use="unused", per_hour=Decimal("1.5"))
    hold(cluster, T0, T0 + 100 * HOUR, project=tides, namespace="moved")
    hold(cluster, T0 - HOUR, None, project=other)
    hold(cluster, T0 + HOUR, T0 + 3 * HOUR, namespace="nobodys", share_id="s",
         consumed_capacity={"memory": "10Gi"}, capacity={"memory": {"value": "30Gi"}})  # fmt: skip
    hold(cluster, T0, T0 + 9 * HOUR, project=tides, kind="units", units=3, replicas=4, share_id="")
    rate_month(month=MARCH, zone=UTC)
    start, end = MARCH.bounds(UTC)
    told = charges(start=start, end=end, now=end)
    by_project: dict[int | None, Fraction] = {}
    for line in told.lines:
        by_project[line.project_id] = by_project.get(line.project_id, Fraction(0)) + (line.exact or 0)
    assert by_project == {p: total(project=p) for p in (tides.pk, other.pk, None)}
    assert len(by_project) == 3


def test_a_charge_is_cut_where_its_cost_centre_changes(cluster: Cluster, tides: Project) -> None:
    CostCentre.objects.create(
        project=tides, code="OLD", valid_from=T0 - HOUR, valid_until=T0 + HOUR, recorded_at=T0
    )
    hold(cluster, T0, T0 + 3 * HOUR, project=tides)
    rate_month(month=MARCH, zone=UTC)
    rows = Charge.objects.order_by("started_us").values_list("cost_centre", flat=True)
    assert list(rows) == ["OLD", "GEO"]
    assert Centres().of(tides.pk, T0) == "OLD"


def test_what_a_request_has_cost_so_far_is_what_is_charged(
    cluster: Cluster, tides: Project, prices: PriceBook
) -> None:
    later = PriceBook.objects.create(name="later", currency="EUR", valid_from=T0 + 3 * HOUR)
    Price.objects.create(book=later, per_hour=Decimal(4))
    PriceRule.objects.create(book=later, position=0, use="unused", per_hour=Decimal(1))
    rhea = User.objects.create(username="rhea")
    request = Request.objects.create(
        project=tides, requester=rhea, cluster=cluster, namespace="n", count=1, shape="claim",
        duration=99 * HOUR, purpose="x", created_at=T0, changed_at=T0, object_name="claim",
    )  # fmt: skip
    hold(cluster, T0, None, project=tides, request=request, claim_uid="u", claim_name="claim")
    for name, joined, left in (("claim-hold", 0, None), ("work", 5, 7)):
        Consumer.objects.create(
            cluster=cluster, claim_uid="u", epoch=1, resource="pods", name=name, uid=name,
            joined_at=T0 + joined * HOUR, left_at=None if left is None else T0 + left * HOUR,
        )  # fmt: skip
    HoldPod.objects.create(cluster=cluster, pod_uid="claim-hold", request=request, made=True)
    rate_month(month=MARCH, zone=UTC)
    now = T0 + 10 * HOUR
    charged = sum((c.amount(end_us=us(now)) or 0 for c in Charge.objects.all()), start=Fraction(0))
    # Three hours by the first book, two of use at 4, and five in which nobody but the desk's Pod held it.
    assert charged == 3 * 3 + 2 * 4 + 5 * 1
    (line,) = running([request], now=now)
    assert line.totals == charges_of_request(request=request, now=now).totals == {"EUR": charged}
