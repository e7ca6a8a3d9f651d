"""Idle time as charges: on the operator's account, each stretch for itself; and, where somebody decides so,
passed on to who used devices in that month, as marked charges that come to the same.

What is idle is the ledger's to say (`claims.ledger.conservation`): there, not held, to be had, and seen.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from fractions import Fraction

from django.db import transaction
from django.utils.translation import gettext as _

from claims.history.curves import moment, us
from claims.ledger.audit import pieces
from claims.ledger.conservation import idle
from claims.ledger.published import DeviceName, World
from claims.models import Charge, Statement
from claims.money import rollup
from claims.money.books import IDLE, Kind, PriceList, price_list
from claims.money.months import Month
from claims.money.rating import content_of, rated
from inventory.models import Cluster, Device, DeviceProfile
from portal import bulk
from portal.accounts import audit
from portal.accounts.models import User

# Of a unit of the currency.
GRAIN = 10**12


class UnableToPassOn(Exception):
    """Nothing is passed on; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def rate_idle(*, month: Month, zone: tzinfo, now: datetime, prices: PriceList | None = None) -> int:
    """Make the idle charges of a month what they should be; how many there are: none where no price book has
    a price for idle time. Nothing changes once the month of the operator is closed."""
    prices = prices or price_list()
    start, end = month.bounds(zone)
    closed = Statement.objects.filter(project=None, month=str(month), state=Statement.State.CLOSED)
    if closed.exists():
        return 0
    wanted: dict[tuple[str, int], Charge] = {}
    if any(rule.use == IDLE for book in prices.books for rule in book.rules):
        for cluster in Cluster.objects.all():
            for charge in _charges(cluster, prices, month=month, start=start, end=min(end, now), now=now):
                wanted[charge.source, charge.started_us] = charge
    stored = {
        (charge.source, charge.started_us): charge
        for charge in Charge.objects.filter(kind=Charge.Kind.IDLE, month=str(month))
    }
    same = {key for key in wanted if key in stored and stored[key].content == wanted[key].content}
    with transaction.atomic():
        if same != stored.keys() or same != wanted.keys():
            rollup.stale(month)
        Charge.objects.filter(pk__in=[c.pk for key, c in stored.items() if key not in same]).delete()
        bulk.append([charge for key, charge in wanted.items() if key not in same])
    return len(wanted)


def _charges(
    cluster: Cluster, prices: PriceList, *, month: Month, start: datetime, end: datetime, now: datetime
) -> Iterator[Charge]:
    world = World.load(cluster, us(now))
    kinds = _kinds(cluster, world)
    lower, upper = us(start), us(end)
    for piece, members, blanks in pieces(cluster, now, world=world):
        # What partitions are cut from is priced as the whole.
        kind, hardware = next((kinds[name] for name in members if name in kinds), (Kind(use=IDLE), ""))
        for since, until, share in idle(piece, blanks):
            first_us = max(since, lower)
            last_us = max(min(until, upper), first_us)
            for first, last, book in prices.segments(moment(first_us), moment(last_us)):
                rate = book.rate(kind) if book else None
                if book is None or rate is None:
                    continue
                values = rated(book, rate, otherwise=share)
                values["quantity"] = rate.quantity * share
                charge = Charge(
                    kind=Charge.Kind.IDLE,
                    source=hashlib.sha256(f"idle/{cluster.pk}/{piece.name}".encode()).hexdigest(),
                    month=str(month),
                    started_us=us(first),
                    ended_us=us(last),
                    cluster=cluster,
                    device_name=piece.name[:253],
                    hardware_id=hardware,
                    product=kind.product,
                    profile_digest=kind.profile,
                    use=IDLE,
                    **values,
                )
                charge.content = content_of(charge)
                yield charge


def _kinds(cluster: Cluster, world: World) -> Mapping[DeviceName, tuple[Kind, str]]:
    """What prices of idle time may depend on, and which hardware it is: of every device that is published,
    and of those that are gone as they were last."""
    rows = Device.objects.filter(cluster=cluster).values_list(
        "pool__driver", "pool__name", "name", "hardware_id", "profile__product", "profile__digest",
        "profile__capacity",
    )  # fmt: skip
    here = {
        (driver, pool, name): (
            Kind(use=IDLE, product=product, profile=digest, capacity=capacity), hardware,
        )
        for driver, pool, name, hardware, product, digest, capacity in rows.iterator()
    }  # fmt: skip
    gone = {name: looks for name, looks in world.looks.items() if name not in here}
    digests = {looks.profile for looks in gone.values()}
    capacities = dict(DeviceProfile.objects.filter(digest__in=digests).values_list("digest", "capacity"))
    return here | {
        name: (
            Kind(
                use=IDLE,
                product=looks.product,
                profile=looks.profile,
                capacity=capacities.get(looks.profile, {}),
            ),
            looks.hardware_id,
        )
        for name, looks in gone.items()
    }


def pass_on(*, month: Month, zone: tzinfo, actor: User, now: datetime) -> int:
    """Pass the idle cost of a month on to the projects that used devices, in proportion to what they pay for
    that; the operator is relieved of as much. How many were charged. Doing it again does it anew. Raises
    UnableToPassOn for a month in which anything is closed."""
    if Statement.objects.filter(month=str(month), state=Statement.State.CLOSED).exists():
        raise UnableToPassOn(_("%(month)s is closed.") % {"month": month})
    start, end = month.bounds(zone)
    used: dict[str, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    idle_cost: dict[str, Fraction] = defaultdict(Fraction)
    limit = us(min(now, end))
    kinds = (Charge.Kind.USAGE, Charge.Kind.IDLE)
    for charge in Charge.objects.filter(month=str(month), kind__in=kinds).iterator():
        exact = charge.amount(end_us=limit) or Fraction(0)
        if charge.kind == Charge.Kind.IDLE:
            idle_cost[charge.currency] += exact
        elif charge.project_id is not None:
            used[charge.currency][charge.project_id] += exact
    rows = []
    for currency, cost in idle_cost.items():
        paying = {project: amount for project, amount in sorted(used[currency].items()) if amount}
        if not cost or not paying:
            continue
        for project, part in zip(paying, _in_proportion(cost, list(paying.values())), strict=True):
            rows.append(_part(project, part, currency, month=month, at=us(start)))
        rows.append(_part(None, -cost, currency, month=month, at=us(start)))
    with transaction.atomic():
        Charge.objects.filter(kind=Charge.Kind.SHARED, month=str(month)).delete()
        bulk.append(rows)
        audit.record_named(
            now=now,
            actor=actor,
            action="idle.pass-on",
            kind="month",
            key=str(month),
            name=str(month),
            after={"charges": len(rows), "cost": {c: str(cost) for c, cost in idle_cost.items()}},
        )
    return len([row for row in rows if row.project_id is not None])


def is_passed_on(*, month: Month) -> bool:
    """Whether the idle cost of a month is passed on."""
    return Charge.objects.filter(kind=Charge.Kind.SHARED, month=str(month)).exists()


def pass_on_anew(*, month: Month, zone: tzinfo, actor: User, now: datetime) -> None:
    """Pass it on by what is known now; what is closed stays as it is."""
    try:
        pass_on(month=month, zone=zone, actor=actor, now=now)
    except UnableToPassOn:
        return


def _in_proportion(cost: Fraction, weights: Sequence[Fraction]) -> list[Fraction]:
    """Parts that come to `cost` exactly. Each is in proportion to its weight to a millionth of a millionth:
    the exact proportion may have hundreds of digits, and no more than that is ever billed."""
    total = sum(weights, start=Fraction(0))
    parts = [Fraction(int(cost * weight / total * GRAIN), GRAIN) for weight in weights]
    # What is left over is less than one such grain for each.
    largest = max(range(len(parts)), key=lambda i: (weights[i], -i))
    parts[largest] += cost - sum(parts, start=Fraction(0))
    return parts


def _part(project: int | None, part: Fraction, currency: str, *, month: Month, at: int) -> Charge:
    charge = Charge(
        kind=Charge.Kind.SHARED,
        source=f"idle-of-{month}-{currency}",
        month=str(month),
        started_us=at,
        ended_us=at,
        project_id=project,
        currency=currency,
        quantity=Fraction(1),  # type: ignore[misc] # the field takes fractions
        fixed=part,
        unit="",
        use="",
    )
    charge.content = content_of(charge)
    return charge
