"""Quotas: how what is held and asked for stands to a limit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claims.models import Quota
from claims.money.pricing import Book, PriceList, Usage, statement
from claims.quotas.standing import Asked, Facts, Held, Part, Terms, newest_over, standing
from claims.quotas.words import WrongLimit, amount, exact, neutral, plain, read_limit

Kind = Quota.Kind
NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
GIB = 2**30
NO_PRICES = PriceList(books=())
H100, A100 = 1, 2


def terms(kind: str = Kind.DEVICES, limit: int = 4, flavor: int | None = None, currency: str = "") -> Terms:
    return Terms(kind=kind, limit=Fraction(limit), flavor=flavor, currency=currency)


def held(request: int | None = None, flavor: int = H100, **values: object) -> Held:
    return Held(request=request, flavors=frozenset((flavor,)), **values)  # type: ignore[arg-type] # of the struct


def part(units: int, flavor: int = H100, memory: int | None = None) -> Part:
    return Part(flavors=frozenset((flavor,)), units=units, memory=memory)


def asked(request: int | None, *groups: tuple[Part, ...], hours: int = 24, until: int | None = None) -> Asked:
    end = None if until is None else NOW + until * HOUR
    return Asked(request=request, groups=groups, duration=hours * HOUR, until=end)


def spent(hours: int, project: int = 1) -> Facts:
    usage = Usage(
        project_id=project, device_class="h100", product="H100", start=NOW - hours * HOUR, end=NOW
    )  # fmt: skip
    start = NOW.replace(day=1, hour=0)
    return Facts(spent=statement([usage], NO_PRICES, start=start, end=NOW, now=NOW))


def stand(of: Terms, facts: Facts, *besides: Asked) -> tuple[Any, Any]:
    found: Any = standing(of, facts, now=NOW, prices=NO_PRICES, besides=besides)
    return found.used, found.asked


def test_what_a_request_holds_is_used_and_only_the_rest_of_it_is_asked_for() -> None:
    facts = Facts(held=[held(7), held(7), held(None)], asked=[asked(7, (part(3),))])
    assert stand(terms(), facts) == (3, 1)


def test_of_a_line_of_requests_that_take_each_others_place_the_largest_counts() -> None:
    """7 has four devices, 8 takes its place with two, 9 the place of 8 with one; 10 that of 7 as well."""
    first, second = asked(7, (part(4),)), replace(asked(8, (part(2),)), replaces=7)
    third, fourth = replace(asked(9, (part(1),)), replaces=8), replace(asked(10, (part(3),)), replaces=7)
    has = [held(7), held(7), held(7), held(7)]
    assert stand(terms(), Facts(held=has, asked=[first, second, third])) == (4, 0)
    assert stand(terms(), Facts(held=has, asked=[third, second, first])) == (4, 0)
    assert stand(terms(), Facts(held=has, asked=[first, second, third, fourth])) == (4, 1)
    # The second has its devices, the first has not given them back yet.
    assert stand(terms(), Facts(held=[*has, held(8), held(8)], asked=[second, third])) == (4, 0)
    assert stand(terms(), Facts(held=[held(8), held(8)], asked=[second, third])) == (2, 0)
    besides = replace(asked(None, (part(5),)), replaces=7)
    assert stand(terms(), Facts(held=has, asked=[first]), besides) == (4, 1)
    assert stand(terms(Kind.HOURS), Facts(asked=[first, second])) == (None, 96)


def test_a_template_may_take_more_than_one_claim_of_it_asks_for() -> None:
    facts = Facts(held=[held(7), held(7), held(7)], asked=[asked(7, (part(1),))])
    assert stand(terms(), facts) == (3, 0)


def test_of_alternatives_the_largest_counts_and_parts_count_together() -> None:
    one = asked(7, (part(1), part(4, A100)), (part(2, A100),))
    assert stand(terms(), Facts(asked=[one])) == (0, 6)
    # Of a single flavor only what is of that flavor.
    assert stand(terms(flavor=H100), Facts(asked=[one])) == (0, 1)
    assert stand(terms(flavor=A100), Facts(asked=[one])) == (0, 6)


def test_a_share_is_a_device_and_its_memory_is_what_it_has_of_it() -> None:
    facts = Facts(held=[held(None, quantity=Fraction(1, 8), memory=10 * GIB)])
    assert stand(terms(), facts) == (1, 0)
    assert stand(terms(Kind.MEMORY, 40 * GIB), facts) == (10 * GIB, 0)


def test_memory_that_no_driver_tells_is_counted_apart_and_not_as_nothing() -> None:
    facts = Facts(held=[held(memory=80 * GIB), held()], asked=[asked(7, (part(2),))])
    found: Any = standing(terms(Kind.MEMORY, 100 * GIB), facts, now=NOW, prices=NO_PRICES)
    assert (found.used, found.asked, found.unmeasured) == (80 * GIB, 0, 3)


def test_of_a_month_what_was_used_and_what_may_still_run_in_it_count() -> None:
    facts = spent(10)
    assert stand(terms(Kind.HOURS, 100), facts) == (10, 0)
    # Two devices for a day; a running one for the five hours that it has left.
    facts = Facts(
        spent=facts.spent,
        held=[held(8, quantity=Fraction(1, 2))],
        asked=[asked(7, (part(2),)), asked(8, (part(1),), until=5)],
    )
    assert stand(terms(Kind.HOURS, 100), facts) == (10, 48 + Fraction(5, 2))


def test_what_runs_into_the_next_month_counts_up_to_its_beginning() -> None:
    # From the 10th at noon to the end of November.
    assert stand(terms(Kind.HOURS), Facts(asked=[asked(7, (part(1),), hours=2000)])) == (None, 12 + 20 * 24)


def test_without_any_observation_the_use_of_a_month_is_unknown() -> None:
    found: Any = standing(terms(Kind.HOURS, 5), Facts(), now=NOW, prices=NO_PRICES)
    assert found.used is None
    assert (found.taken, found.left, found.over) == (0, 5, False)


def test_a_limit_is_reached_before_it_is_passed() -> None:
    facts = Facts(held=[held()], asked=[asked(7, (part(3),))])
    found: Any = standing(terms(limit=4), facts, now=NOW, prices=NO_PRICES)
    assert (found.over, found.left, found.exhausted) == (False, 0, False)
    found = standing(terms(limit=3), facts, now=NOW, prices=NO_PRICES)
    assert (found.over, found.left, found.exhausted) == (True, 0, True)


def test_the_newest_are_ended_until_the_rest_is_within_the_limit() -> None:
    facts = Facts(
        held=[held(1), held(1), held(2)],
        asked=[asked(1, (part(2),)), asked(2, (part(1),)), asked(3, (part(1),)), asked(4, (part(1, A100),))],
    )
    ages = {number: NOW + number * HOUR for number in (1, 2, 3, 4)}

    def over(limit: int) -> list[int]:
        current = standing(terms(limit=limit, flavor=H100), facts, now=NOW, prices=NO_PRICES)
        return newest_over(current, ages)

    # The fourth is of another flavor and none of this quota's business.
    assert [over(limit) for limit in (4, 3, 2, 1, 0)] == [[], [3], [3, 2], [3, 2, 1], [3, 2, 1]]


def test_when_a_month_is_used_up_everything_that_still_takes_is_ended() -> None:
    facts = Facts(spent=spent(10).spent, asked=[asked(1, (part(1),)), asked(2, (part(1),))])
    ages = {1: NOW, 2: NOW + HOUR}
    # What is merely promised does not end what has been promised before.
    current = standing(terms(Kind.HOURS, 11), facts, now=NOW, prices=NO_PRICES)
    assert (current.over, newest_over(current, ages)) == (True, [])
    current = standing(terms(Kind.HOURS, 10), facts, now=NOW, prices=NO_PRICES)
    assert newest_over(current, ages) == [2, 1]


# --- whatever the facts are -------------------------------------------------------------------------

flavors = st.frozensets(st.sampled_from([H100, A100]), max_size=2)
memories = st.none() | st.integers(0, 200 * GIB)
held_things = st.builds(
    Held,
    request=st.none() | st.integers(1, 3),
    flavors=flavors,
    units=st.integers(1, 8),
    quantity=st.fractions(0, 1, max_denominator=16),
    memory=memories,
)
parts = st.builds(Part, flavors=flavors, units=st.integers(1, 8), memory=memories)
groups = st.lists(st.lists(parts, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
ends = st.none() | st.integers(-100, 1000).map(lambda hours: NOW + hours * HOUR)
durations = st.integers(0, 3000).map(lambda hours: hours * HOUR)


def requests_asked(number: int) -> st.SearchStrategy[Asked]:
    return st.builds(Asked, request=st.just(number), groups=groups, duration=durations, until=ends)


facts_seen = st.builds(
    Facts,
    held=st.lists(held_things, max_size=6),
    asked=st.tuples(*map(requests_asked, (1, 2, 3))).map(list),
    spent=st.none() | st.integers(0, 200).map(lambda hours: spent(hours).spent),
)
limits = st.builds(
    terms,
    st.sampled_from([Kind.DEVICES, Kind.MEMORY, Kind.HOURS]),
    st.integers(0, 10**6),
    st.none() | st.sampled_from([H100, A100]),
)


@settings(max_examples=80, deadline=None)
@given(of=limits, facts=facts_seen, order=st.sampled_from(list(permutations(range(3)))))
def test_nothing_is_negative_and_no_order_matters(of: Terms, facts: Facts, order: tuple[int, ...]) -> None:
    found: Any = standing(of, facts, now=NOW, prices=NO_PRICES)
    assert (found.used or 0) >= 0
    assert found.asked >= 0
    assert found.left >= 0
    assert all(piece.used >= 0 and piece.asked >= 0 for piece in found.pieces.values())
    turned = Facts(
        held=list(reversed(facts.held)), asked=[facts.asked[i] for i in order], spent=facts.spent
    )  # fmt: skip
    assert standing(of, turned, now=NOW, prices=NO_PRICES) == found


@settings(max_examples=60, deadline=None)
@given(of=limits, facts=facts_seen, more=requests_asked(9))
def test_who_asks_for_more_never_takes_less(of: Terms, facts: Facts, more: Asked) -> None:
    before = standing(of, facts, now=NOW, prices=NO_PRICES)
    after = standing(of, facts, now=NOW, prices=NO_PRICES, besides=[more])
    assert after.taken >= before.taken
    assert after.unmeasured >= before.unmeasured


@settings(max_examples=60, deadline=None)
@given(of=limits, facts=facts_seen)
def test_what_is_left_when_the_newest_are_ended_is_within_the_limit(of: Terms, facts: Facts) -> None:
    current = standing(of, facts, now=NOW, prices=NO_PRICES)
    ended = newest_over(current, {number: NOW + number * HOUR for number in (1, 2, 3)})
    if of.monthly or not current.over:
        return
    rest = sum(
        (piece.used + piece.asked for request, piece in current.pieces.items() if request not in ended),
        Fraction(0),
    )
    past_the_desk = current.pieces.get(None)
    kept = set(current.pieces) - set(ended) - {None}
    assert rest <= of.limit or (not kept and past_the_desk is not None)
    # And none more than it takes: with the last one it would be over.
    if ended:
        last = current.pieces[ended[-1]]
        assert rest + last.used + last.asked > of.limit


# --- money ------------------------------------------------------------------------------------------


def test_money_counts_in_its_currency_by_the_dearest_product_that_it_may_be() -> None:
    listed = {("", "H100"): Decimal("2.5"), ("", "A100"): Decimal(1)}
    book = Book(name="2026", currency="EUR", valid_from=NOW - 300 * 24 * HOUR, prices=listed)
    prices = PriceList(books=(book,))
    facts = Facts(
        asked=[
            Asked(
                request=7,
                groups=((Part(flavors=frozenset((H100,)), units=2, products=("A100", "H100")),),),
                duration=10 * HOUR,
            )
        ]
    )
    euros: Any = standing(terms(Kind.MONEY, 100, currency="EUR"), facts, now=NOW, prices=prices)
    assert (euros.asked, euros.unmeasured) == (50, 0)
    yen = standing(terms(Kind.MONEY, 100, currency="JPY"), facts, now=NOW, prices=prices)
    assert yen.asked == 0
    unpriced: Any = standing(terms(Kind.MONEY, 100, currency="EUR"), facts, now=NOW, prices=NO_PRICES)
    assert (unpriced.asked, unpriced.unmeasured) == (0, 2)


# --- limits as people write them --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "typed", "stored"),
    [
        (Kind.DEVICES, "8", "8"),
        (Kind.DEVICES, "8.0", "8"),
        (Kind.DEVICES, "0", "0"),
        (Kind.MEMORY, "640Gi", "640Gi"),
        (Kind.MEMORY, "1024Gi", "1Ti"),
        (Kind.HOURS, "1500.50", "1500.5"),
        (Kind.HOURS, "1e3", "1000"),
        (Kind.MONEY, "100.00", "100"),
    ],
)
def test_a_limit_is_kept_exactly_and_in_one_form(kind: str, typed: str, stored: str) -> None:
    assert read_limit(typed, kind=kind, currency="EUR") == stored
    assert exact(stored, kind=kind) == exact(read_limit(stored, kind=kind, currency="EUR"), kind=kind)


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        (Kind.DEVICES, "2.5"), (Kind.DEVICES, "-1"), (Kind.DEVICES, "1000001"), (Kind.DEVICES, "many"),
        (Kind.DEVICES, "NaN"), (Kind.DEVICES, "٣"), (Kind.MEMORY, "-1Gi"), (Kind.MEMORY, "9Ei"),
        (Kind.MEMORY, "lots"), (Kind.HOURS, "Infinity"), (Kind.HOURS, "1.001"), (Kind.HOURS, "1e13"),
        (Kind.MONEY, "0.005"), (Kind.MONEY, "1e999999"),
    ],
)  # fmt: skip
def test_what_is_no_limit_is_refused_with_words(kind: str, typed: str) -> None:
    with pytest.raises(WrongLimit) as refused:
        read_limit(typed, kind=kind, currency="EUR")
    assert str(refused.value)


def test_amounts_are_told_with_their_unit_and_to_programs_without() -> None:
    assert amount(Fraction(1), kind=Kind.DEVICES) == "1 device"
    assert amount(Fraction(640 * GIB), kind=Kind.MEMORY) == "640 GiB"
    assert amount(Fraction(25, 2), kind=Kind.HOURS) == "12.5 h"
    assert amount(Fraction(5), kind=Kind.MONEY, currency="EUR") == "€5.00"
    assert amount(None, kind=Kind.HOURS) == "unknown"
    assert plain(Fraction(640 * GIB), kind=Kind.MEMORY) == str(640 * GIB)
    assert plain(Fraction(25, 3), kind=Kind.HOURS) == "8.333333"
    assert (plain(Fraction(0), kind=Kind.HOURS), plain(None, kind=Kind.HOURS)) == ("0", None)
    assert neutral(Fraction(5), kind=Kind.MONEY, currency="JPY") == "5 JPY"
