"""Exact amounts, one rounding, sums that add up."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal import money

HOUR = money.MICROSECONDS_PER_HOUR


def test_a_device_for_an_hour_costs_its_price() -> None:
    assert money.cost(per_hour=Decimal("2.50"), microseconds=HOUR) == Fraction(5, 2)


def test_a_microsecond_is_not_lost() -> None:
    amount = money.cost(per_hour=Decimal("0.000001"), microseconds=1)

    assert amount == Fraction(1, 10**6 * HOUR)
    assert money.exact_parts(amount) == (1, 10**6 * HOUR)


def test_a_third_of_a_device_three_times_is_a_device() -> None:
    third = money.cost(per_hour=Decimal("1.99"), microseconds=HOUR, quantity=Fraction(1, 3))

    assert 3 * third == Fraction("1.99")


@pytest.mark.parametrize("wrong", [{"microseconds": -1}, {"per_hour": Decimal(-1)}, {"quantity": -1}])
def test_a_charge_is_never_negative(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="negative"):
        money.cost(**({"per_hour": Decimal(1), "microseconds": 1} | wrong))  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize(
    ("currency", "places"),
    [("EUR", 2), ("USD", 2), ("CNY", 2), ("JPY", 0), ("KRW", 0), ("KWD", 3), ("CLF", 4)],
)
def test_minor_units_follow_iso_4217(currency: str, places: int) -> None:
    assert money.exponent(currency) == places


@pytest.mark.parametrize("code", ["", "eur", "EURO", "E1R", "ЕUR"])
def test_what_is_no_currency_code_is_refused(code: str) -> None:
    with pytest.raises(money.InvalidCurrency):
        money.exponent(code)


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        (Fraction(5, 1000), "EUR", "0.00"),
        (Fraction(15, 1000), "EUR", "0.02"),
        (Fraction(25, 1000), "EUR", "0.02"),
        (Fraction(1, 3), "EUR", "0.33"),
        (Fraction(5, 2), "JPY", "2"),
        (Fraction(1, 3), "KWD", "0.333"),
        (Decimal("-1.005"), "EUR", "-1.00"),
    ],
)
def test_amounts_are_rounded_half_to_even_to_the_minor_unit(
    amount: Fraction, currency: str, expected: str
) -> None:
    assert str(money.rounded(amount, currency=currency)) == expected


def test_equal_thirds_of_a_euro_add_up_to_a_euro() -> None:
    lines = money.rounded_lines([Fraction(1, 3)] * 3, currency="EUR")

    assert [str(line) for line in lines] == ["0.34", "0.33", "0.33"]


@given(
    st.lists(st.fractions(min_value=0, max_value=10**6), max_size=30), st.sampled_from(["EUR", "JPY", "KWD"])
)
def test_lines_always_add_up_to_the_rounded_total(amounts: list[Fraction], currency: str) -> None:
    lines = money.rounded_lines(amounts, currency=currency)

    assert sum(lines) == money.rounded(sum(amounts, Fraction(0)), currency=currency)


@given(
    st.integers(0, 10**9),
    st.lists(st.fractions(min_value=0, max_value=1000), min_size=1, max_size=20).filter(any),
)
def test_a_part_is_its_exact_share_rounded_up_or_down(total: int, weights: list[Fraction]) -> None:
    parts = money.apportion(total, weights)

    whole = sum(weights, Fraction(0))
    assert sum(parts) == total
    assert all(abs(part - total * weight / whole) < 1 for part, weight in zip(parts, weights, strict=True))


def test_nothing_can_only_be_split_into_nothing() -> None:
    assert money.apportion(0, [0, 0]) == [0, 0]
    with pytest.raises(ValueError, match="all weights are zero"):
        money.apportion(1, [0, 0])
    with pytest.raises(ValueError, match="negative"):
        money.apportion(1, [1, -1])


@pytest.mark.parametrize(
    ("currency", "language", "expected"),
    [
        ("EUR", "en", "€1,234.50"),
        ("JPY", "en", "¥1,234"),
        ("KWD", "en", "KWD\N{NO-BREAK SPACE}1,234.500"),
        ("CNY", "zh-hans", "¥1,234.50"),
        ("EUR", "zh-hans", "€1,234.50"),
        ("EUR", "tlh", "€1,234.50"),
    ],
)
def test_amounts_are_written_the_readers_way(currency: str, language: str, expected: str) -> None:
    assert money.display(Fraction("1234.5"), currency=currency, language=language) == expected
