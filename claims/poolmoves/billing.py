"""What a node pool's devices were used for and what that cost, the canary's nodes beside the others, over the
same period. What nobody used has no data: it is not zero."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from statistics import median_low

from django.db.models import Q

from claims.history.curves import us
from claims.models import Allocation, Charge, Request
from claims.money.rating import COLUMNS, share_of, source_of
from inventory.poolmoves.pool import CANARY, OLD, Members, NodePool
from portal.money import MICROSECONDS_PER_HOUR

CHUNK = 500


@dataclass(frozen=True, kw_only=True)
class Use:
    """Of one part of a pool: intervals of the ledger, their device-hours, their exact cost by currency, how
    many of them have no price, and how long requests waited for theirs (median; None = no data)."""

    intervals: int = 0
    device_hours: Fraction = Fraction(0)
    cost: Mapping[str, Fraction] = field(default_factory=dict)
    unpriced: int = 0
    waits: int = 0
    typical_wait: timedelta | None = None

    @property
    def seen(self) -> bool:
        return bool(self.intervals)

    @property
    def hours(self) -> float:
        """The device-hours to be shown."""
        return float(self.device_hours)

    @property
    def per_hour(self) -> Mapping[str, Fraction]:
        """Cost of a device-hour by currency; {} without any."""
        if not self.device_hours:
            return {}
        return {currency: amount / self.device_hours for currency, amount in self.cost.items()}


def use_of(
    pool: NodePool, members: Members, *, start: datetime, end: datetime, now: datetime
) -> Mapping[str, Use]:
    """By part (CANARY, OLD), over [start, end); what still runs is counted up to `now`."""
    until = min(end, now)
    return {
        part: _use(pool, members.of(part), start=start, until=until) if start < until else Use()
        for part in (CANARY, OLD)
    }


def _use(pool: NodePool, nodes: Sequence[str], *, start: datetime, until: datetime) -> Use:
    first, last = us(start), us(until)
    hours, intervals = Fraction(0), 0
    cost: dict[str, Fraction] = defaultdict(Fraction)
    requests: set[int] = set()
    priced: set[str] = set()
    sources: list[str] = []
    for at in range(0, len(nodes), CHUNK):
        rows = Allocation.objects.filter(
            Q(ended_us=None) | Q(ended_us__gt=first),
            cluster=pool.cluster,
            node_name__in=nodes[at : at + CHUNK],
            started_us__lt=last,
            admin_access=False,
        )
        for row in rows.values(*COLUMNS, "started_us", "ended_us").iterator():
            if not (pool.is_its_driver(row["driver"]) or row["extended_resource"] == pool.extended_resource):
                continue
            begins, ends = max(row["started_us"], first), min(row["ended_us"] or last, last)
            hours += share_of(row) * Fraction(ends - begins, MICROSECONDS_PER_HOUR)
            intervals += 1
            sources.append(source_of(row))
            if row["request_id"] is not None:
                requests.add(row["request_id"])
    for at in range(0, len(sources), CHUNK):
        charges = Charge.objects.filter(
            kind=Charge.Kind.USAGE,
            source__in=sources[at : at + CHUNK],
            started_us__lt=last,
            ended_us__gt=first,
        )
        for charge in charges.iterator():
            amount = charge.amount(start_us=first, end_us=last)
            if amount is not None:
                cost[charge.currency] += amount
                priced.add(charge.source)
    waits = _waits(requests)
    return Use(
        intervals=intervals,
        device_hours=hours,
        cost=dict(sorted(cost.items())),
        unpriced=len(set(sources) - priced),
        waits=len(waits),
        typical_wait=median_low(waits) if waits else None,
    )


def _waits(requests: set[int]) -> list[timedelta]:
    keys, found = sorted(requests), []
    for at in range(0, len(keys), CHUNK):
        rows = Request.objects.filter(
            pk__in=keys[at : at + CHUNK], asked_at__isnull=False, allocated_at__isnull=False
        )
        for asked, got in rows.values_list("asked_at", "allocated_at"):
            if asked is not None and got is not None:
                found.append(max(got - asked, timedelta()))
    return found
