"""Charges add up over any split, and come to what an oracle finds that knows nothing but instants."""

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claims.history.curves import moment, us
from claims.models import Charge
from claims.money.books import Book, Centres, Discount, PriceList, Rule
from claims.money.months import Month, NoMonth, months
from claims.money.ownership import Owners
from claims.money.rating import Rater

BERLIN = ZoneInfo("Europe/Berlin")
T0 = datetime(2028, 1, 1, tzinfo=UTC)


class KnownOwners(Owners):
    """Bindings that no database has."""

    def __init__(self, bindings: dict[tuple[int, str], list[Any]]) -> None:
        self._drilled = set()
        self._bindings = defaultdict(list, bindings)


class KnownCentres(Centres):
    """Cost centres that no database has."""

    def __init__(self, recorded: dict[int, list[Any]]) -> None:
        self.__dict__["_recorded"] = recorded
        self.__dict__["_present"] = {}


def row(start: datetime, end: datetime | None, **values: Any) -> dict[str, Any]:
    return {
        "pk": 1, "kind": "claim", "cluster_id": 1, "namespace": "n", "claim_name": "c", "claim_uid": "u",
        "epoch": 1, "driver": "d", "pool_name": "p", "device_name": "g", "share_id": "", "request_name": "r",
        "hardware_id": "", "device_class": "gpu", "product": "H100", "profile_digest": "",
        "consumed_capacity": {}, "capacity": {}, "counters": {}, "units": 1, "replicas": 1,
        "extended_resource": "", "started_at": start, "ended_at": end, "request_id": 1, "project_id": 1,
        "request__requester_id": None,
    } | values  # fmt: skip


def rater(prices: PriceList, zone: tzinfo = UTC, bindings: Any = None, **more: Any) -> Rater:
    if not isinstance(prices.centres, KnownCentres):
        prices = replace(prices, centres=KnownCentres({}))
    return Rater(prices=prices, zone=zone, owners=KnownOwners(bindings or {}), **more)


def book(at: datetime = T0, price: str = "2.5", **more: Any) -> Book:
    return Book(name="b", currency="EUR", valid_from=at, prices={("", ""): Decimal(price)}, **more)


def all_charges(told: Rater, row: dict[str, Any]) -> list[Charge]:
    end = row["ended_at"]
    return [c for month in months(row["started_at"], end, told.zone) for c in told.charges(row, month=month)]


def total(charges: list[Charge]) -> Fraction:
    return sum((charge.amount() or Fraction(0) for charge in charges), start=Fraction(0))


moments = st.timedeltas(timedelta(0), timedelta(days=365)).map(lambda since: T0 + since)


@settings(max_examples=60, deadline=None)
@given(
    bounds=st.lists(moments, min_size=3, max_size=3, unique=True).map(sorted),
    changes=st.lists(moments, max_size=3, unique=True),
    price=st.decimals(0, 999_999, places=6).map(abs),
    share=st.fractions(min_value=0, max_value=1, max_denominator=97),
)
def test_a_cost_is_the_sum_of_its_parts_wherever_it_is_cut(
    bounds: list[datetime], changes: list[datetime], price: Decimal, share: Fraction
) -> None:
    prices = PriceList(
        books=(
            book(price=str(price)),
            *(book(at, str(n + 1) + ".123457") for n, at in enumerate(sorted(changes))),
        )
    )
    parts = {"units": share.numerator or 1, "replicas": share.denominator}
    told = rater(prices, BERLIN)
    a, b, c = bounds
    whole = all_charges(told, row(a, c, **parts))
    assert total(all_charges(told, row(a, b, **parts))) + total(
        all_charges(told, row(b, c, **parts))
    ) == total(whole)
    cut = us(b)
    for charge in whole:
        amounts = (charge.amount(end_us=cut), charge.amount(start_us=cut), charge.amount())
        assert amounts[0] + amounts[1] == amounts[2]  # type: ignore[operator] # everything has a price here


@pytest.mark.parametrize(
    ("month", "hours"),
    [("2028-03", 743), ("2028-10", 745), ("2028-02", 696), ("2027-02", 672), ("2028-01", 744)],
)
def test_a_month_has_the_hours_that_it_has_there(month: str, hours: int) -> None:
    start, end = Month.parse(month).bounds(BERLIN)
    told = rater(PriceList(books=(book(datetime(2020, 1, 1, tzinfo=UTC), "1"),)), BERLIN)
    (charge,) = told.charges(row(start - timedelta(days=1), None), month=Month.parse(month))
    assert (charge.start, charge.end) == (start, end)
    assert charge.amount() == hours


@pytest.mark.parametrize("typed", ["2028-13", "2028-1", "", "2028", "0001-01", "２０２８-01"])
def test_what_is_no_month_is_refused(typed: str) -> None:
    with pytest.raises(NoMonth):
        Month.parse(typed)


def test_time_without_use_has_its_own_price_where_a_rule_says_so() -> None:
    rules = [Rule(per_hour=Decimal(1), use="unused")]
    hour = timedelta(hours=1)
    stays = {(1, "u", 1): [(T0 + 2 * hour, T0 + 3 * hour)]}
    told = rater(PriceList(books=(book(rules=rules),)), stays=stays)
    charges = list(told.charges(row(T0, T0 + 5 * hour), month=Month(2028, 1)))
    assert [(charge.use, charge.amount()) for charge in charges] == [
        ("unused", 2),
        ("held", Fraction(5, 2)),
        ("unused", 2),
    ]


def test_what_no_request_made_is_paid_by_whose_namespace_it_is() -> None:
    hour = timedelta(hours=1)
    bindings = {(1, "n"): [(T0 + hour, T0 + 2 * hour, 7), (T0 + 3 * hour, None, 8)]}
    told = rater(PriceList(books=(book(),)), bindings=bindings)
    charges = list(told.charges(row(T0, T0 + 4 * hour, request_id=None), month=Month(2028, 1)))
    assert [charge.project_id for charge in charges] == [None, 7, None, 8]
    (requested,) = told.charges(row(T0, T0 + 4 * hour), month=Month(2028, 1))
    assert requested.project_id == 1


# --- an oracle: what every instant costs, and who pays for it -----------------------------------------------


def random_month(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    month = Month(2028, rng.randint(1, 12))
    zone = rng.choice([UTC, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu")])
    start, end = month.bounds(zone)

    def some() -> datetime:
        span = us(end) - us(start)
        return moment(us(start) + rng.randint(-span // 10, span + span // 10))

    books = [
        book(
            at,
            f"{rng.randint(0, 9)}.{rng.randint(0, 999_999):06}",
            rules=[Rule(per_hour=Decimal(rng.randint(0, 9)), product=rng.choice(["H100", "A100"]))],
            discounts=[
                Discount(percent=Decimal(rng.randint(1, 1_000_000)) / 10_000, cost_centre="A"),
                Discount(percent=Decimal(rng.randint(1, 1_000_000)) / 10_000, project_id=2),
            ],
        )
        for at in sorted({some() for _ in range(rng.randint(0, 3))})
    ]
    rows = []
    for number in range(rng.randint(1, 6)):
        first, last = sorted((some(), some()))
        rows.append(
            row(
                first, rng.choice([last, last, None]), claim_uid=str(number),
                request_id=rng.choice([1, None]), project_id=rng.choice([1, 2, None]),
                namespace=rng.choice(["n", "m"]), product=rng.choice(["H100", "A100", "B200"]),
                units=rng.randint(1, 4), replicas=rng.randint(1, 3),
            )
        )  # fmt: skip
    changes = sorted({some() for _ in range(rng.randint(0, 3))})
    bindings = [
        (since, until, rng.randint(1, 2))
        for since, until in zip(changes, [*changes[1:], None][: len(changes)], strict=True)
    ]
    centres = [(at, rng.choice("AB")) for at in sorted({some() for _ in range(rng.randint(0, 2))})]
    return {
        "month": month, "zone": zone, "books": books, "rows": rows, "bindings": bindings, "centres": centres,
    }  # fmt: skip


def oracle(world: dict[str, Any]) -> dict[int | None, Fraction]:
    """What each payer owes, from every stretch between two instants at which anything at all happens."""
    zone, month = world["zone"], world["month"]
    instants = {at for r in world["rows"] for at in (r["started_at"], r["ended_at"]) if at}
    instants |= {b.valid_from for b in world["books"]} | {at for at, _code in world["centres"]}
    instants |= {at for since, until, _p in world["bindings"] for at in (since, until) if at}
    first = datetime(month.year, month.number, 1, tzinfo=zone).astimezone(UTC)
    year, number = (month.year + 1, 1) if month.number == 12 else (month.year, month.number + 1)
    last = datetime(year, number, 1, tzinfo=zone).astimezone(UTC)
    ordered = sorted(at for at in instants | {first, last} if first <= at <= last)
    owed: dict[int | None, Fraction] = defaultdict(Fraction)
    for at, until in pairwise(ordered):
        hours = Fraction((until - at) // timedelta(microseconds=1), 3_600_000_000)
        in_force = [b for b in world["books"] if b.valid_from <= at]
        if not in_force:
            continue
        prices = in_force[-1]
        for r in world["rows"]:
            if not (r["started_at"] <= at and (r["ended_at"] is None or at < r["ended_at"])):
                continue
            payer = r["project_id"]
            if r["request_id"] is None and r["namespace"] == "n" and world["bindings"]:
                payer = None
                for since, end, project in world["bindings"]:
                    if since <= at and (end is None or at < end):
                        payer = project
            centre = ""
            for since, code in world["centres"]:
                if since <= at:
                    centre = code
            rule = prices.rules[0]
            price = Fraction(rule.per_hour if rule.product == r["product"] else prices.prices["", ""])
            if payer == 1 and centre == "A":
                price *= 1 - Fraction(prices.discounts[0].percent) / 100
            elif payer == 2:
                price *= 1 - Fraction(prices.discounts[1].percent) / 100
            owed[payer] += price * hours * Fraction(r["units"], r["replicas"])
    return {payer: amount for payer, amount in owed.items() if amount}


@pytest.mark.parametrize("block", range(10))
def test_an_oracle_of_instants_agrees(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        world = random_month(seed)
        ends = [*(at for at, _code in world["centres"][1:]), None][: len(world["centres"])]
        recorded = {1: [(code, at, end) for (at, code), end in zip(world["centres"], ends, strict=True)]}
        prices = PriceList(books=tuple(world["books"]), centres=KnownCentres(recorded))
        told = rater(prices, world["zone"], {(1, "n"): world["bindings"]} if world["bindings"] else {})
        owed: dict[int | None, Fraction] = defaultdict(Fraction)
        for r in world["rows"]:
            for charge in told.charges(r, month=world["month"]):
                owed[charge.project_id] += charge.amount() or 0
        assert {payer: amount for payer, amount in owed.items() if amount} == oracle(world), seed
