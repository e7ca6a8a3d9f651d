"""Price books as plain values: which price holds when, and for what. Pure, and exact.

A use of a device (`Kind`) is priced by the first of the book's ordered rules that is for it, else by the
book's price list; what neither has a price for has no price. A discount makes the price less; the list price
stays known.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from claims.models import CostCentre, PriceBook
from inventory.identity import amount_named
from inventory.mirror.matching import view
from inventory.models import DeviceProfile
from portal.accounts.models import Project
from portal.dra.cel import CelCompileError, CelEvaluationError, DeviceView, Selector, compile_selector
from portal.dra.features import LATEST, Features
from portal.dra.quantity import InvalidQuantity, Quantity

# Rules may read whatever the newest Kubernetes that the desk knows lets an expression read.
GATES = Features.for_version(LATEST).gates
HELD, UNUSED, IDLE = "held", "unused", "idle"
DEVICE, CAPACITY, COUNTERS = "device", "capacity", "counters"


def plain(price: Decimal | None) -> str:
    """A price with all its digits, two at least, for arithmetic that adds up; "" = no price."""
    if price is None:
        return ""
    whole, _dot, decimals = f"{price:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a price may depend on."""

    project_id: int | None = None
    cost_centre: str = ""
    device_class: str = ""
    product: str = ""
    profile: str = ""
    resource: str = ""
    use: str = HELD
    # Which part of the device it has, and what of its capacities: {name: quantity}.
    share: Fraction = Fraction(1)
    consumed: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, Any] = field(default_factory=dict)
    # What a partition draws on: {"set/counter": {"used": "1", "total": "8"}}.
    counters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One of the ordered rules of a book; conditions that are "" hold for anything."""

    per_hour: Decimal
    label: str = ""
    use: str = HELD
    device_class: str = ""
    product: str = ""
    profile: str = ""
    resource: str = ""
    expression: str = ""
    unit: str = DEVICE
    capacity: str = ""
    per: str = ""

    @property
    def plain_conditions(self) -> bool:
        """Whether class and product decide alone, and time is all that is counted."""
        return not (self.profile or self.resource or self.expression) and self.unit == DEVICE

    def is_for(self, kind: Kind, profiles: "Profiles") -> bool:
        """Whether it prices such a use. An expression that fails for a device is not for it."""
        if self.use != kind.use:
            return False
        asked = ("device_class", "product", "profile", "resource")
        if any(getattr(self, name) not in ("", getattr(kind, name)) for name in asked):
            return False
        if self.expression and not profiles.matches(self.expression, kind.profile):
            return False
        return self.unit == DEVICE or self.quantity(kind) is not None

    def quantity(self, kind: Kind) -> Fraction | None:
        """How many units such a use counts as; None = what it would be counted by is not known of it."""
        if self.unit == CAPACITY:
            return capacity_units(kind, self.capacity, self.per)
        if self.unit == COUNTERS:
            part = largest_part(kind.counters)
            # Of a partition that several share, each pays its share.
            return None if part is None else part * kind.share
        return kind.share


@dataclass(frozen=True, kw_only=True)
class Discount:
    """`percent` less for a project, or for the projects of a cost centre."""

    percent: Decimal
    project_id: int | None = None
    cost_centre: str = ""

    def is_for(self, kind: Kind) -> bool:
        if self.project_id is not None:
            return self.project_id == kind.project_id
        return bool(self.cost_centre) and self.cost_centre == kind.cost_centre


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What one hour of a use costs: `list_price` per unit, less `percent`, times `quantity` units."""

    list_price: Decimal
    percent: Decimal
    quantity: Fraction
    unit: str = DEVICE
    per: str = ""
    label: str = ""
    # Position of the rule; None = the price list.
    rule: int | None = None

    @property
    def price(self) -> Decimal:
        """Per unit and hour, with the discount taken off; exact."""
        return self.list_price * (100 - self.percent) / 100 if self.percent else self.list_price


class Profiles:
    """Profiles by digest as expressions see them; fetched when one is asked for first. What an expression
    says of a profile never changes, and is asked once."""

    def __init__(self, views: Mapping[str, DeviceView] | None = None) -> None:
        self._views: dict[str, DeviceView | None] = dict(views or {})
        self._told: dict[tuple[str, str], bool] = {}
        self._expected: set[str] = set()

    def expect(self, digests: Iterable[str]) -> None:
        """Name profiles that will be asked about: the first question fetches them all at once."""
        self._expected.update(digest for digest in digests if digest and digest not in self._views)

    def matches(self, expression: str, digest: str) -> bool:
        key = expression, digest
        if key not in self._told:
            self._told[key] = self._ask(expression, self._view(digest))
        return self._told[key]

    def _view(self, digest: str) -> DeviceView | None:
        if digest and digest not in self._views:
            wanted = {digest, *self._expected}
            self._expected.clear()
            self._views |= dict.fromkeys(wanted)
            for profile in DeviceProfile.objects.filter(digest__in=wanted):
                self._views[profile.digest] = view(profile)
        return self._views.get(digest)

    @staticmethod
    def _ask(expression: str, seen: DeviceView | None) -> bool:
        selector = _compiled(expression)
        if seen is None or selector is None:
            return False
        try:
            return selector.evaluate(seen)
        except CelEvaluationError:
            return False


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Selector | None:
    try:
        return compile_selector(expression, features=GATES)
    except CelCompileError:
        return None


@dataclass(frozen=True, kw_only=True)
class Book:
    """Prices that hold from `valid_from` until the next book starts. Keys of `prices` are (class, product),
    each "" for any."""

    name: str
    currency: str
    valid_from: datetime
    prices: Mapping[tuple[str, str], Decimal]
    rules: Sequence[Rule] = ()
    discounts: Sequence[Discount] = ()
    profiles: Profiles = field(default_factory=Profiles, compare=False, repr=False)
    pk: int | None = None

    @property
    def rows(self) -> "list[tuple[str, str, str]]":
        """(class, product, price) for display, the general ones first."""
        return [(*target, plain(price)) for target, price in sorted(self.prices.items())]

    @property
    def detailed(self) -> bool:
        """Whether the price of what is held, used or not, depends on more than project, class and product."""
        return any(not rule.plain_conditions for rule in self.rules if rule.use != IDLE)

    @property
    def tells_unused(self) -> bool:
        """Whether what is held without being used has a price of its own."""
        return any(rule.use == UNUSED for rule in self.rules)

    def price(self, *, device_class: str, product: str) -> Decimal | None:
        """Price per device-hour by class and product, before any discount; None = this book has none."""
        kind = Kind(device_class=device_class, product=product)
        for rule in self.rules:
            if rule.plain_conditions and rule.is_for(kind, self.profiles):
                return rule.per_hour
        return self._listed(kind)

    def rate(self, kind: Kind) -> Rate | None:
        """What such a use costs; None = this book has no price for it. What is held but not used costs what
        use costs unless a rule says otherwise; idle time costs nothing unless a rule is for it."""
        percent = next((d.percent for d in self.discounts if d.is_for(kind)), Decimal(0))
        for position, rule in enumerate(self.rules):
            if rule.is_for(kind, self.profiles):
                quantity = rule.quantity(kind)
                assert quantity is not None  # is_for has seen to it
                return Rate(
                    list_price=rule.per_hour,
                    percent=percent,
                    quantity=quantity,
                    unit=rule.unit,
                    per=rule.per,
                    label=rule.label,
                    rule=position,
                )
        if kind.use == UNUSED:
            return self.rate(replace(kind, use=HELD))
        price = self._listed(kind) if kind.use == HELD else None
        if price is None:
            return None
        return Rate(list_price=price, percent=percent, quantity=kind.share)

    def _listed(self, kind: Kind) -> Decimal | None:
        """The price list's; its most specific row wins."""
        device_class, product = kind.device_class, kind.product
        for key in ((device_class, product), ("", product), (device_class, ""), ("", "")):
            if key in self.prices:
                return self.prices[key]
        return None


class Centres:
    """Cost centres of projects; fetched when one is asked for first. Of a time for which nothing is recorded,
    the one that the project has now."""

    def of(self, project_id: int, at: datetime) -> str:
        """The code that the project belongs to at that time; "" = none."""
        for code, since, until in self._recorded.get(project_id, ()):
            if since <= at and (until is None or at < until):
                return code
        return self._present.get(project_id, "")

    def during(self, project_id: int, start: datetime, end: datetime) -> list[str]:
        """The codes that it belongs to within [start, end), in order of time, each once; none is no code."""
        moments = [start, *sorted(self.cuts(start, end, project_id))]
        return list(dict.fromkeys(code for at in moments if (code := self.of(project_id, at))))

    def cuts(self, start: datetime, end: datetime, project_id: int | None = None) -> set[datetime]:
        """When within (start, end) projects (or one of them) move from one to another."""
        recorded = self._recorded
        of = recorded.values() if project_id is None else [recorded.get(project_id, [])]
        moments = {at for periods in of for _code, *bounds in periods for at in bounds}
        return {at for at in moments if at is not None and start < at < end}

    @cached_property
    def _recorded(self) -> dict[int, list[tuple[str, datetime, datetime | None]]]:
        found: dict[int, list[tuple[str, datetime, datetime | None]]] = {}
        columns = ("project_id", "code", "valid_from", "valid_until")
        for project, *period in CostCentre.objects.order_by("valid_from").values_list(*columns):
            found.setdefault(project, []).append((period[0], period[1], period[2]))
        return found

    @cached_property
    def _present(self) -> dict[int, str]:
        return dict(Project.objects.values_list("pk", "cost_centre"))


# From when to when which book holds.
PriceSegment = tuple[datetime, datetime, Book | None]


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """All books in order of time, and which cost centre a project belongs to when."""

    books: tuple[Book, ...]
    centres: Centres = field(default_factory=Centres, compare=False, repr=False)

    def current(self, at: datetime) -> Book | None:
        """The book that holds at that instant."""
        index = bisect_right([book.valid_from for book in self.books], at) - 1
        return self.books[index] if index >= 0 else None

    @property
    def knows_centres(self) -> bool:
        """Whether any price depends on the cost centre."""
        return any(discount.cost_centre for book in self.books for discount in book.discounts)

    def placed(self, kind: Kind, at: datetime) -> Kind:
        """The kind with its project's cost centre at that time, where prices depend on it."""
        if kind.project_id is None or not self.knows_centres:
            return kind
        return replace(kind, cost_centre=self.centres.of(kind.project_id, at))

    def segments(self, start: datetime, end: datetime) -> Iterator[PriceSegment]:
        """[start, end) cut where books change, and where projects move between cost centres while a discount
        is for one; in order; nothing for an empty period."""
        cuts = {book.valid_from for book in self.books if start < book.valid_from < end}
        if self.knows_centres:
            cuts |= self.centres.cuts(start, end)
        bounds = [start, *sorted(cuts), end]
        for lower, upper in pairwise(bounds):
            if lower < upper:
                yield lower, upper, self.current(lower)


# --- quantities -------------------------------------------------------------------------------------


def share(consumed: Mapping[str, Any], capacity: Mapping[str, Any]) -> Fraction:
    """Which part of a device a claim uses: the largest consumed/total over its capacities; 1 if unknown."""
    parts = []
    for name, amount in consumed.items():
        whole, part = _nanos(amount_named(capacity, name)), _nanos(amount)
        if whole is not None and part is not None and whole > 0 and part >= 0:
            parts.append(min(Fraction(part, whole), Fraction(1)))
    return max(parts, default=Fraction(1))


def capacity_units(kind: Kind, name: str, per: str) -> Fraction | None:
    """How many times `per` a use has of a capacity: what it consumes of it, else all that the device has."""
    consumed = amount_named(kind.consumed, name)
    amount = _nanos(amount_named(kind.capacity, name) if consumed is None else consumed)
    unit = _nanos(per or "1")
    if amount is None or not unit or amount < 0 or unit < 0:
        return None
    return Fraction(amount, unit)


def largest_part(counters: Mapping[str, Any]) -> Fraction | None:
    """The largest used/total over the counters that a device draws on; None = they are not known."""
    parts = []
    for counter in counters.values():
        used, total = (_nanos(counter.get(name)) for name in ("used", "total"))
        if total and used is not None and 0 <= used <= total:
            parts.append(Fraction(used, total))
    return max(parts, default=None)


def _nanos(value: Any) -> int | None:
    """A quantity as the API writes it, bare or as {"value": …}."""
    if isinstance(value, Mapping):
        value = value.get("value")
    try:
        return Quantity.parse(str(value)).nanos
    except InvalidQuantity:
        return None


# --- as stored ----------------------------------------------------------------------------------------


def price_list() -> PriceList:
    """All price books as stored; four queries."""
    books = PriceBook.objects.order_by("valid_from").prefetch_related("prices", "rules", "discounts")
    profiles = Profiles()
    return PriceList(books=tuple(stored_book(book, profiles) for book in books))


def stored_book(book: PriceBook, profiles: Profiles) -> Book:
    """A book as it was published."""
    return Book(
        pk=book.pk,
        name=book.name,
        currency=book.currency,
        valid_from=book.valid_from,
        prices={(p.device_class, p.product): p.per_hour for p in book.prices.all()},
        rules=tuple(
            Rule(**{name: getattr(rule, name) for name in Rule.__dataclass_fields__})
            for rule in sorted(book.rules.all(), key=lambda rule: rule.position)
        ),
        discounts=tuple(
            Discount(project_id=d.project_id, cost_centre=d.cost_centre, percent=d.percent)
            for d in sorted(book.discounts.all(), key=lambda d: d.position)
        ),
        profiles=profiles,
    )
