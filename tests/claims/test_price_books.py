"""Price books come in whole or not at all."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from claims.models import Price, PriceBook, Statement
from claims.money.price_books import UnableToAddBook, add_book
from portal.accounts.models import AuditEntry
from tests.claims.conftest import NOW

pytestmark = pytest.mark.django_db
GOOD = {"device_class": "", "product": "H100", "per_hour": "3.90"}


def test_a_book_holds_its_prices_and_is_audited() -> None:
    book = add_book(name="2026", currency="EUR", valid_from=NOW, rows=[GOOD], now=NOW)
    assert list(book.prices.values_list("product", flat=True)) == ["H100"]
    assert AuditEntry.objects.get().action == "pricebook.add"


@pytest.mark.parametrize("typed", ["", "free", "-1", "NaN", "Infinity", "1e30", "0.0000001"])
def test_what_is_no_price_is_named_with_its_line(typed: str) -> None:
    rows = [GOOD, GOOD | {"product": "A100", "per_hour": typed}]
    with pytest.raises(UnableToAddBook, match="Line 2"):
        add_book(name="2026", currency="EUR", valid_from=NOW, rows=rows, now=NOW)
    assert not PriceBook.objects.exists()


@pytest.mark.parametrize(
    ("currency", "rows", "said"),
    [("euro", [GOOD], "ISO 4217"), ("EUR", [], "at least one"), ("EUR", [GOOD, GOOD], "same")],
)
def test_a_book_that_makes_no_sense_is_refused(
    currency: str, rows: list[dict[str, str | None]], said: str
) -> None:
    with pytest.raises(UnableToAddBook, match=said):
        add_book(name="2026", currency=currency, valid_from=NOW, rows=rows, now=NOW)


def test_two_books_cannot_begin_at_once() -> None:
    add_book(name="a", currency="EUR", valid_from=NOW, rows=[GOOD], now=NOW)
    with pytest.raises(UnableToAddBook, match="very moment"):
        add_book(name="b", currency="EUR", valid_from=NOW, rows=[GOOD], now=NOW)
    add_book(name="c", currency="EUR", valid_from=NOW + timedelta(days=1), rows=[GOOD], now=NOW)


def test_no_book_begins_in_a_month_that_is_closed() -> None:
    Statement.objects.create(
        project=None, month="2026-03", zone="UTC", starts_at=NOW - timedelta(days=31), ends_at=NOW,
        state="closed", closed_at=NOW, digest="x",
    )  # fmt: skip
    with pytest.raises(UnableToAddBook, match="2026-03 is closed"):
        add_book(name="a", currency="EUR", valid_from=NOW - timedelta(seconds=1), rows=[GOOD], now=NOW)
    add_book(name="b", currency="EUR", valid_from=NOW, rows=[GOOD], now=NOW)


def test_a_book_is_added_from_a_file_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("device_class,product,per_hour\n,H100,3.9\ngpu,,1\n")
    call_command(
        "prices", "add", "2026", str(path), "--currency", "EUR", "--from", "2026-01-01", stdout=StringIO()
    )
    told = StringIO()
    call_command("prices", "list", stdout=told)
    assert "H100  3.90" in told.getvalue()
    assert Price.objects.count() == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [("a,b\n1,2\n", "lacks the columns"), ("device_class,product,per_hour\n,,x\n", "Line 1")],
)
def test_a_file_that_is_no_price_list_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(CommandError, match=said):
        call_command("prices", "add", "2026", str(path), "--currency", "EUR")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("prices", "add", "2026", str(tmp_path / "none"), "--currency", "EUR")
