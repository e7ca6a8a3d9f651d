"""Rating: what the use of devices comes to by the price books. Exact until the last line.

The pure part: usages are plain values, amounts are Fractions of a currency unit. A usage is split where price
books change; each segment has one price. What has no price has no amount: it is shown as such and never
counted as zero.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from claims.money.books import (
    DEVICE,
    HELD,
    Book,
    Kind,
    PriceList,
    PriceSegment,
    Rate,
    plain,
    price_list,
    share,
)
from portal import money

__all__ = [
    "MICROSECOND",
    "Book",
    "Gathered",
    "Line",
    "PriceList",
    "PriceSegment",
    "Segment",
    "Statement",
    "Usage",
    "conclude",
    "gather",
    "plain",
    "price_list",
    "rate",
    "share",
    "statement",
]
MICROSECOND = timedelta(microseconds=1)


class LineKey(NamedTuple):
    """What makes a line."""

    project_id: int | None
    device_class: str
    product: str
    # Per unit and hour, with the discount taken off.
    per_hour: Decimal | None
    currency: str
    unit: str
    per: str
    list_price: Decimal | None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """One interval of the ledger, as far as money is concerned. `end` None = it still runs."""

    project_id: int | None
    device_class: str
    product: str
    start: datetime
    end: datetime | None
    # 1, or the share of a device that several use.
    quantity: Fraction = Fraction(1)
    # What else a price may depend on, as the ledger tells it.
    profile: str = ""
    resource: str = ""
    use: str = HELD
    consumed: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """All of that but the time."""
        return Kind(
            project_id=self.project_id,
            device_class=self.device_class,
            product=self.product,
            profile=self.profile,
            resource=self.resource,
            use=self.use,
            share=self.quantity,
            consumed=self.consumed,
            capacity=self.capacity,
            counters=self.counters,
        )

    @property
    def identity(self) -> Hashable:
        """The same for what is priced alike."""
        amounts = (self.consumed, self.capacity, self.counters)
        return (
            self.project_id,
            self.device_class,
            self.product,
            self.quantity,
            self.profile,
            self.resource,
            self.use,
            repr(amounts) if any(amounts) else "",
        )


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch of a usage at one price. `amount` None = no price."""

    start: datetime
    end: datetime
    per_hour: Decimal | None
    currency: str
    quantity: Fraction

    @property
    def microseconds(self) -> int:
        return (self.end - self.start) // MICROSECOND

    @property
    def device_microseconds(self) -> Fraction:
        """Device time: quantity × microseconds."""
        return self.quantity * self.microseconds

    @property
    def amount(self) -> Fraction | None:
        """The exact amount in units of the currency."""
        if self.per_hour is None:
            return None
        return money.cost(per_hour=self.per_hour, microseconds=self.microseconds, quantity=self.quantity)


@dataclass(frozen=True, kw_only=True)
class Line:
    """What usages of one kind at one price came to. `amount` is rounded so that the lines of a currency add
    up to its total; None = no price."""

    project_id: int | None
    device_class: str
    product: str
    per_hour: Decimal | None
    currency: str
    device_microseconds: Fraction
    exact: Fraction | None
    amount: Decimal | None
    # How many of the usages still run: the line grows.
    running: int
    count: int
    # What is counted (`books.DEVICE`, …) and of how much the price is; the price before any discount.
    unit: str = DEVICE
    per: str = ""
    list_price: Decimal | None = None

    @property
    def price(self) -> str:
        """The exact price per device-hour; "" = no price."""
        return plain(self.per_hour)

    @property
    def device_hours(self) -> Fraction:
        return self.device_microseconds / money.MICROSECONDS_PER_HOUR

    @property
    def hours_text(self) -> str:
        """Device-hours with six places, independent of the reader's language."""
        return f"{Decimal(round(self.device_hours * 10**6)).scaleb(-6):f}"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Lines and their totals per currency for [start, end)."""

    start: datetime
    end: datetime
    lines: tuple[Line, ...]
    totals: Mapping[str, Decimal]

    @property
    def unpriced(self) -> bool:
        """Whether something was used that no book has a price for."""
        return any(line.per_hour is None for line in self.lines)

    @property
    def running(self) -> bool:
        return any(line.running for line in self.lines)


@dataclass
class Gathered:
    """Time of usages of one kind under one price book, in microseconds, whatever share of a device they had;
    `running` of its `count` usages still run."""

    kind: Kind
    microseconds: int = 0
    count: int = 0
    running: int = 0

    def add(self, microseconds: int, *, running: int, count: int = 1) -> None:
        """Add usages of so many microseconds together."""
        self.microseconds += microseconds
        self.count += count
        self.running += running


# By what identifies the kind, and by the index of the stretch of time in which one price book holds.
GatheredKey = tuple[Hashable, int]


@dataclass
class _Sum:
    # As long as all are whole devices these are whole numbers, which are far cheaper to add up.
    time: int | Fraction = 0
    count: int = 0
    running: int = 0


def rate(usage: Usage, prices: PriceList, *, start: datetime, end: datetime, now: datetime) -> list[Segment]:
    """The usage's segments within [start, end). What still runs is rated up to `now`."""
    lower = max(usage.start, start)
    upper = min(usage.end or now, end, now)
    segments = []
    for since, until, book in prices.segments(lower, upper):
        found = book.rate(prices.placed(usage.kind, since)) if book else None
        segments.append(
            Segment(
                start=since,
                end=until,
                per_hour=found.price if found else None,
                currency=book.currency if book else "",
                quantity=found.quantity if found else usage.quantity,
            )
        )
    return segments


def statement(
    usages: Iterable[Usage], prices: PriceList, *, start: datetime, end: datetime, now: datetime
) -> Statement:
    """Everything in [start, end), by project, class, product and price, rounded once, on the lines.

    Gives what `rate` gives for each usage, added up; but time is gathered first, as integers, per price book,
    and multiplied by prices once per line, so that a million usages are a matter of seconds."""
    segments = list(prices.segments(start, min(end, now)))
    gathered = gather(usages, segments, up_to_now=now <= end)
    return conclude(gathered, segments, prices, start=start, end=end)


def conclude(
    gathered: Mapping[GatheredKey, Gathered],
    segments: Sequence[PriceSegment],
    prices: PriceList,
    *,
    start: datetime,
    end: datetime,
) -> Statement:
    """The statement that gathered device time comes to. Its keys end in an index of `segments`."""
    sums: dict[LineKey, _Sum] = defaultdict(_Sum)
    for (_identity, index), part in gathered.items():
        since, _until, book = segments[index]
        found = book.rate(prices.placed(part.kind, since)) if book else None
        told = sums[_line_key(part.kind, found, book)]
        quantity = found.quantity if found else part.kind.share
        told.time += part.microseconds * (quantity.numerator if quantity.denominator == 1 else quantity)
        told.count += part.count
        told.running += part.running
    keys = sorted(sums, key=_line_order)
    rates = {
        price: Fraction(price) / money.MICROSECONDS_PER_HOUR
        for price in {key.per_hour for key in keys}
        if price is not None
    }
    exact = {key: None if key.per_hour is None else rates[key.per_hour] * sums[key].time for key in keys}
    rounded = _round({key: amount for key, amount in exact.items() if amount is not None})
    lines = tuple(
        Line(
            project_id=key.project_id,
            device_class=key.device_class,
            product=key.product,
            per_hour=key.per_hour,
            currency=key.currency,
            unit=key.unit,
            per=key.per,
            list_price=key.list_price,
            device_microseconds=Fraction(sums[key].time),
            exact=exact[key],
            amount=rounded.get(key),
            running=sums[key].running,
            count=sums[key].count,
        )
        for key in keys
    )
    totals: dict[str, Decimal] = {}
    for line in lines:
        if line.amount is not None:
            totals[line.currency] = totals.get(line.currency, Decimal(0)) + line.amount
    return Statement(start=start, end=end, lines=lines, totals=totals)


def gather(
    usages: Iterable[Usage], segments: Sequence[PriceSegment], *, up_to_now: bool
) -> dict[GatheredKey, Gathered]:
    """Time by kind of usage and segment (by its index)."""
    gathered: dict[GatheredKey, Gathered] = {}
    last = len(segments) - 1
    for usage in usages:
        identity = usage.identity
        for index, (lower, upper, _book) in enumerate(segments):
            since = max(lower, usage.start)
            until = upper if usage.end is None else min(upper, usage.end)
            if since < until:
                key = identity, index
                if key not in gathered:
                    gathered[key] = Gathered(usage.kind)
                gathered[key].add(
                    (until - since) // MICROSECOND,
                    running=usage.end is None and index == last and up_to_now,
                )
    return gathered


def _line_key(kind: Kind, found: Rate | None, book: Book | None) -> LineKey:
    return LineKey(
        project_id=kind.project_id,
        device_class=kind.device_class,
        product=kind.product,
        per_hour=found.price if found else None,
        currency=book.currency if book else "",
        unit=found.unit if found else DEVICE,
        per=found.per if found else "",
        list_price=found.list_price if found else None,
    )


def _round(amounts: Mapping[LineKey, Fraction]) -> dict[LineKey, Decimal]:
    rounded: dict[LineKey, Decimal] = {}
    for currency in {key.currency for key in amounts}:
        priced = [key for key in amounts if key.currency == currency]
        lines = money.rounded_lines([amounts[key] for key in priced], currency=currency)
        rounded |= dict(zip(priced, lines, strict=True))
    return rounded


def _line_order(key: LineKey) -> tuple[Any, ...]:
    # Unpriced and unattributed last: they need somebody's attention.
    return (
        key.project_id is None,
        key.project_id or 0,
        key.per_hour is None,
        key.product,
        key.device_class,
        key.currency,
        key.per_hour or 0,
        key.unit,
        key.per,
        key.list_price or 0,
    )
