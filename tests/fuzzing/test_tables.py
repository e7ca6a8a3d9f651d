"""Whatever file somebody hands in: it is taken wholly, or refused with reasons and nothing of it is left."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from claims.focus import rules
from claims.focus.columns import named
from claims.models import BookedTotal, PriceBook
from claims.money import reconciling
from claims.money.months import Month
from portal.accounts.models import Project, User
from portal.pages.importing import doing, reading
from tests.cast import Cast, cast, cheap_passwords
from tests.fuzzing.garbage import MANY, SOME, TEXTS, tables, told, trying
from tests.inventory_pages.factories import make_cluster

__all__ = ["cast", "cheap_passwords"]

NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
BUDGETS = [SOME, pytest.param(MANY, marks=pytest.mark.long)]
VALUES = {
    "project": ("tides", "glaciers", "new-one"),
    "name": ("Tides", "New one"),
    "person": ("mina", "stig", "new@example.org"),
    "role": ("member", "lead"),
    "cluster": ("berlin",),
    "namespace": ("tides", "deep-sea"),
    "from": ("2026-01-01", ""),
    "until": ("2026-02-01", ""),
    "currency": ("EUR", "JPY"),
    "amount": ("12.50", "100", "-3"),
    "product": ("", "NVIDIA L4"),
    "device_class": ("", "gpu.nvidia.com"),
    "per_hour": ("1.85", "0"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("examples", BUDGETS)
def test_an_import_of_people_is_done_as_a_whole_or_not_at_all(examples: int, cast: Cast) -> None:
    make_cluster()

    @trying(examples)
    @given(data=st.data(), apply=st.booleans())
    def imported(data: st.DataObject, apply: bool) -> None:
        given = {shape.name: data.draw(tables(tuple(shape.columns), VALUES)) for shape in reading.SHAPES}
        before = (Project.objects.count(), User.objects.count())
        with transaction.atomic():
            outcome = doing.run(tables=given, actor=cast.administrator, now=NOW, apply=apply)
            assert outcome.applied == (apply and not outcome.faults)
            if not outcome.applied:
                assert (Project.objects.count(), User.objects.count()) == before
            for fault in outcome.faults:
                assert fault.message
                assert fault.line >= 0
            transaction.set_rollback(True)

    imported()


@pytest.mark.parametrize("examples", BUDGETS)
def test_bytes_are_a_text_or_are_refused(examples: int) -> None:
    marks = st.sampled_from([b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"])

    @trying(examples)
    @given(mark=marks, raw=st.binary(max_size=60) | TEXTS.map(lambda text: text.encode()))
    def decoded(mark: bytes, raw: bytes) -> None:
        try:
            text = reading.decoded(mark + raw)
        except reading.Unreadable as unreadable:
            told(unreadable)
            return
        for shape in reading.SHAPES:
            rows, faults = reading.read(text, shape)
            assert all(set(shape.required) <= set(row.cells) for row in rows)
            assert all(fault.message for fault in faults)

    decoded()


@pytest.mark.django_db
@pytest.mark.parametrize("examples", BUDGETS)
def test_booked_totals_are_taken_as_a_whole_or_not_at_all(examples: int, cast: Cast) -> None:
    month = Month(2026, 2)

    @trying(examples)
    @given(text=tables(reconciling.COLUMNS, VALUES))
    def imported(text: str) -> None:
        before = BookedTotal.objects.count()
        with transaction.atomic():
            try:
                count = reconciling.import_totals(text=text, month=month, actor=cast.finance, now=NOW)
            except reconciling.UnableToImport as unable:
                told(unable, *unable.faults)
                assert BookedTotal.objects.count() == before
            else:
                assert BookedTotal.objects.count() == count
            transaction.set_rollback(True)

    imported()


@pytest.mark.django_db
@pytest.mark.parametrize("examples", BUDGETS)
def test_a_file_of_prices_becomes_a_book_or_is_refused_with_a_reason(examples: int, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"

    @trying(examples)
    @given(
        text=tables(("device_class", "product", "per_hour"), VALUES),
        since=st.sampled_from(
            ["", "2026-01-01", "0001-01-01", "9999-12-31", "soon", "2026-01-01T00:00+99:00"]
        ),
        currency=st.sampled_from(["EUR", "eur", "XYZ", ""]),
    )
    def added(text: str, since: str, currency: str) -> None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        with transaction.atomic():
            try:
                call_command(
                    "prices", "add", "Tried", str(path), currency=currency, valid_from=since, stdout=None
                )
            except CommandError as error:
                told(error)
                assert not PriceBook.objects.exists()
            else:
                (book,) = PriceBook.objects.all()
                assert all(price.per_hour >= 0 for price in book.prices.all())
            transaction.set_rollback(True)

    added()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("examples", BUDGETS)
def test_a_file_is_checked_against_focus_or_called_unreadable(
    examples: int, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"bill.{ending}"
    columns = tuple(named("1.4"))
    values = dict.fromkeys(columns, ("", "1.5", "EUR", "Usage", "2026-03-01T00:00:00Z", "null"))

    @trying(examples)
    @given(data=st.data())
    def checked(data: st.DataObject) -> None:
        whole = data.draw(st.binary(max_size=80)) if ending == "parquet" or data.draw(st.booleans()) else None
        few = tuple(data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=9, unique=True)))
        path.write_bytes(whole if whole is not None else data.draw(tables(few, values)).encode())
        try:
            for violation in rules.check_file(path, version=data.draw(st.sampled_from(["", "1.2", "1.4"]))):
                assert violation.rule
        except rules.Unreadable as unreadable:
            told(unreadable)

    checked()
