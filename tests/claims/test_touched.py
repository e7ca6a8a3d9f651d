"""Only what was written of the ledger is rated anew, and it comes to what rating everything does."""

import random
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.cache import cache

from claims.ledger import storage
from claims.models import Allocation, Charge, LedgerCursor, LedgerTouch, Price, PriceBook, PriceRule, Request
from claims.money import tasks, touched
from claims.money.months import Month
from claims.money.rated import rate_claims, rate_month
from inventory.models import Cluster, Observation
from portal.accounts.models import Project
from tests.claims.conftest import NOW
from tests.claims.mirror import observe
from tests.claims.test_ledger import live

__all__ = ["live"]
Kind = Observation.Kind
LATER = NOW + timedelta(hours=6)
THIS = Month.of(NOW, UTC)


@pytest.fixture(autouse=True)
def told(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which way months were rated, and how many claims: what tests look at."""
    settings.ORGANISATION_ZONE = "UTC"
    cache.clear()
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=NOW - timedelta(days=999))
    Price.objects.create(book=book, per_hour=Decimal(3))
    PriceRule.objects.create(book=book, position=0, use="unused", per_hour=Decimal(1))
    ways: list[tuple[str, int]] = []

    def whole(**asked: Any) -> Any:
        ways.append(("all", 0))
        return rate_month(**asked)

    def some(**asked: Any) -> Any:
        ways.append(("some", sum(map(len, asked["claims"].values()))))
        return rate_claims(**asked)

    monkeypatch.setattr(tasks, "rate_month", whole)
    monkeypatch.setattr(tasks, "rate_claims", some)
    return ways


def rate(told: list[tuple[str, int]]) -> set[tuple[str, int]]:
    told.clear()
    tasks.rate_changed(now=LATER)
    return set(told)


def hold(live: Request, uid: str, first: float, last: float | None, *, device: str = "gpu-0") -> None:
    held = {"driver": "gpu.nvidia.com", "pool": "node-h100", "device": device, "request": "accelerator"}
    observe(live, Kind.CLAIM_ALLOCATED, first, uid=uid, devices=[held])
    if last is not None:
        observe(live, Kind.CLAIM_RELEASED, last, uid=uid)


def test_what_was_written_is_rated_and_forgotten(
    live: Request, cluster: Cluster, told: list[tuple[str, int]]
) -> None:
    hold(live, "one", 1, 61)
    storage.apply(cluster=cluster)
    assert rate(told) == {("all", 0)}
    assert rate(told) == set()
    hold(live, "two", 70, None)
    storage.apply(cluster=cluster)
    assert rate(told) == {("some", 1)}
    assert Charge.objects.count() == 2
    assert not LedgerTouch.objects.exists()
    assert rate_month(month=THIS, zone=UTC).nothing


def test_stays_of_pods_are_rated_too(live: Request, cluster: Cluster, told: list[tuple[str, int]]) -> None:
    hold(live, "one", 1, 61)
    storage.apply(cluster=cluster)
    rate(told)
    pod = {"resource": "pods", "api_group": "", "name": "work", "uid": "pod-work"}
    observe(live, Kind.CONSUMER_JOINED, 20, uid="one", consumer=pod)
    storage.apply(cluster=cluster)
    assert rate(told) == {("some", 1)}
    assert set(Charge.objects.values_list("use", flat=True)) == {"held", "unused"}
    assert rate_month(month=THIS, zone=UTC).nothing


def test_what_the_ledger_has_no_more_is_charged_no_more(
    live: Request, cluster: Cluster, told: list[tuple[str, int]]
) -> None:
    hold(live, "one", 1, 61)
    hold(live, "two", 70, 90)
    storage.apply(cluster=cluster)
    rate(told)
    Observation.objects.filter(uid="one").delete()
    storage.refold(cluster=cluster, uids=["one"])
    assert rate(told) == {("some", 1)}
    assert Charge.objects.get().claim_uid == "two"


@pytest.mark.parametrize("change", ["no note", "a rebuild that removes", "another book", "day"])
def test_everything_is_rated_where_it_is_not_known_what_was_written(
    live: Request, cluster: Cluster, told: list[tuple[str, int]], change: str
) -> None:
    hold(live, "one", 1, 61)
    hold(live, "two", 70, 90)
    storage.apply(cluster=cluster)
    rate(told)
    if change == "no note":
        Allocation.objects.filter(claim_uid="one").update(ended_at=NOW + timedelta(minutes=31))
        cursor = LedgerCursor.objects.get()
        LedgerCursor.objects.update(changes=cursor.changes + 1)
    elif change == "a rebuild that removes":
        Observation.objects.filter(uid="one").delete()
        storage.rebuild(cluster=cluster)
    elif change == "another book":
        PriceBook.objects.create(name="next", currency="EUR", valid_from=NOW + timedelta(minutes=80))
    else:
        told.clear()
        tasks.rate_changed(now=LATER + timedelta(days=1))
        assert set(told) == {("all", 0)}
        return
    assert rate(told) == {("all", 0)}
    assert rate_month(month=THIS, zone=UTC).nothing


def test_more_than_is_worth_it_is_everything(
    live: Request, cluster: Cluster, told: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.apply(cluster=cluster)
    rate(told)
    monkeypatch.setattr(touched, "MOST", 1)
    for number in range(2):
        hold(live, f"u{number}", 1, 61, device=f"gpu-{number}")
    storage.apply(cluster=cluster)
    assert rate(told) == {("all", 0)}


@pytest.mark.parametrize("seed", range(4))
def test_however_it_is_written_it_comes_to_the_same(
    live: Request, cluster: Cluster, told: list[tuple[str, int]], project: Project, seed: int
) -> None:
    dice = random.Random(seed)
    storage.apply(cluster=cluster)
    rate(told)
    for turn in range(8):
        for number in range(dice.randrange(1, 4)):
            first = dice.randrange(300)
            last = dice.choice([None, first + dice.randrange(1, 90)])
            # Two holders of one device, and epochs of one claim, are told in any order.
            hold(live, f"u{turn}-{number}", first, last, device=f"gpu-{dice.randrange(2)}")
        if dice.random() < 0.4:
            pod = {"resource": "pods", "api_group": "", "name": "w", "uid": f"w{turn}"}
            observe(live, Kind.CONSUMER_JOINED, dice.randrange(300), uid=f"u{turn}-0", consumer=pod)
        if dice.random() < 0.4:
            uid = f"u{dice.randrange(turn + 1)}-0"
            Observation.objects.filter(uid=uid, kind=Kind.CLAIM_RELEASED).delete()
            storage.refold(cluster=cluster, uids=[uid])
        storage.apply(cluster=cluster)
        assert {way for way, _claims in rate(told)} <= {"some"}
        assert rate_month(month=THIS, zone=UTC).nothing
