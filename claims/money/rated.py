"""Charges as stored: rating a month writes what differs, and nothing twice.

A month that is closed for a project never changes. What turns out to be otherwise afterwards becomes a
correction in the project's next open month, which refers to what it corrects.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Q

from claims.history.curves import us
from claims.models import Allocation, Charge, Consumer, HoldPod, Request
from claims.money import rollup
from claims.money.books import IDLE, PriceList, price_list
from claims.money.correcting import Key, closed_from, correct, corrections_of
from claims.money.months import Month
from claims.money.ownership import Owners
from claims.money.rating import COLUMNS, CONTENT, Rater, Row, Stays, source_of
from claims.money.removing import remove
from claims.money.shutting import write_alone
from portal import bulk
from portal.sql import chunks

CHUNK = 1_000
_FIELDS = [field.name for field in Charge._meta.concrete_fields if field.attname in (*CONTENT, "content")]


@dataclass
class Rated:
    """How many charges there are now, and how many were written, rewritten, removed or corrected."""

    charges: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    corrected: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.added or self.changed or self.removed or self.corrected)


def rate_month(*, month: Month, zone: tzinfo, prices: PriceList | None = None) -> Rated:
    """Rate everything that the ledger has in a month. Doing it again changes nothing."""
    work = _Work(month=month, zone=zone, prices=prices or price_list())
    for rows in work.chunks():
        with transaction.atomic():
            work.write(rows)
    with transaction.atomic():
        work.clear()
    return work.told


def rate_claims(
    *,
    month: Month,
    zone: tzinfo,
    claims: Mapping[int, Collection[str]],
    gone: Collection[str] = (),
    prices: PriceList | None = None,
) -> Rated:
    """Rate in a month only what some claims and Pods have, by cluster, and what is no more: as `LedgerTouch`
    tells."""
    work = _Work(month=month, zone=zone, prices=prices or price_list())
    left = set(gone)
    for cluster, uids in claims.items():
        for some in chunks(sorted(uids), CHUNK):
            held = Allocation.objects.filter(cluster=cluster, claim_uid__in=some).order_by("pk")
            rows = list(held.values("admin_access", *COLUMNS))
            sources = {source_of(row) for row in rows}
            left -= sources
            with transaction.atomic():
                work.write([row for row in rows if not row["admin_access"]], sources)
    for some in chunks(sorted(left), CHUNK):
        with transaction.atomic():
            work.settle({}, some)
    return work.told


@dataclass(kw_only=True)
class _Work:
    month: Month
    zone: tzinfo
    prices: PriceList
    told: Rated = field(default_factory=Rated)
    # Sources that the ledger has; half of a digest tells them apart well enough.
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.owners = Owners()
        self.start, self.end = (us(at) for at in self.month.bounds(self.zone))

    def chunks(self) -> Iterator[list[Row]]:
        touching = Q(ended_us=None) | Q(ended_us__gt=self.start)
        rows = Allocation.objects.filter(touching, admin_access=False, started_us__lt=self.end)
        iterator: Iterator[Any] = rows.order_by("pk").values(*COLUMNS).iterator(chunk_size=CHUNK)
        while chunk := list(islice(iterator, CHUNK)):
            yield chunk

    def write(self, rows: Sequence[Row], besides: Collection[str] = ()) -> None:
        """Make the charges of some rows what they should be, and those of `besides` that these rows do not
        have."""
        rater = Rater(
            prices=self.prices, zone=self.zone, owners=self.owners, stays=stays_of(rows, self.prices)
        )
        wanted: dict[Key, Charge] = {}
        for row in rows:
            for charge in rater.charges(row, month=self.month):
                wanted[charge.source, charge.started_us, charge.project_id] = charge
        sources = {source for source, _start, _project in wanted}
        sources.update(besides)
        self.seen |= {_half(source) for source in sources}
        self.settle(wanted, sources)

    def clear(self) -> None:
        """Take away what the ledger does not have any more, also what only corrections tell of."""
        charges = Charge.objects.filter(kind=Charge.Kind.USAGE, month=str(self.month))
        late = corrections_of(self.month).exclude(use=IDLE)
        gone = {
            source
            for rows in (charges, late)
            for source in rows.values_list("source", flat=True).iterator()
            if _half(source) not in self.seen
        }
        for chunk in chunks(sorted(gone), CHUNK):
            self.settle({}, chunk)

    def settle(self, wanted: dict[Key, Charge], sources: Collection[str]) -> None:
        """Have the charges of some sources be these. Within a transaction."""
        write_alone()
        closed = closed_from(self.month)
        payers = {payer for payer, month in closed if month == str(self.month)}
        stored: dict[Key, tuple[int, str]] = {}
        # What stays, for somebody speaks of it, and comes to nothing already.
        nothing: set[Key] = set()
        for chunk in chunks(sorted(sources), CHUNK):
            rows = Charge.objects.filter(kind=Charge.Kind.USAGE, month=str(self.month), source__in=chunk)
            columns = ("source", "started_us", "project_id", "pk", "content", "ended_us")
            for source, start, project, pk, content, end in rows.values_list(*columns):
                stored[source, start, project] = pk, content
                if end == start:
                    nothing.add((source, start, project))
        frozen = {key: told for key, told in stored.items() if key[2] in payers}
        late = {key: charge for key, charge in wanted.items() if key[2] in payers}
        fresh, changed = [], []
        for key, charge in wanted.items():
            self.told.charges += 1
            if key in late:
                continue
            old = stored.get(key)
            if old is None:
                fresh.append(charge)
            elif old[1] != charge.content:
                charge.pk = old[0]
                changed.append(charge)
        kept = wanted.keys() | frozen.keys() | nothing
        gone = [told[0] for key, told in stored.items() if key not in kept]
        if fresh or changed or gone:
            rollup.stale(self.month)
        remove(gone)
        self.told.removed += len(gone)
        bulk.overwrite(changed, _FIELDS)
        bulk.append(fresh)
        self.told.added += len(fresh)
        self.told.changed += len(changed)
        if payers:
            # Also where there is nothing: what was corrected may be somebody else's by now, or gone.
            self.told.corrected += correct(
                month=self.month, closed=closed, frozen=frozen, late=late, sources=sources
            )


def stays_of(rows: Sequence[Row], prices: PriceList) -> Stays:
    """When anything but the desk's own Pod reserved the claims; nothing where no price asks for it."""
    if not any(book.tells_unused for book in prices.books):
        return {}
    holds = _holds_of({row["request_id"] for row in rows} - {None})
    uids = {row["claim_uid"] for row in rows}
    found: dict[tuple[int, str, int], list[tuple[datetime, datetime | None]]] = defaultdict(list)
    for cluster, uid, epoch, pod, joined, left in Consumer.objects.filter(claim_uid__in=uids).values_list(
        "cluster_id", "claim_uid", "epoch", "uid", "joined_at", "left_at"
    ):
        if (cluster, pod) not in holds:
            found[cluster, uid, epoch].append((joined, left))
    return found


def _holds_of(requests: Collection[int]) -> set[tuple[int, str]]:
    """(cluster, uid) of the Pods that the desk made to hold for some requests: never by their names, which
    anybody can choose."""
    rows = HoldPod.objects.filter(request__in=requests).values_list("cluster_id", "pod_uid", "made")
    made = {(cluster, uid): by_desk for cluster, uid, by_desk in rows}
    # Only a process of the release before has a hold without a row, while it still runs beside this one. It
    # is believed as it was: tenants cannot write that column, and its next step on the cluster leaves a row.
    present = Request.objects.filter(pk__in=requests).exclude(hold_pod_uid="")
    for held in present.values_list("cluster_id", "hold_pod_uid"):
        made.setdefault(held, True)
    return {pod for pod, by_desk in made.items() if by_desk}


def _half(source: str) -> int:
    return int(source[:32], 16)
