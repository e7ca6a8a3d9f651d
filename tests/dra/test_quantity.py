"""Quantities: what the API accepts, how it writes it, and exact arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.dra.quantity import Format, InvalidQuantity, Quantity, is_quantity

CANONICAL = [
    ("0", "0"),
    ("-0", "0"),
    ("+5", "5"),
    ("007", "7"),
    ("1000", "1k"),
    ("1024", "1024"),
    ("1500m", "1500m"),
    ("1000m", "1"),
    ("1.5", "1500m"),
    ("0.001", "1m"),
    ("100k", "100k"),
    ("1000k", "1M"),
    ("1.5G", "1500M"),
    ("1E", "1E"),
    ("1u", "1u"),
    ("1n", "1n"),
    ("1000u", "1m"),
    ("40Gi", "40Gi"),
    ("1024Mi", "1Gi"),
    ("1Ki", "1Ki"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("0.1Ki", "102400m"),
    ("1Ei", "1Ei"),
    ("-1.5Gi", "-1536Mi"),
    ("1e3", "1e3"),
    ("1E3", "1e3"),
    ("12e6", "12e6"),
    ("1e-3", "1e-3"),
    ("10e2", "1e3"),
    ("1.G", "1G"),
    (".5", "500m"),
    ("123456789012345678901", "123456789012345678901"),
    # Finer than nano is rounded away from zero.
    ("0.1n", "1n"),
    ("-0.1n", "-1n"),
    ("1.0000000001", "1000000001n"),
    # A binary quantity stops at the largest 64-bit integer.
    ("16Ei", "9223372036854775807"),
    # As upstream: digits may be missing.
    ("Mi", "0"),
    (".", "0"),
    ("+", "0"),
]

REJECTED = [
    "",
    " 1",
    "1 ",
    "1.2.3",
    "1Kb",
    "1ki",
    "1KI",
    "abc",
    "1e",
    "1e1.5",
    "Ei",
    "Pi",
    "--1",
    "1m5",
    "0x10",
    "１",
    "1i",
    "1mm",
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_quantities_are_written_in_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", REJECTED)
def test_other_text_is_no_quantity(text: str) -> None:
    assert not is_quantity(text)
    with pytest.raises(InvalidQuantity):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1e2147483648", "1e99999999999999999999", "9" * 5000])
def test_absurd_sizes_are_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        Quantity.parse(text)


def test_a_tiny_exponent_rounds_up_to_one_nano() -> None:
    assert Quantity.parse("1e-1000000000").nanos == 1
    assert Quantity.parse("0e-1000000000").nanos == 0


@pytest.mark.parametrize(
    ("text", "integer"), [("5", 5), ("-5", -5), ("1k", 1000), ("40Gi", 40 * 2**30), ("1e3", 1000), ("0", 0)]
)
def test_whole_quantities_are_integers(text: str, integer: int) -> None:
    assert Quantity.parse(text).is_integer()
    assert Quantity.parse(text).as_int() == integer


@pytest.mark.parametrize(
    "text", ["1500m", "1000m", "1.0", "1.5Gi", "0.5Gi", "1Ei", "9223372036854775808", "1e-3"]
)
def test_what_was_written_with_a_fraction_or_beyond_64_bits_is_no_integer(text: str) -> None:
    assert not Quantity.parse(text).is_integer()
    with pytest.raises(ValueError, match="cannot convert value to integer"):
        Quantity.parse(text).as_int()


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.5", 1.5), ("40Gi", 42949672960.0), ("1m", 0.001), ("1.5Gi", 1610612736.0), ("1E", 1e18)],
)
def test_as_float_is_the_nearest_double(text: str, number: float) -> None:
    assert Quantity.parse(text).as_float() == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("1", "1000m", 0),
        ("1Ki", "1024", 0),
        ("1k", "1Ki", -1),
        ("-1", "1", -1),
        ("1Gi", "1G", 1),
        ("1n", "0", 1),
    ],
)
def test_quantities_compare_by_value(left: str, right: str, order: int) -> None:
    assert Quantity.parse(left).compare(Quantity.parse(right)) == order
    assert (Quantity.parse(left) == Quantity.parse(right)) == (order == 0)
    assert (Quantity.parse(left) < Quantity.parse(right)) == (order < 0)


def test_equal_quantities_hash_alike() -> None:
    assert len({Quantity.parse("1"), Quantity.parse("1000m"), Quantity.parse("1e0")}) == 1


def test_identity_tells_equal_quantities_apart_that_answer_differently() -> None:
    assert Quantity.parse("1").identity != Quantity.parse("1000m").identity


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        ("1Gi", "1Gi", "2Gi", "0"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "1", "1073741825", "1073741823"),
        ("1", "500m", "1500m", "500m"),
        ("1e3", "1", "1001", "999"),
    ],
)
def test_sums_keep_the_format_of_the_left_side(left: str, right: str, total: str, difference: str) -> None:
    assert str(Quantity.parse(left) + Quantity.parse(right)) == total
    assert str(Quantity.parse(left) - Quantity.parse(right)) == difference


def test_a_sum_is_an_integer_only_if_both_sides_are_written_whole() -> None:
    assert (Quantity.parse("1") + Quantity.parse("2")).is_integer()
    assert not (Quantity.parse("1") + Quantity.parse("1000m")).is_integer()
    assert not (Quantity.parse("9223372036854775807") + Quantity.parse("1")).is_integer()


def test_sign_and_negation() -> None:
    assert [Quantity.parse(text).sign() for text in ("-1n", "0", "3Gi")] == [-1, 0, 1]
    assert str(-Quantity.parse("1Gi")) == "-1Gi"


def test_a_quantity_is_not_equal_to_other_things() -> None:
    assert Quantity.parse("1") != 1
    assert repr(Quantity.from_int(5)) == "Quantity('5')"


quantities = st.builds(
    Quantity,
    st.integers(min_value=-(10**30), max_value=10**30),
    st.sampled_from(Format),
)


@given(quantities)
def test_what_is_written_reads_back_as_the_same_value(quantity: Quantity) -> None:
    if quantity.format is Format.BINARY_SI and abs(quantity.nanos) > (2**63 - 1) * 10**9:
        return  # beyond what a binary quantity can hold
    assert Quantity.parse(str(quantity)) == quantity


@given(quantities, quantities)
def test_addition_is_exact(left: Quantity, right: Quantity) -> None:
    assert Fraction((left + right).nanos) == Fraction(left.nanos) + Fraction(right.nanos)
    assert (left + right) - right == left


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=12))
def test_parsing_never_fails_in_another_way(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except InvalidQuantity:
        return
    assert Quantity.parse(str(quantity)).nanos == quantity.nanos
