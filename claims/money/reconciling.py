"""What the ledger of the house (ERP) booked for a month, beside what the statements come to."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from django.db import transaction
from django.utils.translation import gettext as _

from claims.models import BookedTotal
from claims.money.months import Month
from portal import money
from portal.accounts import audit
from portal.accounts.models import Project, User

COLUMNS = ("project", "currency", "amount")
MAX_BYTES, MAX_LINES = 1024 * 1024, 5_000
# A decimal comma, as many houses write it. With three digits after it, it may stand between thousands.
_COMMA = re.compile(r"-?[0-9]+,([0-9]{1,2}|[0-9]{4})", re.ASCII)


class UnableToImport(Exception):
    """Nothing was imported; `faults` says why, line by line."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One project's month in one currency; None = that side has nothing."""

    project: Project
    currency: str
    ours: Decimal | None
    booked: Decimal | None

    @property
    def difference(self) -> Decimal:
        return (self.booked or Decimal(0)) - (self.ours or Decimal(0))


def import_totals(*, text: str, month: Month, actor: User, now: datetime) -> int:
    """Take the totals of a month from CSV (project;currency;amount), in place of those from before. All of
    it or nothing. Raises UnableToImport."""
    rows, faults = _read(text)
    if faults:
        raise UnableToImport(faults[:50])
    with transaction.atomic():
        BookedTotal.objects.filter(month=str(month)).delete()
        BookedTotal.objects.bulk_create(
            BookedTotal(
                project=project, month=str(month), currency=currency, minor=minor, imported_at=now,
                imported_by=actor,
            )
            for (project, currency), minor in rows.items()
        )  # fmt: skip
        audit.record_named(
            now=now,
            actor=actor,
            action="reconciliation.import",
            kind="month",
            key=str(month),
            name=str(month),
            after={"totals": len(rows)},
        )
    return len(rows)


def compare(
    *, month: Month, ours: Mapping[tuple[int, str], Decimal], projects: Mapping[int, Project]
) -> list[Compared]:
    """Both sides by project and currency, what differs most first."""
    booked = {
        (row.project_id, row.currency): money.from_minor_units(row.minor, currency=row.currency)
        for row in BookedTotal.objects.filter(month=str(month))
    }
    named = {**Project.objects.in_bulk([pk for pk, _c in booked]), **projects}
    rows = [
        Compared(
            project=named[pk],
            currency=currency,
            ours=ours.get((pk, currency)),
            booked=booked.get((pk, currency)),
        )
        for pk, currency in booked.keys() | ours.keys()
    ]
    return sorted(rows, key=lambda row: (-abs(row.difference), row.project.name, row.currency))


def _read(text: str) -> tuple[dict[tuple[Project, str], int], list[str]]:
    if len(text.encode()) > MAX_BYTES:
        return {}, [_("The table is too large.")]
    if "\x00" in text:
        return {}, [_("There is a NUL character: this is no text.")]
    text = text.removeprefix("\ufeff")
    if not text.strip():
        return {}, [_("There is nothing in it.")]
    delimiter = max(",;\t", key=text.lstrip().splitlines()[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: dict[tuple[Project, str], int] = {}
    faults: list[str] = []
    projects = {project.slug: project for project in Project.objects.all()}
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                if wrong := _wrong_header(header):
                    return {}, wrong
                continue
            if reader.line_num > MAX_LINES:
                return {}, [_("There are more than %(count)s lines.") % {"count": MAX_LINES}]
            _line(reader.line_num, header, cells, projects=projects, rows=rows, faults=faults)
    except csv.Error as error:
        faults.append(_("This is no CSV: %(error)s.") % {"error": error})
    # A header alone would take away what was imported before.
    return rows, faults if rows or faults else [_("There is nothing in it.")]


def _wrong_header(header: Sequence[str]) -> list[str]:
    if missing := [name for name in COLUMNS if name not in header]:
        return [_("The column “%(name)s” is missing.") % {"name": name} for name in missing]
    return [_("This column is there twice.")] if any(header.count(name) > 1 for name in COLUMNS) else []


def _line(
    number: int,
    header: Sequence[str],
    cells: Sequence[str],
    *,
    projects: Mapping[str, Project],
    rows: dict[tuple[Project, str], int],
    faults: list[str],
) -> None:
    def wrong(message: str) -> None:
        faults.append(_("Line %(number)s: %(message)s") % {"number": number, "message": message})

    if any(cell.strip() for cell in cells[len(header) :]):
        # A decimal comma between commas would be read as a whole amount and a cell of nobody's.
        told = {"found": len(cells), "wanted": len(header)}
        wrong(_("The line has %(found)s cells, the header has %(wanted)s.") % told)
        return
    named = dict(zip(header, cells, strict=False))
    slug, currency, typed = (named.get(name, "").strip() for name in COLUMNS)
    project = projects.get(slug)
    if project is None:
        wrong(_("there is no project “%(slug)s”.") % {"slug": slug[:60]})
        return
    try:
        minor = read_minor(typed.replace(",", ".") if _COMMA.fullmatch(typed) else typed, currency=currency)
    except ValueError as error:
        wrong(str(error))
        return
    if (project, currency) in rows:
        wrong(_("this project and currency are there twice."))
        return
    rows[project, currency] = minor


def read_minor(typed: str, *, currency: str) -> int:
    """An amount as minor units of its currency, which has to fit: 12.34 EUR is 1234. Raises ValueError."""
    try:
        money.demand_currency(currency)
    except money.InvalidCurrency:
        raise ValueError(_("Write the three capital letters of a currency (ISO 4217): EUR.")) from None
    places = money.exponent(currency)
    try:
        amount = Decimal(typed) if typed.isascii() and len(typed) <= 20 else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or abs(amount) >= 10**12 or amount != round(amount, places):
        raise ValueError(
            _("“%(typed)s” is no amount in %(currency)s: a number with %(places)s decimals at most.")
            % {"typed": typed[:40], "currency": currency, "places": places}
        )
    return int(amount.scaleb(places))
