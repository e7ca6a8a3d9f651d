"""What the form's panel tells before anything is sent: what matches, what is free, where it fits, its cost.

An answer of the desk, not a reservation: somebody else may be faster. Whatever cannot be known is said to be
unknown; a cluster that is not in step has no "free now".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from claims import manifests
from claims.asks import Reading
from claims.engine import claim_of
from claims.pricing import MICROSECOND, PriceList, plain
from inventory.coverage import coverage_of
from inventory.models import ClassProfile, Cluster, Device, DeviceProfile
from inventory.snapshot import fleet
from portal import money
from portal.dra.cluster import feasible_nodes, how_many_more
from portal.dra.explain import Explanation, explain
from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim
from portal.dra.quantity import Quantity
from portal.reasons import in_words

FleetOf = Callable[[Cluster], Fleet]

NODES_SHOWN = 5
# Counting stops here: "more than enough" is all that a person needs.
ROOM_LIMIT = 100


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """devices × price × hours of one product; `per_hour` None = no price."""

    product: str
    count: int
    hours: Fraction
    per_hour: Decimal | None
    currency: str
    amount: Fraction | None

    @property
    def price(self) -> str:
        """The exact price per device-hour."""
        return plain(self.per_hour)


@dataclass(kw_only=True)
class Preview:
    """What can be said about an ask so far. None = not known (yet)."""

    reading: Reading
    # Whether what the mirror holds may be told as present fact; else `why` says why not.
    in_step: bool = False
    as_of: datetime | None = None
    why: str = ""
    # Devices of the class with enough memory: all, and those free now.
    matching: int | None = None
    free: int | None = None
    products: Sequence[str] = ()
    # Nodes on which a Pod with this claim would be placed now.
    nodes: Sequence[str] | None = None
    # How many such claims fit now one after the other; `room_exact` False = at least.
    room: int | None = None
    room_exact: bool = True
    # Why it does not fit now, from the largest obstacle on.
    reasons: Sequence[str] = ()
    # The engine could not decide; in its words.
    problem: str = ""
    # One line per product that may be given: the cost depends on which one it is.
    cost: Sequence[CostLine] = field(default_factory=tuple)

    @property
    def remarks(self) -> Sequence[str]:
        """What is wrong with what was typed so far, of the fields that this answer hangs on."""
        names = ("device_class", "count", "min_memory", "duration")
        return [message for name in names for message in self.reading.errors.get(name, ())]

    @property
    def nodes_shown(self) -> Sequence[str]:
        return (self.nodes or ())[:NODES_SHOWN]

    @property
    def nodes_more(self) -> int:
        return max(0, len(self.nodes or ()) - NODES_SHOWN)

    @property
    def feasible(self) -> bool | None:
        """Whether it would be placed now; None = not known."""
        return None if self.nodes is None else bool(self.nodes)


def preview(reading: Reading, *, prices: PriceList, now: datetime, fleet_of: FleetOf = fleet) -> Preview:
    """Answers for as much of the ask as could be read."""
    result = Preview(reading=reading)
    cluster, device_class = reading.cluster, reading.device_class
    if cluster is None or device_class is None:
        return result
    coverage = coverage_of(cluster, cluster.streams.all(), now=now)
    result.in_step, result.as_of, result.why = coverage.in_step, coverage.as_of, str(coverage.why)
    profiles = _with_memory(reading.profiles, reading.min_memory)
    result.products = sorted({profile.product or profile.driver for profile in profiles})
    result.matching, result.free = _count(reading, cluster, profiles)
    if not coverage.in_step:
        result.free = None
    result.cost = _cost(reading, profiles, prices, now=now)
    if reading.count is not None and coverage.in_step and "min_memory" not in reading.errors:
        _ask_engine(result, fleet_of(cluster), _claim(reading, device_class.name, reading.count))
    return result


def _with_memory(profiles: Sequence[DeviceProfile], minimum: str) -> list[DeviceProfile]:
    if not minimum:
        return list(profiles)
    wanted = Quantity.parse(minimum)
    return [
        profile
        for profile in profiles
        if profile.memory_bytes is not None and Quantity.from_int(profile.memory_bytes) >= wanted
    ]


def _count(reading: Reading, cluster: Cluster, profiles: Sequence[DeviceProfile]) -> tuple[int, int]:
    """Matching devices, and how many of them are free (or shared with something left)."""
    matches = ClassProfile.objects.filter(device_class=reading.device_class)
    whole = matches.filter(device=None).values("profile")
    single = matches.exclude(device=None).values("device")
    devices = Device.objects.filter(
        Q(profile__in=whole) | Q(pk__in=single),
        cluster=cluster,
        profile__in=[profile.pk for profile in profiles],
    )
    states = dict(devices.values_list("state").annotate(count=Count("pk")).order_by())
    free = states.get(Device.State.FREE, 0) + states.get(Device.State.PARTLY, 0)
    return sum(states.values()), free


def _cost(
    reading: Reading, profiles: Sequence[DeviceProfile], prices: PriceList, *, now: datetime
) -> list[CostLine]:
    """One line per price that may apply: which product it will be is the scheduler's choice."""
    book = prices.current(now)
    if reading.count is None or reading.duration is None or reading.device_class is None:
        return []
    hours = Fraction(reading.duration // MICROSECOND, money.MICROSECONDS_PER_HOUR)
    lines: dict[tuple[Decimal | None, str], CostLine] = {}
    for product in sorted({profile.product for profile in profiles}):
        per_hour = book.price(device_class=reading.device_class.name, product=product) if book else None
        key = (per_hour, "" if per_hour is None else product)
        lines.setdefault(
            key,
            CostLine(
                product=product,
                count=reading.count,
                hours=hours,
                per_hour=per_hour,
                currency=book.currency if book else "",
                amount=None if per_hour is None else Fraction(per_hour) * hours * reading.count,
            ),
        )
    return list(lines.values())


def _claim(reading: Reading, device_class: str, count: int) -> ResourceClaim:
    wish = manifests.Wish(
        device_class=device_class,
        count=count,
        min_memory=reading.min_memory,
        memory_domains=reading.memory_domains,
    )
    return claim_of(manifests.preview_claim(wish, namespace=reading.namespace or "default"))


def _ask_engine(result: Preview, fleet: Fleet, claim: ResourceClaim) -> None:
    feasible = feasible_nodes(fleet, [claim])
    if feasible.error is not None:
        result.problem = in_words(feasible.error.error)
        return
    result.nodes = feasible.nodes
    if feasible.nodes:
        room = how_many_more(fleet, claim, limit=ROOM_LIMIT)
        result.room, result.room_exact = room.count, room.exact
    else:
        result.reasons = reasons_of(explain(fleet, claim))


def reasons_of(explanation: Explanation) -> list[str]:
    """An explanation in sentences: the nearest miss first, then what each step of the funnel left over."""
    said = [in_words(explanation.nearest)] if explanation.nearest is not None else []
    for funnel in explanation.funnels:
        said += [
            _("%(devices)s devices on %(nodes)s nodes: %(reason)s")
            % {"reason": in_words(stage.reason), "devices": stage.devices, "nodes": stage.nodes}
            for stage in funnel.stages
        ]
    return list(dict.fromkeys(said))
