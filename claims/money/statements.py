"""What a project's month comes to: its charges, put together into lines that add up.

Charges of one kind at one price make a line. Lines are divided and rounded once, by the largest remainder, so
that those of a currency sum to its rounded total. What still runs counts up to now.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum, Value
from django.db.models.functions import Greatest, Least

from claims.history.curves import us
from claims.models import Charge, ChargeDay, Statement, StatementLine
from claims.models.charges import amount
from claims.money import rollup
from claims.money.books import plain
from claims.money.months import Month
from portal import money
from portal.accounts.models import Project, User

# What tells lines apart. Notes are those of amounts that no time makes.
GROUPED = (
    *("kind", "cost_centre", "device_class", "product", "use", "unit", "per", "currency"),
    *("list_micros", "discount_micros", "note"),
)


class LineKey(NamedTuple):
    """What charges of one line have in common."""

    kind: str
    cost_centre: str
    device_class: str
    product: str
    use: str
    unit: str
    per: str
    currency: str
    list_micros: int | None
    discount_micros: int
    note: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line. `time` is units × microseconds; no exact amount = no price."""

    key: LineKey
    time: Fraction
    exact: Fraction | None
    minor: int | None
    charges: int = 0

    @property
    def amount(self) -> Decimal | None:
        return None if self.minor is None else money.from_minor_units(self.minor, currency=self.key.currency)

    @property
    def hours(self) -> Fraction:
        """Units × hours."""
        return self.time / money.MICROSECONDS_PER_HOUR

    @property
    def hours_text(self) -> str:
        """The same with six places, whatever the reader's language."""
        return f"{Decimal(round(self.hours * 10**6)).scaleb(-6):f}"

    @property
    def price(self) -> str:
        """Per unit and hour, with the discount taken off; "" = none."""
        if self.key.list_micros is None:
            return ""
        listed = Decimal(self.key.list_micros).scaleb(-6)
        return plain(listed * (1_000_000 - self.key.discount_micros) / 1_000_000)

    @property
    def list_price(self) -> str:
        listed = self.key.list_micros
        return "" if listed is None else plain(Decimal(listed).scaleb(-6))

    @property
    def percent(self) -> Decimal:
        """What is taken off."""
        return (Decimal(self.key.discount_micros) / 10_000).normalize()

    @property
    def kind_label(self) -> str:
        return str(Charge.Kind(self.key.kind).label)


@dataclass(frozen=True, kw_only=True)
class Told:
    """A statement with its lines; one that nobody has touched has no row yet."""

    project: Project | None
    month: Month
    starts_at: datetime
    ends_at: datetime
    row: Statement | None
    lines: Sequence[Line]

    @property
    def state(self) -> str:
        return self.row.state if self.row else Statement.State.OPEN

    @property
    def state_label(self) -> str:
        return str(Statement.State(self.state).label)

    @property
    def totals(self) -> Mapping[str, Decimal]:
        """By currency."""
        minor: dict[str, int] = defaultdict(int)
        for line in self.lines:
            if line.minor is not None:
                minor[line.key.currency] += line.minor
        return {
            currency: money.from_minor_units(units, currency=currency) for currency, units in minor.items()
        }

    @property
    def unpriced(self) -> bool:
        return any(line.exact is None and line.time for line in self.lines)

    @property
    def cost_centres(self) -> Sequence[str]:
        """Those that it is booked to."""
        return sorted({line.key.cost_centre for line in self.lines if line.key.cost_centre})


def clipped(rows: QuerySet[Charge], *, start_us: int | None, end_us: int) -> QuerySet[Charge]:
    """Charges with `time`: how many microseconds of each lie within the bounds. Those without any are left
    out, but for fixed amounts, which count where they begin."""
    if start_us is not None and start_us >= end_us:
        # Of a time that has not begun nothing is known; taken from each other, its bounds would be less than
        # nothing.
        rows = rows.none()
    begins: Any = F("started_us") if start_us is None else Greatest("started_us", Value(start_us))
    rows = rows.filter(started_us__lt=end_us)
    if start_us is not None:
        # One condition beside the others: two queries put together have them all twice, which SQLite answers
        # by two indexes and a sort of everything.
        timed = Q(fixed=None, ended_us__gt=start_us)
        rows = rows.filter(timed | Q(fixed__isnull=False, started_us__gte=start_us))
    return rows.annotate(time=Least("ended_us", Value(end_us)) - begins)


def lines_of(rows: QuerySet[Charge], *, now: datetime) -> list[Line]:
    """Lines of some charges of one payer, up to now; rounded together per currency."""
    return lines_by_payer(rows, now=now, payers=False).get(None, [])


def lines_by_payer(
    rows: QuerySet[Charge], *, now: datetime, payers: bool = True
) -> dict[int | None, list[Line]]:
    """The same for each payer that charges have (None = nobody known), rounded each for itself; without
    `payers` as if it were one."""
    sums: dict[int | None, dict[LineKey, list[Any]]] = defaultdict(dict)
    # Quantities are exact texts to the database: charges of one are added up there, different ones here.
    grouped = (
        clipped(rows, start_us=None, end_us=us(now))
        .values_list(*(("project_id",) if payers else ()), *GROUPED, "quantity", "fixed")
        .order_by()
        .annotate(told=Sum("time"), count=Count("pk"))
    )
    for *values, quantity, fixed, time, count in grouped:
        payer = values.pop(0) if payers else None
        key = LineKey(*values)
        found = sums[payer].setdefault(
            key, [Fraction(0), None if key.list_micros is None else Fraction(0), 0]
        )
        exact = amount(
            fixed=fixed * count if fixed is not None else None,
            list_micros=key.list_micros,
            discount_micros=key.discount_micros,
            quantity=quantity,
            microseconds=time,
        )
        found[0] += Fraction(0) if fixed is not None else quantity * time
        found[1] = exact if found[1] is None else found[1] + (exact or 0)
        found[2] += count
    return {payer: rounded(found) for payer, found in sums.items()}


def rounded(sums: Mapping[LineKey, Sequence[Any]]) -> list[Line]:
    """(time, exact amount, number of charges) by key as lines in their order."""
    keys = sorted(sums, key=_order)
    minor: dict[LineKey, int] = {}
    for currency in {key.currency for key in keys}:
        priced = [key for key in keys if key.currency == currency and sums[key][1] is not None]
        minor |= dict(zip(priced, apportioned([sums[k][1] for k in priced], currency=currency), strict=True))
    return [
        Line(key=key, time=sums[key][0], exact=sums[key][1], minor=minor.get(key), charges=sums[key][2])
        for key in keys
    ]


def apportioned(amounts: Sequence[Fraction], *, currency: str) -> list[int]:
    """Exact amounts, some of which may be negative, as whole minor units that sum to the rounded total: each
    is rounded down, and what is missing goes to the largest remainders, the earlier first."""
    scale = 10 ** money.exponent(currency) if currency else 100
    scaled = [exact * scale for exact in amounts]
    parts = [exact.numerator // exact.denominator for exact in scaled]
    missing = round(sum(scaled, Fraction(0))) - sum(parts)
    by_remainder = sorted(range(len(scaled)), key=lambda i: (parts[i] - scaled[i], i))
    for i in by_remainder[:missing]:
        parts[i] += 1
    return parts


def stored_lines(rows: Iterable[StatementLine]) -> list[Line]:
    """The lines of a closed statement, as they were kept."""
    return [
        Line(
            key=LineKey(*(getattr(row, name) for name in GROUPED)),
            time=row.time,
            exact=row.exact,
            minor=row.minor,
        )
        for row in rows
    ]


def told_of(
    *, project: Project | None, month: Month, bounds: tuple[datetime, datetime], now: datetime
) -> Told:
    """A project's month as it is now, or as it was closed. `bounds` are the month's."""
    row = Statement.objects.filter(project=project, month=str(month)).select_related("closed_by").first()
    if row is not None and row.state == Statement.State.CLOSED:
        lines = stored_lines(row.lines.order_by("position"))
        return Told(
            project=project, month=month, starts_at=row.starts_at, ends_at=row.ends_at, row=row, lines=lines
        )
    charges = Charge.objects.filter(project=project, month=str(month))
    lines = lines_of(charges, now=min(now, bounds[1]))
    return Told(project=project, month=month, starts_at=bounds[0], ends_at=bounds[1], row=row, lines=lines)


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One line of the list of a month's statements."""

    project: Project | None
    state: str
    totals: Mapping[str, Decimal]
    unpriced: bool

    @property
    def state_label(self) -> str:
        return str(Statement.State(self.state).label)


def overview(
    *,
    month: Month,
    projects: Sequence[Project],
    unattributed: bool,
    zone: tzinfo,
    now: datetime,
) -> list[Overview]:
    """The month of several projects, and of what nobody is known to pay; a fixed number of queries, of days
    that are added up where they are. A closed month comes to what it was closed with."""
    states: dict[int | None, str] = dict(
        Statement.objects.filter(month=str(month)).values_list("project_id", "state")
    )
    sums: dict[int | None, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    unpriced: set[int | None] = set()
    for payer, currency, listed, discount, quantity, fixed, time, count in _rates_of(month, zone, now):
        exact = amount(
            fixed=fixed * count if fixed is not None else None,
            list_micros=listed,
            discount_micros=discount,
            quantity=quantity,
            microseconds=time,
        )
        if exact is not None:
            sums[payer][currency] += exact
        elif time:
            # What took no time, as a charge that is disputed and was nothing after all, lacks no price.
            unpriced.add(payer)
    totals = {
        payer: {c: money.rounded(exact, currency=c) for c, exact in sorted(exacts.items())}
        for payer, exacts in sums.items()
    }
    if Statement.State.CLOSED in states.values():
        # As it was closed, also where months have begun otherwise since then.
        totals |= _closed_totals(month, [payer for payer, state in states.items() if state == "closed"])
    payers: list[Project | None] = [*projects, *((None,) if unattributed else ())]
    return [
        Overview(
            project=payer,
            state=states.get(payer.pk if payer else None, Statement.State.OPEN),
            totals=totals.get(payer.pk if payer else None, {}),
            unpriced=(payer.pk if payer else None) in unpriced,
        )
        for payer in payers
    ]


def _closed_totals(month: Month, payers: Sequence[int | None]) -> dict[int | None, dict[str, Decimal]]:
    found: dict[int | None, dict[str, Decimal]] = {payer: {} for payer in payers}
    lines = StatementLine.objects.filter(
        statement__month=str(month), statement__state=Statement.State.CLOSED, minor__isnull=False
    )
    columns = ("statement__project_id", "currency")
    for payer, currency, minor in lines.order_by(*columns).values_list(*columns).annotate(told=Sum("minor")):
        found[payer][currency] = money.from_minor_units(int(minor), currency=currency)
    return found


def _rates_of(month: Month, zone: tzinfo, now: datetime) -> Iterator[tuple[Any, ...]]:
    """Payer, currency, list price, discount, quantity, fixed amount, time and number of what is alike in
    that, up to now; what there is of one payer may come in several pieces."""
    bounds = month.bounds(zone)
    start, end = us(bounds[0]), us(min(now, bounds[1]))
    common = ("project_id", "currency", "list_micros", "discount_micros", "quantity")
    charges = Charge.objects.filter(month=str(month))

    def of_charges(rows: QuerySet[Charge], since: int | None, until: int) -> Iterator[tuple[Any, ...]]:
        alike = clipped(rows, start_us=since, end_us=until).order_by().values_list(*common, "fixed")
        return iter(alike.annotate(told=Sum("time"), count=Count("started_us")))

    added_up = rollup.pieces(start=start, end=end, zone=zone, billed=str(month)) if start < end else []
    if not added_up:
        yield from of_charges(charges, None, end)
        return
    for piece in added_up:
        if piece.first:
            days = ChargeDay.objects.filter(month=str(month), day__gte=piece.first, day__lte=piece.last)
            for row in days.order_by().values_list(*common).annotate(told=Sum("time")):
                yield (*row[:-1], None, row[-1], 1)
        else:
            yield from of_charges(charges.filter(fixed=None), piece.start, piece.end)
    yield from of_charges(charges.filter(fixed__isnull=False), None, end)


def visible(user: User, *, month: Month) -> list[Project]:
    """Projects whose statements `user` may see: their own and, for those who see all costs, everybody's;
    archived ones while they have something in the month."""
    charged = Exists(Charge.objects.filter(project=OuterRef("pk"), month=str(month)))
    return list(Project.objects.visible_to(user).filter(Q(archived_at=None) | Q(charged)).order_by("name"))


def _order(key: LineKey) -> tuple[Any, ...]:
    kinds = [kind.value for kind in Charge.Kind]
    return (
        kinds.index(key.kind),
        key.list_micros is None,
        key.cost_centre,
        key.product,
        key.device_class,
        key.use,
        key.currency,
        key.list_micros or 0,
        key.discount_micros,
        key.unit,
        key.per,
        key.note,
    )
