"""What a price book says, as a form or a program sends it: read, judged, and named where it is wrong.

A document has name, currency, note, prices (class, product, per_hour), rules in order, and discounts in
order. Errors are by path: "currency", "rules.0.per_hour".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE, WrongValue, read_choice, read_quantity, read_text
from claims.models import PriceRule
from claims.money.books import CAPACITY, COUNTERS, GATES, Book, Discount, Profiles, Rule
from inventory.identity import is_identity
from inventory.models import DeviceProfile
from portal import money, texts
from portal.accounts.models import Project
from portal.dra.cel import CelCompileError, compile_selector

MAX_ROWS = 200
MAX_EXPRESSION = 4_000
# Fifteen digits are exact in every database.
_PRICE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})?", re.ASCII)
SECTIONS: Mapping[str, Sequence[str]] = {
    "prices": ("device_class", "product", "per_hour"),
    "rules": (
        *("label", "use", "device_class", "product", "profile", "resource", "expression"),
        *("unit", "capacity", "per", "per_hour"),
    ),
    "discounts": ("project", "cost_centre", "percent"),
}
# What an empty row is filled with all the same.
_PRESET = ("use", "unit")


class UnableToPrice(ValueError):
    """The document is no price book; `errors` has messages by path ("__all__" = the whole)."""

    def __init__(self, errors: Mapping[str, Sequence[str]]) -> None:
        super().__init__("; ".join(f"{path}: {said[0]}" for path, said in errors.items()))
        self.errors = errors


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A document that was found right."""

    name: str
    currency: str
    note: str
    prices: Mapping[tuple[str, str], Decimal]
    rules: Sequence[Rule]
    discounts: Sequence[Discount]

    def book(self, *, valid_from: Any) -> Book:
        """As a book that holds from some time on."""
        return Book(
            name=self.name,
            currency=self.currency,
            valid_from=valid_from,
            prices=self.prices,
            rules=self.rules,
            discounts=self.discounts,
            profiles=Profiles(),
        )


@dataclass
class _Reading:
    errors: dict[str, list[str]] = field(default_factory=dict)

    def wrong(self, path: str, message: str) -> None:
        self.errors.setdefault(path, []).append(message)

    def value(
        self, path: str, read: Callable[..., Any], row: Mapping[str, Any], name: str, **how: Any
    ) -> Any:
        """What `read` finds; None, and the message kept, where it is wrong."""
        try:
            return read(row, name, **how)
        except WrongValue as wrong:
            self.wrong(path, str(wrong))
            return None


def tidied(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as text in its known places, without empty rows: what a draft keeps, right or not."""
    told: dict[str, Any] = {name: _text(document.get(name)) for name in ("name", "currency", "note")}
    for section, names in SECTIONS.items():
        rows = document.get(section)
        kept = []
        for row in rows[: MAX_ROWS + 1] if isinstance(rows, list) else []:
            cells = {name: _text(row.get(name)) for name in names} if isinstance(row, Mapping) else {}
            if any(cells.get(name) for name in names if name not in _PRESET):
                kept.append(cells)
        told[section] = kept
    return told


def read_terms(document: Mapping[str, Any]) -> Terms:
    """Judge a document. Raises UnableToPrice with every fault by its path."""
    reading = _Reading()
    name = reading.value("name", _named, document, "name", limit=80)
    if name == "":
        reading.wrong("name", _("A price book needs a name."))
    currency = reading.value("currency", _currency, document, "currency")
    note = reading.value("note", read_text, document, "note", limit=500)
    rows = {section: _rows(reading, document, section) for section in SECTIONS}
    prices = _prices(reading, rows["prices"])
    rules = [_rule(reading, f"rules.{index}", row) for index, row in enumerate(rows["rules"])]
    discounts = _discounts(reading, rows["discounts"])
    if not rows["prices"] and not rows["rules"] and not reading.errors:
        reading.wrong(WHOLE, _("A price book needs at least one price."))
    if reading.errors:
        raise UnableToPrice(reading.errors)
    return Terms(
        name=name,
        currency=currency,
        note=note,
        prices=prices,
        rules=[rule for rule in rules if rule is not None],
        discounts=discounts,
    )


def document_of(book: Book, *, note: str = "", slugs: Mapping[int, str]) -> dict[str, Any]:
    """A book as a document; `slugs` of projects by their keys."""
    return {
        "name": book.name,
        "currency": book.currency,
        "note": note,
        "prices": [
            {"device_class": device_class, "product": product, "per_hour": price}
            for device_class, product, price in book.rows
        ],
        "rules": [{name: _written(getattr(rule, name)) for name in SECTIONS["rules"]} for rule in book.rules],
        "discounts": [
            {
                "project": "" if d.project_id is None else slugs.get(d.project_id, ""),
                "cost_centre": d.cost_centre,
                "percent": _written(d.percent),
            }
            for d in book.discounts
        ],
    }


# --- sections ---------------------------------------------------------------------------------------


def _rows(reading: _Reading, document: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    rows = document.get(section) or []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        reading.wrong(section, _("This must be a list of objects."))
        return []
    if len(rows) > MAX_ROWS:
        reading.wrong(section, _("At most %(limit)s of them.") % {"limit": MAX_ROWS})
        return []
    for index, row in enumerate(rows):
        for name in row.keys() - set(SECTIONS[section]):
            reading.wrong(f"{section}.{index}", _("There is no “%(name)s”.") % {"name": str(name)[:40]})
    return rows


def _prices(reading: _Reading, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Decimal]:
    found: dict[tuple[str, str], Decimal] = {}
    for index, row in enumerate(rows):
        path = f"prices.{index}"
        device_class = reading.value(f"{path}.device_class", read_text, row, "device_class", limit=253)
        product = reading.value(f"{path}.product", read_text, row, "product", limit=128)
        price = reading.value(f"{path}.per_hour", read_price, row, "per_hour")
        if device_class is None or product is None or price is None:
            continue
        if (device_class, product) in found:
            reading.wrong(f"{path}.product", _("Another price is for the same class and product."))
        found[device_class, product] = price
    return found


def _rule(reading: _Reading, path: str, row: Mapping[str, Any]) -> Rule | None:
    before = dict(reading.errors)

    def text(name: str, limit: int) -> Any:
        return reading.value(f"{path}.{name}", read_text, row, name, limit=limit)

    preset = {"use": PriceRule.Use.HELD, "unit": PriceRule.Unit.DEVICE}
    row = {**row, **{name: row.get(name) or value for name, value in preset.items()}}
    found = {
        "label": text("label", 80),
        "use": reading.value(f"{path}.use", read_choice, row, "use", choices=PriceRule.Use.values),
        "device_class": text("device_class", 253),
        "product": text("product", 128),
        "profile": reading.value(f"{path}.profile", _profile, row, "profile"),
        "resource": text("resource", 317),
        "expression": reading.value(f"{path}.expression", _expression, row, "expression"),
        "unit": reading.value(f"{path}.unit", read_choice, row, "unit", choices=PriceRule.Unit.values),
        "capacity": text("capacity", 320),
        "per": reading.value(f"{path}.per", read_quantity, row, "per"),
        "per_hour": reading.value(f"{path}.per_hour", read_price, row, "per_hour"),
    }
    if found["unit"] == CAPACITY and found["capacity"] == "":
        reading.wrong(f"{path}.capacity", _("Name the capacity that is counted."))
    if found["unit"] == CAPACITY and found["per"] == "":
        reading.wrong(f"{path}.per", _("Say how much of it the price is for, such as 1Gi."))
    if found["unit"] not in (CAPACITY, None):
        for name in ("capacity", "per"):
            if found[name]:
                reading.wrong(f"{path}.{name}", _("Only a price per unit of capacity has this."))
    if found["use"] == PriceRule.Use.IDLE:
        # Else the rule would be for nothing, and nobody would see why idle time has no price.
        for name in ("device_class", "resource"):
            if found[name]:
                reading.wrong(f"{path}.{name}", _("What is idle was asked for by nobody: leave this empty."))
        if found["unit"] == COUNTERS:
            reading.wrong(f"{path}.unit", _("What is idle draws on no counters: price it by the device."))
    return Rule(**found) if reading.errors == before else None


def _discounts(reading: _Reading, rows: Sequence[Mapping[str, Any]]) -> list[Discount]:
    slugs = {str(row.get("project") or "").strip() for row in rows}
    known = dict(
        Project.objects.filter(slug__in=[s for s in slugs if "\0" not in s]).values_list("slug", "pk")
    )
    found = []
    for index, row in enumerate(rows):
        path = f"discounts.{index}"
        slug = reading.value(f"{path}.project", read_text, row, "project", limit=50)
        centre = reading.value(f"{path}.cost_centre", _named, row, "cost_centre", limit=40)
        percent = reading.value(f"{path}.percent", _percent, row, "percent")
        if slug and slug not in known:
            reading.wrong(f"{path}.project", _("There is no such project."))
        elif slug is not None and centre is not None and bool(slug) == bool(centre):
            reading.wrong(f"{path}.project", _("Name either a project or a cost centre."))
        elif percent is not None and slug is not None and centre is not None:
            found.append(Discount(percent=percent, project_id=known.get(slug), cost_centre=centre))
    return found


# --- single values ----------------------------------------------------------------------------------


def read_price(values: Mapping[str, Any], name: str) -> Decimal:
    """A price of at least 0 with six decimals at most."""
    typed = read_text(_as_text(values, name), name)
    if not _PRICE.fullmatch(typed):
        raise WrongValue(
            _("“%(typed)s” is not a price: write a number below a thousand million such as 2.50, with six "
              "decimals at most.") % {"typed": typed[:40]}
        )  # fmt: skip
    return Decimal(typed)


def _percent(values: Mapping[str, Any], name: str) -> Decimal:
    typed = read_text(_as_text(values, name), name)
    if not _PERCENT.fullmatch(typed) or not 0 < Decimal(typed) <= 100:
        raise WrongValue(_("Write a percentage above 0 and up to 100, with four decimals at most."))
    return Decimal(typed)


def _currency(values: Mapping[str, Any], name: str) -> str:
    typed = read_text(values, name)
    try:
        money.demand_currency(typed)
    except money.InvalidCurrency:
        raise WrongValue(_("Write the three capital letters of a currency (ISO 4217): EUR.")) from None
    return typed


def _named(values: Mapping[str, Any], name: str, *, limit: int) -> str:
    try:
        return texts.name(read_text(values, name, limit=limit))
    except texts.UncleanText as unclean:
        raise WrongValue(unclean.message) from None


def _profile(values: Mapping[str, Any], name: str) -> str:
    digest = read_text(values, name, limit=64)
    if digest and not DeviceProfile.objects.filter(digest=digest).exists():
        raise WrongValue(_("No device ever had this profile."))
    return digest


def _expression(values: Mapping[str, Any], name: str) -> str:
    text = read_text(values, name, limit=MAX_EXPRESSION)
    if text:
        try:
            reads = compile_selector(text, features=GATES, enforce_estimate=True).reads
        except CelCompileError as error:
            raise WrongValue(error.message) from None
        own = [read[2] for read in reads if read[0] == "attribute" and is_identity(read[2], driver=read[1])]
        if own:
            # It would be for nothing: what an allocation was is kept with its profile.
            raise WrongValue(
                _("“%(name)s” tells single devices apart; prices are for kinds of devices.")
                % {"name": sorted(own)[0]}
            )
    return text


def _as_text(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """JSON may hold a number where a form holds text; floats are taken as they are written."""
    value = values.get(name)
    return {name: str(value)} if isinstance(value, float) else values


def _text(value: Any) -> str:
    return "" if value is None else str(value).replace("\0", "")[: MAX_EXPRESSION + 1]


def _written(value: Any) -> str:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)
