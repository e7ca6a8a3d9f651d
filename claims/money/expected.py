"""What something will cost before anybody has it: by the same rules as it will be rated, for every kind of
device that may be given. Where they differ, a range; where one has no price, its name, and never zero.

Pure. What is held without being used may have a price of its own: whether it will be used nobody knows ahead,
so both count (`claims.money.rating` cuts by what really was).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from claims.money.books import COUNTERS, DEVICE, HELD, UNUSED, Book, Kind, PriceList, Rate, plain
from claims.money.pricing import MICROSECOND
from portal import money


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A kind of device that may be given: what people call it, and what the price of one may depend on (whose
    project it is aside)."""

    name: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """devices × units × price × hours of what is priced alike; `per_hour` None = no price."""

    product: str
    count: int
    hours: Fraction
    # Per unit and hour, with the discount taken off.
    per_hour: Decimal | None
    currency: str
    amount: Fraction | None
    # Units that one device counts as, and what they are (`books.DEVICE`, …, of `per`).
    quantity: Fraction = Fraction(1)
    unit: str = DEVICE
    per: str = ""
    use: str = HELD
    # From when it holds, where prices change on the way.
    since: datetime | None = None
    # "instead" for an alternative, "besides" for a further part; "" for what is asked for first.
    role: str = ""

    @property
    def price(self) -> str:
        """The exact price per unit and hour."""
        return plain(self.per_hour)

    @property
    def hourly(self) -> Fraction | None:
        """What one device costs in an hour."""
        return None if self.per_hour is None else Fraction(self.per_hour) * self.quantity

    @property
    def units(self) -> str:
        """Of one device, where that is not just one; "" = it is."""
        return "" if self.quantity == 1 else digits(self.quantity)

    @property
    def unused(self) -> bool:
        """Whether it is the price of what is held without being used."""
        return self.use == UNUSED


@dataclass(frozen=True, kw_only=True)
class Span:
    """From the least to the most that it can come to; the same where it is known."""

    low: Fraction
    high: Fraction

    @property
    def single(self) -> bool:
        return self.low == self.high

    def __add__(self, other: "Span") -> "Span":
        return Span(low=self.low + other.low, high=self.high + other.high)

    def __or__(self, other: "Span") -> "Span":
        return Span(low=min(self.low, other.low), high=max(self.high, other.high))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """`amounts` by currency for everything together; `hourly` is that of one device at the start. Nothing of
    what is named in `unpriced` is in them (all of it, or for some of the time or of the use)."""

    amounts: Mapping[str, Span] = field(default_factory=dict)
    hourly: Span | None = None
    # Of `hourly`.
    currency: str = ""
    unpriced: Sequence[str] = ()
    lines: Sequence[CostLine] = ()
    role: str = ""

    @property
    def amount(self) -> Span | None:
        """In the currency that holds at the start."""
        return self.amounts.get(self.currency)

    @property
    def open(self) -> bool:
        """Whether it hangs on the device that it will be."""
        spans = [span for span in (*self.amounts.values(), self.hourly) if span is not None]
        return bool(self.unpriced and spans) or any(not span.single for span in spans)

    @property
    def hourly_words(self) -> str:
        """The price of a device-hour with its digits, "from – to" where there are several; "" = none."""
        if self.hourly is None:
            return ""
        low, high = digits(self.hourly.low), digits(self.hourly.high)
        return low if low == high else f"{low} – {high}"


def digits(amount: Fraction) -> str:
    """With all its digits, at most six of them."""
    return plain(Decimal(round(amount * 10**6)).scaleb(-6))


def expected(
    candidates: Iterable[Candidate],
    prices: PriceList,
    *,
    project: int | None,
    count: int,
    start: datetime,
    duration: timedelta,
    role: str = "",
) -> Cost:
    """What `count` devices, each of them any of the candidates, come to from `start` on, for all of
    `duration`."""
    found = {repr(candidate): candidate for candidate in candidates}.values()
    announce(prices, found)
    sought = _Sought(prices=prices, count=count, start=start, end=_end(start, duration), role=role)
    for candidate in found:
        sought.add(replace(candidate.kind, project_id=project), candidate.name)
    return sought.cost()


def joined(costs: Sequence[Cost]) -> Cost:
    """Any one of these (there is at least one), nobody knows which."""
    first, *others = costs
    for other in others:
        amounts = dict(first.amounts)
        for currency, span in other.amounts.items():
            amounts[currency] = amounts[currency] | span if currency in amounts else span
        spans = [span for span in (first.hourly, other.hourly) if span is not None]
        first = replace(
            first,
            amounts=amounts,
            hourly=spans[0] | spans[-1] if spans else None,
            unpriced=tuple(dict.fromkeys((*first.unpriced, *other.unpriced))),
            lines=tuple(dict.fromkeys((*first.lines, *other.lines))),
        )
    return first


def together(costs: Sequence[Cost]) -> Cost:
    """All of these (there is at least one). The hour is that of the first."""
    first, *others = costs
    amounts = dict(first.amounts)
    for other in others:
        for currency, span in other.amounts.items():
            amounts[currency] = amounts[currency] + span if currency in amounts else span
    return replace(
        first,
        amounts=amounts,
        unpriced=tuple(dict.fromkeys(name for cost in costs for name in cost.unpriced)),
        lines=tuple(line for cost in costs for line in cost.lines),
    )


def announce(prices: PriceList, candidates: Iterable[Candidate]) -> None:
    """Say which kinds will be asked about, so that what expressions read of them is fetched at once, if any
    does."""
    digests = {candidate.kind.profile for candidate in candidates}
    for book in prices.books:
        book.profiles.expect(digests)


def counts_counters(prices: PriceList) -> bool:
    """Whether any price depends on what partitions draw on."""
    return any(rule.unit == COUNTERS for book in prices.books for rule in book.rules)


@dataclass(kw_only=True)
class _Sought:
    """A cost being put together."""

    prices: PriceList
    count: int
    start: datetime
    end: datetime
    role: str
    amounts: dict[str, Span] = field(default_factory=dict)
    hourly: Span | None = None
    unpriced: dict[str, None] = field(default_factory=dict)
    # By everything that a line says but the names of products.
    lines: dict[CostLine, list[str]] = field(default_factory=dict)

    def add(self, kind: Kind, name: str) -> None:
        """One kind of device."""
        own: dict[str, Span] = {}
        known = True
        segments = list(self.prices.segments(self.start, self.end))
        for since, until, book in segments:
            span: Span | None = None
            for use, found in _rates(kind, book, self.prices, since):
                line = self._line(found, book, use, since, until, several=len(segments) > 1)
                names = self.lines.setdefault(line, [])
                if name not in names:
                    names.append(name)
                if line.amount is None or line.hourly is None:
                    self.unpriced[name] = None
                    continue
                here = Span(low=line.amount, high=line.amount)
                span = here if span is None else span | here
                if since == self.start:
                    hour = Span(low=line.hourly, high=line.hourly)
                    self.hourly = hour if self.hourly is None else self.hourly | hour
            if span is None or book is None:
                known = False
            else:
                own[book.currency] = own[book.currency] + span if book.currency in own else span
        if known:
            for currency, span in own.items():
                so_far = self.amounts.get(currency)
                self.amounts[currency] = span if so_far is None else so_far | span

    def _line(
        self,
        found: Rate | None,
        book: Book | None,
        use: str,
        since: datetime,
        until: datetime,
        *,
        several: bool,
    ) -> CostLine:
        microseconds = (until - since) // MICROSECOND
        line = CostLine(
            product="",
            count=self.count,
            hours=Fraction(microseconds, money.MICROSECONDS_PER_HOUR),
            per_hour=None,
            currency=book.currency if book else "",
            amount=None,
            use=use,
            since=since if several else None,
            role=self.role,
        )
        if found is None:
            return line
        return replace(
            line,
            per_hour=found.price,
            quantity=found.quantity,
            unit=found.unit,
            per=found.per,
            amount=money.cost(
                per_hour=found.price, microseconds=microseconds, quantity=found.quantity * self.count
            ),
        )

    def cost(self) -> Cost:
        book = self.prices.current(self.start)
        return Cost(
            amounts=self.amounts,
            hourly=self.hourly,
            currency=book.currency if book else "",
            unpriced=tuple(self.unpriced),
            lines=tuple(
                replace(line, product=", ".join(sorted(names))) for line, names in self.lines.items()
            ),
            role=self.role,
        )


def _rates(
    kind: Kind, book: Book | None, prices: PriceList, since: datetime
) -> Iterator[tuple[str, Rate | None]]:
    """What it may cost from then on, by use. Units of a Device Plugin are in use from their first moment."""
    if book is None:
        yield HELD, None
        return
    placed = prices.placed(kind, since)
    used = book.rate(replace(placed, use=HELD))
    yield HELD, used
    if book.tells_unused and not kind.resource:
        unused = book.rate(replace(placed, use=UNUSED))
        if unused is None or used is None or (unused.price, unused.quantity) != (used.price, used.quantity):
            yield UNUSED, unused


def _end(start: datetime, duration: timedelta) -> datetime:
    try:
        return start + duration
    except OverflowError:
        return datetime.max.replace(tzinfo=start.tzinfo)
