"""Quotas: how what a project has, and may still take, stands to a limit. A pure function over facts.

*Used* is what holds now: devices and device memory of open intervals of the ledger, and units that Pods of
entitlements have. Of a month (in the organisation's time zone, as statements are made) it is what the
ledger knows of it, what still runs up to now. *Asked* is
what active requests may take on top: devices that they have not got yet, and the time until their end, or the
month's. What nobody can say (memory that no driver tells, a price that no book has, time in which an end was
not seen) is counted apart and never as zero.

- A share of a device is a device, as it is for Kubernetes' own quota; time and money count its share.
- A template counts with one claim until its Pods have taken more.
- Of alternatives the one that takes most counts.
- What describes a class instead of a flavor counts for every flavor that is made of that class there: asking
  past the catalogue is no way around a quota.
- What is ending takes nothing more, but counts while it holds.
- Of a request and those that take its place the larger side counts: the first gives its devices back when
  the other has its own, so that they are never had together for longer than that takes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction

from claims.models import Quota
from claims.money.books import Kind as Priced
from claims.money.costs import next_month
from claims.money.expected import Candidate, expected
from claims.money.pricing import MICROSECOND, PriceList, Statement, Usage, statement
from portal import money

Kind = Quota.Kind
NOTHING = Fraction(0)
# Above every primary key.
MAX_KEY = 2**63


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a quota limits, exactly: `limit` in devices, bytes, hours or units of `currency`. `flavor` None =
    everything."""

    kind: str
    limit: Fraction
    flavor: int | None = None
    currency: str = ""
    # Whose prices hold.
    project: int | None = None

    @property
    def monthly(self) -> bool:
        """Whether it counts what was used in a month, which cannot be given back."""
        return self.kind in (Kind.HOURS, Kind.MONEY)

    def covers(self, flavors: frozenset[int]) -> bool:
        return self.flavor is None or self.flavor in flavors


@dataclass(frozen=True, kw_only=True)
class Held:
    """Devices (or units) that one claim or Pod holds now. `memory` in bytes of each, None = not told."""

    # Primary key of the request; None = held past the desk.
    request: int | None = None
    flavors: frozenset[int] = frozenset()
    units: int = 1
    # 1, or the share of the device.
    quantity: Fraction = Fraction(1)
    memory: int | None = None
    # All of it as the ledger tells it; None = not in the ledger yet.
    usage: Usage | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """So many devices that a request may take; `products` are those that it may be."""

    flavors: frozenset[int] = frozenset()
    units: int = 1
    memory: int | None = None
    device_class: str = ""
    resource: str = ""
    products: tuple[str, ...] = ("",)
    # The same as prices see them; () = only class and product are known.
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an active request may take: one of each group of alternatives. `until` None = it has not got
    anything yet, and runs for `duration` from then on."""

    request: int | None = None
    groups: tuple[tuple[Part, ...], ...] = ()
    duration: timedelta = timedelta(0)
    until: datetime | None = None
    # The request that gives its devices back as soon as this one has its own.
    replaces: int | None = None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a project has and asks for, of one quota's flavor. `spent` is what the ledger knows of this month
    (by device time, or priced, as the quota counts), None = nothing was ever observed; `unseen` are
    device-hours that may have been used besides."""

    held: Sequence[Held] = ()
    asked: Sequence[Asked] = ()
    spent: Statement | None = None
    unseen: Fraction = NOTHING


@dataclass(frozen=True)
class Piece:
    """What one request (or everything past the desk) makes of a quota."""

    used: Fraction = NOTHING
    asked: Fraction = NOTHING

    def __add__(self, other: "Piece") -> "Piece":
        return Piece(self.used + other.used, self.asked + other.asked)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Used, asked for and limit, in one unit. `used` None = nothing was observed, which is not zero;
    `unmeasured` counts devices of which it cannot be told, `unseen` hours that may come on top."""

    limit: Fraction
    used: Fraction | None
    asked: Fraction
    monthly: bool = False
    unmeasured: int = 0
    unseen: Fraction = NOTHING
    # By request (None: past the desk); of monthly quotas only what they may still take.
    pieces: Mapping[int | None, Piece] = field(default_factory=dict)

    @property
    def taken(self) -> Fraction:
        """What is known to be used, and asked for."""
        return (self.used or NOTHING) + self.asked

    @property
    def left(self) -> Fraction:
        """What may still be asked for; never negative."""
        return max(NOTHING, self.limit - self.taken)

    @property
    def over(self) -> bool:
        """Whether it is, or would come to be, more than the limit."""
        return self.taken > self.limit

    @property
    def exhausted(self) -> bool:
        """Whether something has to be given back: of a month when all of it is used, else when what is held
        and asked for is too much."""
        return (self.used or NOTHING) >= self.limit if self.monthly else self.over


def standing(
    terms: Terms,
    facts: Facts,
    *,
    now: datetime,
    prices: PriceList,
    besides: Iterable[Asked] = (),
    zone: tzinfo = UTC,
) -> Standing:
    """How a project stands to a quota, with `besides` as if it had been asked for already; months are those
    of `zone`."""
    meter = _Meter(terms, now=now, prices=prices, zone=zone)
    held: dict[int | None, list[Held]] = defaultdict(list)
    for one in facts.held:
        if terms.covers(one.flavors):
            held[one.request].append(one)
    pieces: dict[int | None, Piece] = defaultdict(Piece)
    if not terms.monthly:
        for request, ones in held.items():
            pieces[request] += Piece(used=sum((meter.of_held(one) for one in ones), NOTHING))
    followers: dict[int, list[int]] = defaultdict(list)
    # What is asked for besides has no key yet, and is younger than all that have one.
    more = [(MAX_KEY + number, asked) for number, asked in enumerate(besides)]
    for key, asked in [*((asked.request, asked) for asked in facts.asked), *more]:
        mine = held.get(asked.request, []) if asked.request is not None else []
        pieces[key] += Piece(asked=meter.of_asked(asked, mine))
        if asked.replaces is not None and key is not None:
            followers[asked.replaces].append(key)
    _hand_over(pieces, followers)
    for key, asked in more:
        pieces[asked.request] += pieces.pop(key)
    used: Fraction | None = sum((piece.used for piece in pieces.values()), NOTHING)
    if terms.monthly:
        used = meter.of_month(facts.spent)
    return Standing(
        limit=terms.limit,
        used=used,
        asked=sum((piece.asked for piece in pieces.values()), NOTHING),
        monthly=terms.monthly,
        unmeasured=meter.unmeasured,
        unseen=facts.unseen if terms.monthly else NOTHING,
        pieces={request: piece for request, piece in pieces.items() if piece != Piece()},
    )


def _hand_over(pieces: dict[int | None, Piece], followers: Mapping[int, Sequence[int]]) -> None:
    """Take away, of each request and those that take its place (by key), what they will not have together:
    first of what is still to come, then of what the first one has."""
    after: dict[int, list[int]] = {}
    # Who takes a place is younger than who had it: what follows the followers is settled first.
    for first in sorted(followers, reverse=True):
        line = [key for one in followers[first] for key in (one, *after.get(one, ()))]
        after[first] = line
        had = pieces.get(first, Piece())
        excess = min(
            had.used + had.asked, sum((pieces[key].used + pieces[key].asked for key in line), NOTHING)
        )
        for key in sorted(line, reverse=True):
            less = min(excess, pieces[key].asked)
            pieces[key] = Piece(pieces[key].used, pieces[key].asked - less)
            excess -= less
        less = min(excess, had.asked)
        if first in pieces:
            pieces[first] = Piece(had.used - (excess - less), had.asked - less)


@dataclass
class _Meter:
    """Measures things in the unit of a quota, and counts those that it cannot."""

    terms: Terms
    now: datetime
    prices: PriceList
    zone: tzinfo
    unmeasured: int = 0

    def of_held(self, one: Held) -> Fraction:
        if self.terms.kind == Kind.MEMORY:
            return self._memory(one.units, one.memory)
        return Fraction(one.units)

    def of_month(self, spent: Statement | None) -> Fraction | None:
        if spent is None:
            return None
        if self.terms.kind == Kind.HOURS:
            return sum((line.device_hours for line in spent.lines), NOTHING)
        self.unmeasured += sum(line.count for line in spent.lines if line.per_hour is None)
        currency = self.terms.currency
        return sum((line.exact for line in spent.lines if line.currency == currency and line.exact), NOTHING)

    def of_asked(self, asked: Asked, held: Sequence[Held]) -> Fraction:
        """What it may take on top of what it holds already."""
        groups = [[part for part in group if self.terms.covers(part.flavors)] for group in asked.groups]
        promised = sum(max((part.units for part in group), default=0) for group in groups)
        has = sum(one.units for one in held)
        to_come = max(0, promised - has)
        if not self.terms.monthly:
            if not to_come:
                return NOTHING
            # Of what is promised, the part that has not come yet.
            return sum(map(self._most, groups), NOTHING) * Fraction(to_come, promised)
        left = self._left(asked)
        total = NOTHING
        if to_come:
            total += sum((self._dearest(group, left) for group in groups), NOTHING) * Fraction(
                to_come, promised
            )
        if asked.until is not None:
            total += sum((self._running(one, left) for one in held), NOTHING)
        return total

    def _left(self, asked: Asked) -> timedelta:
        """How long it may still run in this month."""
        month = next_month(self.now, self.zone) - self.now
        runs = asked.duration if asked.until is None else asked.until - self.now
        return max(timedelta(0), min(runs, month))

    def _most(self, group: Sequence[Part]) -> Fraction:
        if self.terms.kind != Kind.MEMORY:
            return max((Fraction(part.units) for part in group), default=NOTHING)
        return max((self._memory(part.units, part.memory) for part in group), default=NOTHING)

    def _dearest(self, group: Sequence[Part], time: timedelta) -> Fraction:
        if self.terms.kind == Kind.HOURS:
            return max((part.units * _hours(time) for part in group), default=NOTHING)
        return max((self._price(part, time) for part in group), default=NOTHING)

    def _price(self, part: Part, time: timedelta) -> Fraction:
        """The most that a part can come to in the quota's currency, whichever devices it will be."""
        kinds = part.candidates or [
            Candidate(
                name=product,
                kind=Priced(device_class=part.device_class, product=product, resource=part.resource),
            )
            for product in part.products
        ]
        cost = expected(
            kinds, self.prices, project=self.terms.project, count=part.units, start=self.now, duration=time
        )
        self.unmeasured += len(cost.unpriced)
        amount = cost.amounts.get(self.terms.currency)
        return NOTHING if amount is None else amount.high

    def _running(self, one: Held, time: timedelta) -> Fraction:
        """What a thing that is held comes to if it is held on."""
        if self.terms.kind == Kind.HOURS:
            return one.units * one.quantity * _hours(time)
        if one.usage is None:
            self.unmeasured += one.units
            return NOTHING
        return self._cost(one.usage, time)

    def _memory(self, units: int, memory: int | None) -> Fraction:
        if memory is None:
            self.unmeasured += units
            return NOTHING
        return Fraction(units * memory)

    def _cost(self, like: Usage, time: timedelta) -> Fraction:
        """What such a use will cost in the quota's currency, by the books as they are known now."""
        end = self.now + time
        usage = replace(like, start=self.now, end=end)
        lines = statement([usage], self.prices, start=self.now, end=end, now=end).lines
        if any(line.per_hour is None for line in lines):
            self.unmeasured += 1
        currency = self.terms.currency
        return sum((line.exact for line in lines if line.currency == currency and line.exact), NOTHING)


def _hours(time: timedelta) -> Fraction:
    return Fraction(time // MICROSECOND, money.MICROSECONDS_PER_HOUR)


def newest_over(current: Standing, ages: Mapping[int, datetime], *, going: Collection[int] = ()) -> list[int]:
    """Requests (of those in `ages`: primary key → when made) to be ended, the newest first, until what is
    left is within the limit; what those that are `going` still hold is on its way back. Of a month that is
    used up, all that hold or may still take something: what was used does not come back."""
    if not current.exhausted:
        return []
    returning = (piece for pk in going if (piece := current.pieces.get(pk)) is not None)
    taken = current.taken - sum((piece.used + piece.asked for piece in returning), NOTHING)
    ended = []
    for pk in sorted(ages, key=lambda key: (ages[key], key), reverse=True):
        piece = current.pieces.get(pk)
        if piece is None or (not current.monthly and taken <= current.limit):
            continue
        ended.append(pk)
        taken -= piece.used + piece.asked
    return ended
