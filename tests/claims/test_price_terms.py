"""What a price book may say, and what it means for a use of a device."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from claims.models import CostCentre, Price, PriceBook, PriceRule
from claims.money.books import (
    CAPACITY,
    COUNTERS,
    IDLE,
    UNUSED,
    Book,
    Centres,
    Discount,
    Kind,
    PriceList,
    Rule,
)
from claims.money.books import price_list as stored_prices
from claims.money.price_books import publish
from claims.money.price_terms import UnableToPrice, document_of, read_terms, tidied
from inventory.models import DeviceProfile
from portal.accounts.models import Project

T0 = datetime(2026, 3, 1, tzinfo=UTC)
MEMORY = "gpu.example.com/memory"
GOOD: dict[str, Any] = {
    "name": "2027",
    "currency": "EUR",
    "note": "",
    "prices": [{"device_class": "", "product": "", "per_hour": "2.50"}],
    "rules": [],
    "discounts": [],
}
pytestmark = pytest.mark.django_db


def book(*rules: Rule, **more: Any) -> Book:
    return Book(name="b", currency="EUR", valid_from=T0, prices={("", ""): Decimal(1)}, rules=rules, **more)


def priced(book: Book, kind: Kind) -> object:
    rate = book.rate(kind)
    return (rate.price, rate.quantity) if rate else None


def test_the_first_rule_that_is_for_a_use_prices_it() -> None:
    told = book(
        Rule(per_hour=Decimal(7), device_class="gpu", product="H100"),
        Rule(per_hour=Decimal(5), device_class="gpu"),
        Rule(per_hour=Decimal(6), product="H100"),
    )
    assert priced(told, Kind(device_class="gpu", product="H100")) == (7, 1)
    assert priced(told, Kind(device_class="gpu", product="A100")) == (5, 1)
    assert priced(told, Kind(device_class="fpga", product="H100")) == (6, 1)
    assert priced(told, Kind(device_class="fpga")) == (1, 1)


def test_a_share_of_a_device_costs_its_share() -> None:
    assert priced(book(), Kind(share=Fraction(1, 3))) == (1, Fraction(1, 3))


def test_capacity_is_counted_in_the_units_of_its_price() -> None:
    told = book(Rule(per_hour=Decimal("0.02"), unit=CAPACITY, capacity=MEMORY, per="1Gi"))
    whole = Kind(capacity={MEMORY: {"value": "80Gi"}})
    part = Kind(capacity={MEMORY: {"value": "80Gi"}}, consumed={MEMORY: "1536Mi"})
    assert priced(told, whole) == (Decimal("0.02"), 80)
    assert priced(told, part) == (Decimal("0.02"), Fraction(3, 2))
    # What has no such capacity is priced by what comes after.
    assert priced(told, Kind()) == (1, 1)


def test_a_partition_costs_its_largest_share_of_the_counters() -> None:
    told = book(Rule(per_hour=Decimal(8), unit=COUNTERS))
    counters = {"set/memory": {"used": "10Gi", "total": "80Gi"}, "set/slices": {"used": "2", "total": "7"}}
    assert priced(told, Kind(counters=counters)) == (8, Fraction(2, 7))
    assert priced(told, Kind()) == (1, 1)


def test_an_expression_asks_the_profile() -> None:
    DeviceProfile.objects.create(
        digest="a" * 64, driver="gpu.example.com", attributes={"gpu.example.com/nvlink": {"bool": True}},
        capacity={},
    )  # fmt: skip
    said = 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].nvlink'
    told = book(Rule(per_hour=Decimal(9), expression=said))
    assert priced(told, Kind(profile="a" * 64)) == (9, 1)
    # An expression that cannot be evaluated is for nothing.
    assert priced(told, Kind(profile="b" * 64)) == (1, 1)
    assert priced(book(Rule(per_hour=Decimal(9), expression="device.nothing")), Kind(profile="a" * 64)) == (
        1,
        1,
    )


def test_idle_time_costs_only_by_a_rule_and_unused_time_like_use_without_one() -> None:
    assert book().rate(Kind(use=IDLE)) is None
    assert priced(book(), Kind(use=UNUSED)) == (1, 1)
    told = book(Rule(per_hour=Decimal("0.5"), use=UNUSED), Rule(per_hour=Decimal("0.1"), use=IDLE))
    assert priced(told, Kind(use=UNUSED)) == (Decimal("0.5"), 1)
    assert priced(told, Kind(use=IDLE)) == (Decimal("0.1"), 1)
    assert priced(told, Kind()) == (1, 1)


def test_the_first_discount_for_a_project_or_its_cost_centre_is_taken_off_exactly() -> None:
    discounts = [
        Discount(percent=Decimal("33.3333"), project_id=1),
        Discount(percent=Decimal(50), cost_centre="A"),
    ]
    told = book(discounts=discounts)
    assert priced(told, Kind(project_id=1, cost_centre="A")) == (Decimal("0.666667"), 1)
    assert priced(told, Kind(project_id=2, cost_centre="A")) == (Decimal("0.5"), 1)
    assert priced(told, Kind(project_id=2)) == (1, 1)


def test_a_project_has_the_cost_centre_of_the_time() -> None:
    project = Project.objects.create(slug="p", name="P", cost_centre="now", created_at=T0)
    CostCentre.objects.create(
        project=project, code="then", valid_from=T0, valid_until=T0 + timedelta(days=1), recorded_at=T0
    )
    prices = PriceList(books=(book(discounts=[Discount(percent=Decimal(50), cost_centre="then")]),))
    assert [s for s, _e, _b in prices.segments(T0, T0 + timedelta(days=2))] == [T0, T0 + timedelta(days=1)]
    assert prices.placed(Kind(project_id=project.pk), T0).cost_centre == "then"
    assert prices.placed(Kind(project_id=project.pk), T0 + timedelta(days=1)).cost_centre == "now"
    assert Centres().of(project.pk, T0 - timedelta(days=1)) == "now"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": " "}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"currency": "euro"}, "currency"),
        ({"prices": []}, "__all__"),
        ({"prices": "x"}, "prices"),
        ({"prices": [{"per_hour": "2,50"}]}, "prices.0.per_hour"),
        ({"prices": [{"per_hour": "1e3"}]}, "prices.0.per_hour"),
        ({"prices": [{"per_hour": "-1"}]}, "prices.0.per_hour"),
        ({"prices": [{"per_hour": "0.0000001"}]}, "prices.0.per_hour"),
        ({"prices": [{"per_hour": "1"}, {"per_hour": "2"}]}, "prices.1.product"),
        ({"prices": [{"per_hour": "1", "colour": "red"}]}, "prices.0"),
        ({"rules": [{"per_hour": "1", "expression": "device.("}]}, "rules.0.expression"),
        (
            {"rules": [{"per_hour": "1", "expression": 'device.attributes["a.example.com"].uuid == "1"'}]},
            "rules.0.expression",
        ),
        ({"rules": [{"per_hour": "1", "use": "idle", "device_class": "gpu"}]}, "rules.0.device_class"),
        ({"rules": [{"per_hour": "1", "use": "idle", "resource": "a.com/gpu"}]}, "rules.0.resource"),
        ({"rules": [{"per_hour": "1", "use": "idle", "unit": "counters"}]}, "rules.0.unit"),
        ({"currency": "EUT"}, "currency"),
        ({"rules": [{"per_hour": "1", "profile": "nix"}]}, "rules.0.profile"),
        ({"rules": [{"per_hour": "1", "unit": "capacity", "per": "1Gi"}]}, "rules.0.capacity"),
        ({"rules": [{"per_hour": "1", "unit": "capacity", "capacity": "m"}]}, "rules.0.per"),
        ({"rules": [{"per_hour": "1", "per": "1Gi"}]}, "rules.0.per"),
        ({"rules": [{"per_hour": "1", "use": "often"}]}, "rules.0.use"),
        ({"discounts": [{"percent": "10"}]}, "discounts.0.project"),
        ({"discounts": [{"percent": "10", "project": "none"}]}, "discounts.0.project"),
        ({"discounts": [{"percent": "101", "cost_centre": "A"}]}, "discounts.0.percent"),
        ({"discounts": [{"percent": "0", "cost_centre": "A"}]}, "discounts.0.percent"),
    ],
)
def test_what_makes_no_sense_is_named_where_it_stands(change: dict[str, Any], path: str) -> None:
    with pytest.raises(UnableToPrice) as unable:
        read_terms(GOOD | change)
    assert list(unable.value.errors) == [path]


def test_what_is_published_is_what_was_said_and_never_changes() -> None:
    Project.objects.create(slug="tides", name="Tides", created_at=T0)
    said = tidied(
        GOOD
        | {
            "rules": [
                {"label": "idle", "use": "idle", "unit": "device", "per_hour": "0.1"},
                {"use": "held", "unit": "capacity", "capacity": MEMORY, "per": "1Gi", "per_hour": "0.02"},
            ],
            "discounts": [{"project": "tides", "percent": "12.5"}],
        }
    )
    row = publish(terms=read_terms(said), valid_from=T0, now=T0, actor=None)
    slugs = dict(Project.objects.values_list("pk", "slug"))
    assert document_of(stored_prices().books[0], slugs=slugs) == said
    for change in (
        lambda: PriceBook.objects.filter(pk=row.pk).update(currency="USD"),
        lambda: Price.objects.update(per_hour=0),
        lambda: PriceRule.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            change()
