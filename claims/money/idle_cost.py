"""Idle time as charges: on the operator's account, each stretch for itself; and, where somebody decides so,
passed on to who used devices in that month, as marked charges that come to the same. What turns out otherwise
after the operator's month was closed is corrected there, and not passed on.

What is idle is the ledger's to say (`claims.ledger.conservation`): there, not held, to be had, and seen.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from fractions import Fraction
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from claims.history.curves import moment, us
from claims.ledger.audit import pieces
from claims.ledger.conservation import idle
from claims.ledger.published import DeviceName, Looks, World
from claims.models import Charge, Statement
from claims.money import announcing, rollup
from claims.money.books import IDLE, Book, Kind, PriceList, price_list
from claims.money.correcting import AT_ONCE, Key, closed_from, correct, corrections_of
from claims.money.months import Month
from claims.money.rating import content_of, rated
from claims.money.removing import remove, spoken_of
from claims.money.shutting import write_alone
from inventory.models import Cluster, Device, DeviceProfile
from portal import bulk
from portal.accounts import audit
from portal.accounts.models import User

# Since when the source of a charge was what, in order of time.
Was = Mapping[str, Sequence[tuple[int, Looks]]]
# What prices depend on, and which hardware it is.
Looked = tuple[Kind, str]
# Of a unit of the currency.
GRAIN = 10**12


class UnableToPassOn(Exception):
    """Nothing is passed on; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def rate_idle(*, month: Month, zone: tzinfo, now: datetime, prices: PriceList | None = None) -> int:
    """Make the idle charges of a month what they should be; how many there are: none where no price book has
    a price for idle time. Once the month of the operator is closed, the difference is corrected in the
    operator's next open month instead."""
    prices = prices or price_list()
    if Statement.objects.filter(project=None, month=str(month), state=Statement.State.CLOSED).exists():
        _correct(month, zone, prices, now=now)
        return Charge.objects.filter(kind=Charge.Kind.IDLE, month=str(month)).count()
    wanted = _wanted(month, zone, prices, now=now)
    with transaction.atomic():
        write_alone()
        if (None, str(month)) in closed_from(month):
            # Closed meanwhile: the next round corrects it.
            return Charge.objects.filter(kind=Charge.Kind.IDLE, month=str(month)).count()
        stored = {
            (charge.source, charge.started_us): charge
            for charge in Charge.objects.filter(kind=Charge.Kind.IDLE, month=str(month))
        }
        same = {key for key in wanted if key in stored and stored[key].content == wanted[key].content}
        if same != stored.keys() or same != wanted.keys():
            rollup.stale(month)
        Charge.objects.filter(pk__in=[c.pk for key, c in stored.items() if key not in same]).delete()
        bulk.append([charge for key, charge in wanted.items() if key not in same])
    return len(wanted)


def _correct(
    month: Month,
    zone: tzinfo,
    prices: PriceList,
    *,
    now: datetime,
) -> None:
    """What a device was when its idle time was billed, it was: what it is by now is no reason to correct."""
    frozen: dict[Key, tuple[int, str]] = {}
    was: dict[str, list[tuple[int, Looks]]] = defaultdict(list)
    columns = ("source", "started_us", "pk", "content", "product", "profile_digest", "hardware_id")
    rows = Charge.objects.filter(kind=Charge.Kind.IDLE, month=str(month)).order_by("started_us")
    for source, start, pk, content, *told in rows.values_list(*columns).iterator(chunk_size=5_000):
        frozen[source, start, None] = pk, content
        looks = Looks(product=told[0], profile=told[1], hardware_id=told[2])
        if not was[source] or was[source][-1][1] != looks:
            was[source].append((start, looks))
    wanted = _wanted(month, zone, prices, now=now, was=was)
    late: dict[Key, Charge] = {(source, start, None): charge for (source, start), charge in wanted.items()}
    with transaction.atomic():
        write_alone()
        corrected = correct(
            month=month,
            closed=closed_from(month),
            frozen=frozen,
            late=late,
            sources={key[0] for key in frozen.keys() | late.keys()} | _corrected_before(month),
        )
    if corrected:
        announcing.corrections(month=month, now=now)


def _corrected_before(month: Month) -> set[str]:
    """Sources of idle time of that month that was corrected: also what is idle no more."""
    rows = corrections_of(month).filter(project=None, use=IDLE)
    return set(rows.values_list("source", flat=True))


def _wanted(
    month: Month,
    zone: tzinfo,
    prices: PriceList,
    *,
    now: datetime,
    was: Was | None = None,
) -> dict[tuple[str, int], Charge]:
    """The idle charges of a month by what is known now. `was`: since when sources that are known already
    were what, in order of time."""
    start, end = month.bounds(zone)
    if not any(rule.use == IDLE for book in prices.books for rule in book.rules):
        return {}
    return {
        (charge.source, charge.started_us): charge
        for cluster in Cluster.objects.all()
        for charge in _charges(
            cluster, prices, month=month, start=start, end=min(end, now), now=now, was=was or {}
        )
    }


def _charges(
    cluster: Cluster,
    prices: PriceList,
    *,
    month: Month,
    start: datetime,
    end: datetime,
    now: datetime,
    was: Was,
) -> Iterator[Charge]:
    world = World.load(cluster, us(now))
    kinds = _kinds(cluster, world)
    changes = [*was.values(), *world.changes.values()]
    capacities = _capacities({looks.profile for told in changes for _since, looks in told})

    def as_it_was(looks: Looks) -> Looked:
        capacity = capacities.get(looks.profile, {})
        kind = Kind(use=IDLE, product=looks.product, profile=looks.profile, capacity=capacity)
        return kind, looks.hardware_id

    lower, upper = us(start), us(end)
    for piece, members, blanks in pieces(cluster, now, world=world):
        source = hashlib.sha256(f"idle/{cluster.pk}/{piece.name}".encode()).hexdigest()
        # What partitions are cut from is priced as the whole.
        whole = next((name for name in members if name in kinds), None)
        looked: list[tuple[int, Looked]] = [(0, kinds[whole] if whole else (Kind(use=IDLE), ""))]
        if source in was:
            looked = [(since, as_it_was(looks)) for since, looks in was[source]]
        elif whole is not None and whole in world.changes:
            # What it is now may have changed since it came, without its going.
            *before, (last_came, _looks) = world.changes[whole]
            looked = [*((since, as_it_was(looks)) for since, looks in before), (last_came, kinds[whole])]
        for since, until, share in idle(piece, blanks):
            first_us = max(since, lower)
            last_us = max(min(until, upper), first_us)
            for first, last, book, (kind, hardware) in _segments(prices, looked, first_us, last_us):
                rate = book.rate(kind) if book else None
                if book is None or rate is None:
                    continue
                values = rated(book, rate, otherwise=share)
                values["quantity"] = rate.quantity * share
                charge = Charge(
                    kind=Charge.Kind.IDLE,
                    source=source,
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


def _segments(
    prices: PriceList, looked: Sequence[tuple[int, Looked]], first: int, last: int
) -> Iterator[tuple[datetime, datetime, Book | None, Looked]]:
    """[first, last) cut where prices change, and where another piece of hardware came under the same name."""
    for number, (since, looks) in enumerate(looked):
        lower = max(since, first) if number else first
        upper = min(looked[number + 1][0], last) if number + 1 < len(looked) else last
        if lower < upper:
            for start, end, book in prices.segments(moment(lower), moment(upper)):
                yield start, end, book, looks


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
    capacities = _capacities({looks.profile for looks in gone.values()})
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


def _capacities(digests: set[str]) -> dict[str, Any]:
    """Of profiles, by their digests."""
    found: dict[str, Any] = {}
    for first in range(0, len(ordered := sorted(digests)), AT_ONCE):
        some = DeviceProfile.objects.filter(digest__in=ordered[first : first + AT_ONCE])
        found |= dict(some.values_list("digest", "capacity"))
    return found


def pass_on(*, month: Month, zone: tzinfo, actor: User, now: datetime) -> int:
    """Pass the idle cost of a month on to the projects that used devices, in proportion to what they pay for
    that; the operator is relieved of as much. How many were charged. Doing it again does it anew. Raises
    UnableToPassOn for a month in which anything is closed."""
    _demand_open(month)
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
        write_alone()
        _demand_open(month)
        before = Charge.objects.filter(kind=Charge.Kind.SHARED, month=str(month))
        disputed = {
            (row.source, row.project_id): row.pk for row in before.filter(pk__in=spoken_of(_pks(before)))
        }
        for row in rows:
            row.pk = disputed.get((row.source, row.project_id))
        again = {row.pk for row in rows}
        remove(_pks(before) - again)
        for row in rows:
            if row.pk is not None:
                row.save()
        bulk.append([row for row in rows if row.pk is None])
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


def _pks(charges: QuerySet[Charge]) -> set[int]:
    return set(charges.values_list("pk", flat=True))


def _demand_open(month: Month) -> None:
    if Statement.objects.filter(month=str(month), state=Statement.State.CLOSED).exists():
        raise UnableToPassOn(_("%(month)s is closed.") % {"month": month})


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
