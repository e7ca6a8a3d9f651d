"""Why a charge is what it is: down to the observations of the cluster, and up from the price of then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

from claims.history.curves import us
from claims.models import Allocation, Charge, Price, PriceRule
from claims.money.books import COUNTERS, plain
from claims.money.rating import COLUMNS, source_of
from inventory.identity import amount_named
from inventory.models import NamespaceBinding, Observation
from portal import money

# What an allocation's story is told from.
KINDS = (
    *("claim-allocated", "allocation-detailed", "claim-released", "claim-deleted"),
    *("pod-scheduled", "pod-finished"),
)
SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything that made a charge. `allocation` None = the ledger does not have it any more, or never had:
    of idle time and fixed amounts. No `observations` = they are archived."""

    charge: Charge
    exact: Fraction | None
    rounded: Decimal | None
    microseconds: int
    counted_until: datetime
    running: bool
    rule: PriceRule | None
    listed: Sequence[Price]
    allocation: Allocation | None
    observations: Sequence[Observation]
    binding: NamespaceBinding | None
    corrections: Sequence[Charge]

    @property
    def hours(self) -> Fraction:
        return Fraction(self.microseconds, money.MICROSECONDS_PER_HOUR)

    @property
    def list_price(self) -> str:
        """Per unit and hour, before the discount."""
        return plain(self.charge.list_price)

    @property
    def percent(self) -> Decimal:
        return (Decimal(self.charge.discount_micros) / 10_000).normalize()

    @property
    def amounts(self) -> Sequence[tuple[str, str, str]]:
        """What the quantity is made of: (name, how much it took, of how much), of capacities or of the
        counters that a partition draws on."""
        held = self.allocation
        if held is None:
            return ()
        if self.charge.unit == COUNTERS:
            drawn = held.counters.items()
            found = [(n, str(one.get("used", "")), str(one.get("total", ""))) for n, one in drawn]
        else:
            consumed = (held.consumed_capacity if held.share_id else {}).items()
            found = [(n, str(amount), _total(amount_named(held.capacity, n))) for n, amount in consumed]
        return sorted(found)


def _total(told: Any) -> str:
    return str((told.get("value") if isinstance(told, Mapping) else told) or "")


def explain(*, charge: Charge, now: datetime) -> Explanation:
    """A fixed number of queries."""
    ends = us(now)
    exact = charge.amount(end_us=ends)
    allocation = _allocation(charge)
    return Explanation(
        charge=charge,
        exact=exact,
        rounded=money.rounded(exact, currency=charge.currency)
        if exact is not None and charge.currency
        else None,
        microseconds=charge.microseconds(end_us=ends) if charge.fixed is None else 0,
        counted_until=min(now, charge.end),
        running=allocation is not None and allocation.ended_at is None and charge.end > now,
        rule=PriceRule.objects.filter(book=charge.book_id, position=charge.rule).first()
        if charge.rule is not None
        else None,
        listed=[] if charge.rule is not None or charge.book_id is None else _listed(charge),
        allocation=allocation,
        observations=_observations(charge, allocation),
        binding=_binding(charge, allocation),
        corrections=list(charge.followed_by.order_by("month", "pk")),
    )


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A charge with what it comes to by now."""

    charge: Charge
    hours: Fraction
    rounded: Decimal | None


def priced(charge: Charge, *, now: datetime) -> Priced:
    """Without any query."""
    exact = charge.amount(end_us=us(now))
    return Priced(
        charge=charge,
        hours=Fraction(0)
        if charge.fixed is not None
        else Fraction(charge.microseconds(end_us=us(now)), money.MICROSECONDS_PER_HOUR),
        rounded=money.rounded(exact, currency=charge.currency)
        if exact is not None and charge.currency
        else None,
    )


def _allocation(charge: Charge) -> Allocation | None:
    """The ledger's interval with the same natural key."""
    if not charge.claim_uid:
        return None
    rows = Allocation.objects.filter(
        cluster=charge.cluster_id, claim_uid=charge.claim_uid, epoch=charge.epoch
    )
    for row in rows.values(*COLUMNS):
        if source_of(row) == charge.source:
            return Allocation.objects.select_related("cluster", "request", "project").get(pk=row["pk"])
    return None


def _listed(charge: Charge) -> list[Price]:
    """The line of the price list that counted."""
    prices = {(p.device_class, p.product): p for p in Price.objects.filter(book=charge.book_id)}
    for key in (
        (charge.device_class, charge.product), ("", charge.product), (charge.device_class, ""), ("", ""),
    ):  # fmt: skip
        if key in prices:
            return [prices[key]]
    return []


def _observations(charge: Charge, allocation: Allocation | None) -> list[Observation]:
    if allocation is None:
        return []
    rows = Observation.objects.filter(cluster=charge.cluster_id, uid=charge.claim_uid, kind__in=KINDS)
    # A claim lives through several allocations: this is about one of them.
    own = (
        row
        for row in rows.order_by("at", "id").iterator(chunk_size=500)
        if int(row.facts.get("epoch") or charge.epoch) == charge.epoch
    )
    return list(islice(own, SHOWN))


def _binding(charge: Charge, allocation: Allocation | None) -> NamespaceBinding | None:
    """Whose the namespace was, where no request says who pays."""
    if allocation is None or allocation.request_id is not None:
        return None
    at = charge.start
    for row in NamespaceBinding.objects.filter(
        cluster=charge.cluster_id, namespace=allocation.namespace, valid_from__lte=at
    ).select_related("project"):
        if row.valid_until is None or at < row.valid_until:
            return row
    return None
