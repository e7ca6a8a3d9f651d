"""Totals of the house as its programs write them."""

from datetime import UTC, datetime

import pytest

from claims.models import BookedTotal
from claims.money.months import Month
from claims.money.reconciling import UnableToImport, import_totals
from tests.cast import Cast, make_cast

MARCH, NOW = Month(2026, 3), datetime(2026, 4, 2, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


def booked(cast: Cast, text: str) -> list[tuple[str, str, int]]:
    import_totals(text=text, month=MARCH, actor=cast.finance, now=NOW)
    rows = BookedTotal.objects.order_by("project__slug", "currency")
    return list(rows.values_list("project__slug", "currency", "minor"))


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("project;currency;amount\ntides;EUR;1234,56\n", 123_456),
        ("project;currency;amount\ntides;EUR;-1234,5\n", -123_450),
        ('project,currency,amount\ntides,EUR,"1234,56"\n', 123_456),
        ("\ufeffProject\tAmount\tCurrency\r\ntides\t0.07\tEUR\r\n", 7),
        ("project,currency,amount\ntides,JPY,1234\n", 1_234),
        ("project,currency,amount\ntides,KWD,1.234\n", 1_234),
    ],
)
def test_amounts_are_read_as_the_house_writes_them(cast: Cast, text: str, minor: int) -> None:
    ((slug, _currency, found),) = booked(cast, text)
    assert (slug, found) == ("tides", minor)


@pytest.mark.parametrize(
    "line",
    [
        # Thousands or decimals: nobody knows.
        "tides;KWD;1,234", "tides;EUR;1.234,56", "tides;EUR;1,234", "tides;JPY;1,5",
        # No such currency, no amount, no such project.
        "tides;EUT;1", "tides;eur;1", "tides;;1", "tides;EUR;", "tides;EUR;1e3000", "tides;EUR;NaN",
        "nix;EUR;1",
        # Twice.
        "tides;EUR;1\ntides;EUR;1",
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_line_and_nothing_is_imported(cast: Cast, line: str) -> None:
    before = booked(cast, "project;currency;amount\ntides;EUR;1\n")
    with pytest.raises(UnableToImport) as refused:
        booked(cast, f"project;currency;amount\n{line}\n")
    assert refused.value.faults[0].startswith(f"Line {line.count(chr(10)) + 2}:")
    rows = BookedTotal.objects.values_list("project__slug", "currency", "minor")
    assert list(rows) == before


@pytest.mark.parametrize(
    "text",
    [
        # Fifty cents are lost, or a thousand.
        "project,currency,amount\ntides,EUR,12,50\n", "project,currency,amount\ntides,EUR,1,234.00\n",
        "project;currency;amount;amount\ntides;EUR;1;2\n",
    ],
)  # fmt: skip
def test_an_amount_that_stands_in_two_cells_is_not_read_by_half(cast: Cast, text: str) -> None:
    with pytest.raises(UnableToImport):
        booked(cast, text)
    # Empty cells at the end say nothing.
    assert booked(cast, "project,currency,amount\ntides,EUR,12.50,,\n")[0][2] == 1_250


def test_a_header_alone_takes_nothing_away(cast: Cast) -> None:
    booked(cast, "project;currency;amount\ntides;EUR;1\n")
    with pytest.raises(UnableToImport, match="nothing in it"):
        booked(cast, "project;currency;amount\n")
    assert BookedTotal.objects.count() == 1
