"""What is exported: the charges that are billed in some months, as rows, in memory that does not grow with
them.

A month is gone through twice. First the database adds up what each line of each statement exactly is, for
what its rows are billed to come to what the line says; then the rows go by, a thousand at a time, with what
the ledger knows of them. A closed statement's lines are those that it was closed with.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from fractions import Fraction
from itertools import islice
from operator import attrgetter
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.http import Http404
from django.urls import reverse

from claims.focus.mapping import NO_CURRENCY, Facts, Frame, Item, Row, Shared, Single, common, row_of
from claims.focus.spreading import Spread
from claims.focus.wanted import Wanted
from claims.history.curves import us
from claims.models import Adjustment, Allocation, Charge, LedgerCursor, PriceBook, Statement, StatementLine
from claims.models.charges import amount
from claims.money.months import Month
from claims.money.rating import source_of
from claims.money.statements import GROUPED, LineKey, clipped, rounded
from claims.money.usage import NOBODY
from claims.money.versions import seen_by, version_of
from inventory.models import Cluster
from portal import access, money
from portal.accounts.models import Project, User

FETCH = 1_000
# What tells an interval of the ledger from all others (`source_of`), and what a row tells of it.
_NATURAL = (
    "cluster_id", "claim_uid", "epoch", "driver", "pool_name", "device_name", "share_id", "request_name",
)  # fmt: skip
_FACTS = (
    "request__key", "start_source", "start_uncertainty_us", "end_source", "end_uncertainty_us",
)  # fmt: skip
# Lines whose rows' common parts are kept at once.
MOST_BASES = 4_000
# A LineKey, or what is equal to it.
_Key = tuple[Any, ...]
_Line = tuple[int | None, _Key]
_line_of: Any = attrgetter(*GROUPED)


@dataclass(kw_only=True)
class Lines:
    """The lines of a month's statements: where each stands, and what its rows are billed. `totals` are what
    the statements come to, by payer and currency, in minor units; `rows` how many charges there are."""

    positions: dict[_Line, int] = field(default_factory=dict)
    spreads: dict[_Line, Spread] = field(default_factory=dict)
    totals: dict[tuple[int | None, str], int] = field(default_factory=lambda: defaultdict(int))
    rows: int = 0


class Dataset:
    """The rows of an export. `viewer` None = of everything."""

    def __init__(
        self, wanted: Wanted, *, zone: tzinfo, organisation: str, viewer: User | None, now: datetime
    ) -> None:
        """Raises Http404 for a project that is none of the viewer's."""
        self.wanted, self.zone, self.organisation, self.now = wanted, zone, organisation, now
        self._payers, self._viewer = _payers(wanted.project, viewer), viewer
        self.projects = {project.pk: project for project in Project.objects.all()}
        self.statements: dict[tuple[int | None, str], Statement] = {
            (row.project_id, row.month): row
            for row in Statement.objects.filter(month__in=[str(month) for month in wanted.months])
        }
        self._clusters: dict[int, str] = dict(Cluster.objects.values_list("pk", "name"))
        self._books = {book.pk: book for book in PriceBook.objects.order_by("valid_from")}
        self._pages = reverse("charge-detail", args=[0]).removesuffix("0/")

    # --- what there is ---------------------------------------------------------------------------

    def charges(self, month: Month) -> QuerySet[Charge]:
        """Those that the viewer may see, with `time`: what still runs counts up to now."""
        rows = Charge.objects.filter(self._payers, month=str(month))
        return clipped(rows, start_us=None, end_us=self.until_us(month))

    def bounds(self, month: Month) -> tuple[datetime, datetime]:
        """Of the month in the organisation's time zone; in that of its closed statements where there are
        any."""
        rows = [row for (_payer, of), row in self.statements.items() if of == str(month) and row.closed_at]
        return (rows[0].starts_at, rows[0].ends_at) if rows else month.bounds(self.zone)

    def until_us(self, month: Month) -> int:
        return us(min(self.now, self.bounds(month)[1]))

    def frame(self, payer: int | None, month: Month) -> Frame:
        row = self.statements.get((payer, str(month)))
        starts_at, ends_at = (row.starts_at, row.ends_at) if row else self.bounds(month)
        return Frame(
            month=str(month),
            starts_at=starts_at,
            ends_at=ends_at,
            until_us=self.until_us(month),
            state=row.state if row else Statement.State.OPEN,
            payer=self.slug(payer),
        )

    def slug(self, payer: int | None) -> str:
        return self.projects[payer].slug if payer is not None else NOBODY

    def digest(self) -> str:
        """Of everything that is exported: another one whenever any of it is another. Charges are not gone
        through for it."""
        told = hashlib.sha256(repr(self.wanted).encode())
        for month in self.wanted.months:
            bounds, until = self.bounds(month), self.until_us(month)
            runs = self.now < bounds[1] and self.charges(month).filter(ended_us__gt=until).exists()
            told.update(repr((str(month), bounds, runs and until)).encode())
        told.update(repr(sorted((str(k), r.state) for k, r in self.statements.items())).encode())
        charges = Charge.objects.filter(self._payers)
        months = [str(month) for month in self.wanted.months]
        told.update(repr(version_of(charges.filter(month__in=months), months=months)).encode())
        if self._viewer is not None:
            told.update(repr(seen_by(self._viewer)).encode())
        names = [(p.pk, p.name) for p in self.projects.values()], self._clusters, self.organisation
        changes = sorted(LedgerCursor.objects.values_list("cluster_id", "changes"))
        told.update(repr((names, changes)).encode())
        return told.hexdigest()

    # --- lines -----------------------------------------------------------------------------------

    def lines(self, month: Month) -> Lines:
        """Added up by the database; open statements are rounded as they would be now."""
        sums: dict[int | None, dict[LineKey, list[Any]]] = defaultdict(dict)
        sizes: dict[_Line, Fraction] = defaultdict(Fraction)
        grouped = (
            self.charges(month)
            .values_list("project_id", *GROUPED, "quantity", "fixed")
            .order_by()
            .annotate(told=Sum("time"), count=Count("pk"))
        )
        for payer, *values, quantity, fixed, time, count in grouped.iterator(chunk_size=FETCH):
            key = LineKey(*values)
            exact = amount(
                fixed=fixed * count if fixed is not None else None,
                list_micros=key.list_micros,
                discount_micros=key.discount_micros,
                quantity=quantity,
                microseconds=time,
            )
            found = sums[payer].setdefault(key, [Fraction(0), None, 0])
            found[1] = exact if found[1] is None else found[1] + (exact or 0)
            found[2] += count
            sizes[payer, key] += abs(exact or Fraction(0))
        lines, stored = Lines(), self._stored(month)
        for payer, of in sums.items():
            told = stored.get(payer)
            if told is None:
                numbered = enumerate(rounded(of), start=1)
                told = [(place, line.key, line.minor) for place, line in numbered]
            self._add(lines, payer, told, of, sizes)
        return lines

    def _stored(self, month: Month) -> dict[int | None, list[tuple[int, LineKey, int | None]]]:
        """The lines of closed statements as they were closed, by payer: position, key, minor units."""
        closed = {
            row.pk: payer
            for (payer, of), row in self.statements.items()
            if of == str(month) and row.state == Statement.State.CLOSED
        }
        found: dict[int | None, list[tuple[int, LineKey, int | None]]] = {p: [] for p in closed.values()}
        rows = StatementLine.objects.filter(statement__in=closed).order_by("statement", "position")
        for pk, position, *values, minor in rows.values_list("statement", "position", *GROUPED, "minor"):
            found[closed[pk]].append((position, LineKey(*values), minor))
        return found

    def _add(
        self,
        lines: Lines,
        payer: int | None,
        told: Sequence[tuple[int, LineKey, int | None]],
        sums: Mapping[LineKey, Sequence[Any]],
        sizes: Mapping[_Line, Fraction],
    ) -> None:
        for position, key, minor in told:
            lines.positions[payer, key] = position
            _time, exact, count = sums.get(key, (0, None, 0))
            lines.rows += count
            if minor is None or exact is None:
                continue
            lines.totals[payer, key.currency] += minor
            goal = Fraction(minor, 10 ** money.exponent(key.currency))
            lines.spreads[payer, key] = Spread(goal=goal, exact=exact, size=sizes[payer, key], rows=count)

    # --- rows ------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Row]:
        """Month by month, the earliest first; twice the same."""
        for month in self.wanted.months:
            yield from self._month(month)

    def _month(self, month: Month) -> Iterator[Row]:
        lines, passed_on = self.lines(month), self._passed_on(month)
        frames: dict[int | None, Frame] = {}
        bases: dict[Any, Row] = {}
        ordered = self.charges(month).order_by("started_us", "pk").values_list(*Item._fields)
        values = ordered.iterator(chunk_size=FETCH)
        while chunk := [Item(*told) for told in islice(values, FETCH)]:
            facts, refers = _facts_of(chunk), self._made_good(chunk)
            if len(bases) > MOST_BASES:
                bases.clear()
            for item in chunk:
                payer, key = item.project_id, _line_of(item)
                if payer not in frames:
                    frames[payer] = self.frame(payer, month)
                frame = frames[payer]
                alike = payer, key, item.profile_digest, item.resource, item.book_id
                if alike not in bases:
                    bases[alike] = self._basis(item, frame, lines.positions.get((payer, key)), passed_on)
                exact = _exact(item, frame.until_us)
                spread = lines.spreads.get((payer, key))
                single = Single(
                    billed=spread.next(exact) if spread is not None and exact is not None else 0,
                    exact=exact,
                    page=f"{self._pages}{item.id}/",
                    cluster=self._clusters.get(item.cluster_id or 0),
                    facts=facts.get(item.source),
                    makes_good=refers.get(item.source),
                )
                yield row_of(item, bases[alike], frame, single)

    def _basis(self, item: Item, frame: Frame, line: int | None, passed_on: Mapping[str, Fraction]) -> Row:
        shared = Shared(
            frame=frame,
            organisation=self.organisation,
            line=line,
            currency=item.currency or self._currency(item),
            project=self.projects.get(item.project_id or 0),
            book=self._books.get(item.book_id or 0),
            passed_on=passed_on.get(item.currency),
        )
        return common(item, shared)

    def _currency(self, item: Item) -> str:
        """In which what has no price is billed nothing: that of its book, else of the first that ever was."""
        book = self._books.get(item.book_id or 0) or next(iter(self._books.values()), None)
        return book.currency if book else NO_CURRENCY

    def _passed_on(self, month: Month) -> dict[str, Fraction]:
        """How much idle cost of the month was passed on, by currency."""
        relief = Charge.objects.filter(month=str(month), kind=Charge.Kind.SHARED, project=None)
        return {row.currency: -row.fixed for row in relief if row.fixed is not None}

    def _made_good(self, items: Sequence[Item]) -> dict[str, Frame]:
        """The closed statements that adjustments among them refer to, by the charges' sources."""
        prefix = "adjustment-"
        kinds = (Charge.Kind.CREDIT, Charge.Kind.ADJUSTMENT)
        keys = [item.source.removeprefix(prefix) for item in items if item.kind in kinds]
        if not keys:
            return {}
        found = {}
        rows = Adjustment.objects.filter(pk__in=[int(key) for key in keys if key.isdecimal()])
        for row in rows.exclude(refers_to=None).select_related("refers_to"):
            before = row.refers_to
            # Closed when the adjustment was decided, not only since.
            if before and before.closed_at and row.decided_at and before.closed_at <= row.decided_at:
                found[f"{prefix}{row.pk}"] = Frame(
                    month=before.month,
                    starts_at=before.starts_at,
                    ends_at=before.ends_at,
                    until_us=us(before.ends_at),
                    state=before.state,
                    payer=self.slug(before.project_id),
                )
        return found

    # --- how far it is ---------------------------------------------------------------------------

    def complete(self, month: Month) -> tuple[bool, datetime | None]:
        """Whether nothing of the month can change any more; and when it last did, None = it may do so now."""
        rows = Charge.objects.filter(self._payers, month=str(month)).order_by()
        told = rows.aggregate(all=Count("pk"), closed=Count("pk", filter=Q(closed=True)))
        closings = [row.closed_at for (_p, of), row in self.statements.items() if of == str(month)]
        over = self.now >= self.bounds(month)[1]
        done = over and bool(told["all"]) and told["all"] == told["closed"]
        return done, max((at for at in closings if at), default=None) if done else None


def _payers(slug: str, viewer: User | None) -> Q:
    """Which charges, by who pays: as the statements have it."""
    sees_all = viewer is None or access.may_see_costs_of_all(viewer)
    if slug == NOBODY and sees_all:
        return Q(project=None)
    if slug:
        projects = Project.objects.all() if viewer is None else Project.objects.all().visible_to(viewer)
        project = projects.filter(slug=slug).first()
        if project is None:
            raise Http404
        return Q(project=project)
    if viewer is None or sees_all:
        return Q()
    return Q(project__in=Project.objects.all().visible_to(viewer))


def _exact(item: Item, until_us: int) -> Fraction | None:
    return amount(
        fixed=item.fixed,
        list_micros=item.list_micros,
        discount_micros=item.discount_micros,
        quantity=item.quantity,
        microseconds=max(0, min(item.ended_us, until_us) - item.started_us),
    )


def _facts_of(items: Sequence[Item]) -> dict[str, Facts]:
    """What the ledger knows, by the charges' sources; one query."""
    uids = {item.claim_uid for item in items if item.claim_uid}
    found = {}
    for values in Allocation.objects.filter(claim_uid__in=uids).values(*_NATURAL, *_FACTS) if uids else ():
        key, *told = (values[name] for name in _FACTS)
        found[source_of(values)] = Facts(str(key) if key is not None else "", *told)
    return found
