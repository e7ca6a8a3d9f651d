"""What is shown ahead is what is charged in the end: one amount exactly, a range around it, and no price
where there is none."""

import random
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from claims.history.curves import us
from claims.money.books import (
    CAPACITY,
    COUNTERS,
    DEVICE,
    HELD,
    UNUSED,
    Book,
    Discount,
    Kind,
    PriceList,
    Profiles,
    Rule,
)
from claims.money.expected import Candidate, Cost, expected
from claims.money.months import Month
from portal.dra.cel import DeviceView
from portal.dra.quantity import Quantity
from tests.claims.test_rating import T0, KnownCentres, rater, row

HOUR = timedelta(hours=1)
VIEWS = {
    name: DeviceView(
        driver="gpu.example.com",
        attributes={},
        capacities={"gpu.example.com/memory": Quantity.parse(memory)},
        allow_multiple_allocations=False,
        unusable=None,
    )
    for name, memory in (("small", "40Gi"), ("large", "80Gi"))
}
LARGE = "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('60Gi'))"
MEMORY = "gpu.example.com/memory"


def _rule(rng: random.Random) -> Rule:
    unit = rng.choice([DEVICE, DEVICE, CAPACITY, COUNTERS])
    return Rule(
        per_hour=Decimal(rng.randint(0, 5_000_000)).scaleb(-6),
        use=rng.choice([HELD, HELD, UNUSED]),
        device_class=rng.choice(["", "", "gpu", "other"]),
        product=rng.choice(["", "", "H100", "A100"]),
        profile=rng.choice(["", "", "", "small", "large"]),
        expression=rng.choice(["", "", LARGE]),
        unit=unit,
        capacity=MEMORY if unit == CAPACITY else "",
        per="10Gi" if unit == CAPACITY else "",
    )


def _book(rng: random.Random, start: Any) -> Book:
    listed = {(rng.choice(["", "gpu"]), rng.choice(["", "H100"])): Decimal(rng.randint(0, 400)).scaleb(-2)}
    return Book(
        name="book",
        currency="EUR",
        valid_from=start,
        prices=listed if rng.random() < 0.7 else {},
        rules=tuple(_rule(rng) for _ in range(rng.randint(0, 5))),
        discounts=rng.choice(
            [
                (),
                (Discount(percent=Decimal("12.5"), project_id=1),),
                (Discount(percent=Decimal(30), cost_centre="c1"),),
            ]
        ),
        profiles=Profiles(VIEWS),
    )


def _candidates(rng: random.Random) -> list[Candidate]:
    kinds = []
    for profile, product, memory in (("small", "A100", "40Gi"), ("large", "H100", "80Gi")):
        counters = {"set/slices": {"used": "2", "total": "7"}} if rng.random() < 0.5 else {}
        consumed = {MEMORY: "10Gi"} if rng.random() < 0.3 else {}
        kinds.append(
            Candidate(
                name=product,
                kind=Kind(
                    device_class="gpu", product=product, profile=profile, consumed=consumed,
                    counters=counters, capacity={MEMORY: {"value": memory}},
                    share=Fraction(1, 4 if profile == "small" else 8) if consumed else Fraction(1),
                ),
            )
        )  # fmt: skip
    return rng.sample(kinds, rng.randint(1, 2))


@pytest.mark.parametrize("seed", range(150))
def test_what_is_charged_lies_within_what_was_shown(seed: int) -> None:
    rng = random.Random(seed)
    start, duration = T0 + rng.randint(0, 50) * HOUR, rng.randint(1, 100) * HOUR
    books = [_book(rng, T0)] + ([_book(rng, T0 + 60 * HOUR)] if rng.random() < 0.4 else [])
    centres: Any = KnownCentres({1: [("c1", T0, T0 + 40 * HOUR)]})
    prices = PriceList(books=tuple(books), centres=centres)
    candidates, count = _candidates(rng), rng.randint(1, 4)
    shown = expected(candidates, prices, project=1, count=count, start=start, duration=duration)
    paid = Fraction(0)
    complete = True
    used_from = start + rng.randint(0, 100) * HOUR
    for number in range(count):
        given = rng.choice(candidates)
        kind = given.kind
        held = row(
            start, start + duration, device_name=f"g{number}", share_id="s" if kind.consumed else "",
            profile_digest=kind.profile, product=kind.product, consumed_capacity=kind.consumed,
            capacity=kind.capacity, counters=kind.counters,
        )  # fmt: skip
        charges = list(
            rater(prices, stays={(1, "u", 1): [(used_from, None)]}).charges(
                held, month=Month.parse("2028-01")
            )
        )
        assert us(start) == charges[0].started_us
        for charge in charges:
            amount = charge.amount()
            if amount is None:
                assert given.name in shown.unpriced
                complete = False
            else:
                paid += amount
    span = shown.amount
    if complete:
        assert span is not None
        assert span.low <= paid <= span.high
        if span.single:
            assert paid == span.low


def _shown(*candidates: Candidate, prices: dict[tuple[str, str], Decimal], **columns: Any) -> Cost:
    book = Book(name="b", currency="EUR", valid_from=T0, prices=prices, **columns)
    listed = PriceList(books=(book,), centres=KnownCentres({}))
    return expected(candidates, listed, project=1, count=2, start=T0, duration=10 * HOUR)


H100 = Candidate(name="H100", kind=Kind(device_class="gpu", product="H100"))
A100 = Candidate(name="A100", kind=Kind(device_class="gpu", product="A100"))


def test_devices_of_one_price_have_one_amount_others_a_range() -> None:
    one = _shown(H100, A100, prices={("", ""): Decimal("2.5")})
    assert one.amount is not None
    assert (one.amount.low, one.amount.high) == (Fraction(50), Fraction(50))
    assert one.hourly_words == "2.50"
    several = _shown(H100, A100, prices={("", ""): Decimal("2.5"), ("", "H100"): Decimal("4.1")})
    assert several.amount is not None
    assert (several.amount.low, several.amount.high) == (Fraction(50), Fraction(82))
    assert several.hourly_words == "2.50 – 4.10"


def test_what_has_no_price_is_named_and_counts_as_nothing() -> None:
    shown = _shown(H100, A100, prices={("", "H100"): Decimal(4)})
    assert shown.amount is not None
    assert (shown.amount.low, shown.amount.high) == (Fraction(80), Fraction(80))
    assert shown.unpriced == ("A100",)
    assert _shown(A100, prices={}).amount is None


def test_the_discount_of_the_project_is_taken_off() -> None:
    shown = _shown(
        H100, prices={("", ""): Decimal(4)}, discounts=[Discount(percent=Decimal(25), project_id=1)]
    )
    assert shown.amount is not None
    assert shown.amount.high == 60
