"""What time with a device costs: price books in time, and the rating of usage. Exact until the last line.

The pure part: books and usages are plain values, amounts are Fractions of a currency unit. A usage is split
where price books change; each segment has one price. What has no price has no amount: it is shown as such and
never counted as zero.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from claims.models import PriceBook
from portal import money
from portal.dra.quantity import InvalidQuantity, Quantity

MICROSECOND = timedelta(microseconds=1)
# Project, class, product, and the index of the stretch of time in which one price book holds.
GatheredKey = tuple[int | None, str, str, int]
# Project, class, product, price per hour, currency: what makes a line.
_LineKey = tuple[int | None, str, str, Decimal | None, str]


def plain(price: Decimal | None) -> str:
    """A price with all its digits, two at least, for arithmetic that adds up; "" = no price."""
    if price is None:
        return ""
    whole, _dot, decimals = f"{price:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


@dataclass(frozen=True, kw_only=True)
class Book:
    """Prices that hold from `valid_from` until the next book starts. Keys of `prices` are (class, product),
    each "" for any."""

    name: str
    currency: str
    valid_from: datetime
    prices: Mapping[tuple[str, str], Decimal]

    @property
    def rows(self) -> "list[tuple[str, str, str]]":
        """(class, product, price) for display, the general ones first."""
        return [(*target, plain(price)) for target, price in sorted(self.prices.items())]

    def price(self, *, device_class: str, product: str) -> Decimal | None:
        """Price per device-hour; the most specific row wins. None = this book has no price for it."""
        for key in ((device_class, product), ("", product), (device_class, ""), ("", "")):
            if key in self.prices:
                return self.prices[key]
        return None


# From when to when which book holds.
PriceSegment = tuple[datetime, datetime, Book | None]


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """All books in order of time."""

    books: tuple[Book, ...]

    def current(self, at: datetime) -> Book | None:
        """The book that holds at that instant."""
        index = bisect_right([book.valid_from for book in self.books], at) - 1
        return self.books[index] if index >= 0 else None

    def segments(self, start: datetime, end: datetime) -> Iterator[PriceSegment]:
        """[start, end) cut where books change, in order; nothing for an empty period."""
        cuts = [book.valid_from for book in self.books if start < book.valid_from < end]
        bounds = [start, *cuts, end]
        for lower, upper in pairwise(bounds):
            if lower < upper:
                yield lower, upper, self.current(lower)


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


class Gathered:
    """Device time of usages of one kind under one price book; `running` of its `count` usages still run."""

    __slots__ = ("count", "running", "shares", "whole")

    def __init__(self) -> None:
        self.whole = 0
        self.shares = Fraction(0)
        self.count = 0
        self.running = 0

    @property
    def time(self) -> Fraction:
        """Device-microseconds, exactly."""
        return self.whole + self.shares

    def add(self, microseconds: int, quantity: Fraction, *, running: int, count: int = 1) -> None:
        """Add usages of the same quantity, of so many microseconds together."""
        if quantity == 1:
            self.whole += microseconds
        else:
            self.shares += quantity * microseconds
        self.count += count
        self.running += running

    def merge(self, other: "Gathered") -> None:
        self.whole += other.whole
        self.shares += other.shares
        self.count += other.count
        self.running += other.running


def rate(usage: Usage, prices: PriceList, *, start: datetime, end: datetime, now: datetime) -> list[Segment]:
    """The usage's segments within [start, end). What still runs is rated up to `now`."""
    lower = max(usage.start, start)
    upper = min(usage.end or now, end, now)
    return [
        Segment(
            start=since,
            end=until,
            per_hour=book.price(device_class=usage.device_class, product=usage.product) if book else None,
            currency=book.currency if book else "",
            quantity=usage.quantity,
        )
        for since, until, book in prices.segments(lower, upper)
    ]


def statement(
    usages: Iterable[Usage], prices: PriceList, *, start: datetime, end: datetime, now: datetime
) -> Statement:
    """Everything in [start, end), by project, class, product and price, rounded once, on the lines.

    Gives what `rate` gives for each usage, added up; but time is gathered first, as integers, per price book,
    and multiplied by prices once per line, so that a million usages are a matter of seconds."""
    segments = list(prices.segments(start, min(end, now)))
    gathered = _gather(usages, segments, up_to_now=now <= end)
    return conclude(gathered, segments, start=start, end=end)


def conclude(
    gathered: Mapping[GatheredKey, Gathered],
    segments: Sequence[PriceSegment],
    *,
    start: datetime,
    end: datetime,
) -> Statement:
    """The statement that gathered device time comes to. Its keys end in an index of `segments`."""
    sums: dict[_LineKey, Gathered] = defaultdict(Gathered)
    for (project_id, device_class, product, index), part in gathered.items():
        book = segments[index][2]
        per_hour = book.price(device_class=device_class, product=product) if book else None
        sums[project_id, device_class, product, per_hour, book.currency if book else ""].merge(part)
    keys = sorted(sums, key=_line_order)
    exact = {key: _amount(key[3], sums[key].time) for key in keys}
    rounded = _round({key: amount for key, amount in exact.items() if amount is not None})
    lines = tuple(
        Line(
            project_id=key[0],
            device_class=key[1],
            product=key[2],
            per_hour=key[3],
            currency=key[4],
            device_microseconds=sums[key].time,
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


def share(consumed: Mapping[str, str], capacity: Mapping[str, Any]) -> Fraction:
    """Which part of a device a claim uses: the largest consumed/total over its capacities; 1 if unknown."""
    parts = []
    for name, amount in consumed.items():
        total = capacity.get(name)
        if isinstance(total, Mapping):
            total = total.get("value")
        try:
            whole = Quantity.parse(str(total)).nanos
            part = Quantity.parse(str(amount)).nanos
        except InvalidQuantity:
            continue
        if whole > 0 and part >= 0:
            parts.append(min(Fraction(part, whole), Fraction(1)))
    return max(parts, default=Fraction(1))


def price_list() -> PriceList:
    """All price books as stored; two queries."""
    books = PriceBook.objects.order_by("valid_from").prefetch_related("prices")
    return PriceList(
        books=tuple(
            Book(
                name=book.name,
                currency=book.currency,
                valid_from=book.valid_from,
                prices={(p.device_class, p.product): p.per_hour for p in book.prices.all()},
            )
            for book in books
        )
    )


def _gather(
    usages: Iterable[Usage], segments: Sequence[PriceSegment], *, up_to_now: bool
) -> dict[GatheredKey, Gathered]:
    """Device time by project, class, product and segment (by its index)."""
    gathered: dict[GatheredKey, Gathered] = defaultdict(Gathered)
    last = len(segments) - 1
    for usage in usages:
        for index, (lower, upper, _book) in enumerate(segments):
            since = max(lower, usage.start)
            until = upper if usage.end is None else min(upper, usage.end)
            if since < until:
                gathered[usage.project_id, usage.device_class, usage.product, index].add(
                    (until - since) // MICROSECOND,
                    usage.quantity,
                    running=usage.end is None and index == last and up_to_now,
                )
    return gathered


def _amount(per_hour: Decimal | None, device_microseconds: Fraction) -> Fraction | None:
    if per_hour is None:
        return None
    return Fraction(per_hour) * device_microseconds / money.MICROSECONDS_PER_HOUR


def _round(amounts: Mapping[_LineKey, Fraction]) -> dict[_LineKey, Decimal]:
    rounded: dict[_LineKey, Decimal] = {}
    for currency in {key[4] for key in amounts}:
        priced = [key for key in amounts if key[4] == currency]
        lines = money.rounded_lines([amounts[key] for key in priced], currency=currency)
        rounded |= dict(zip(priced, lines, strict=True))
    return rounded


def _line_order(key: _LineKey) -> tuple[Any, ...]:
    project, device_class, product, per_hour, currency = key
    # Unpriced and unattributed last: they need somebody's attention.
    return (
        project is None,
        project or 0,
        per_hour is None,
        product,
        device_class,
        currency,
        per_hour or 0,
    )
