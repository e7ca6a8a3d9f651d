"""What the form's panel tells before anything is sent: what matches, what is free, where it fits, its cost;
and if it does not fit now: why, what would, who holds it until when, and how long others waited.

An answer of the desk, not a reservation: somebody else may be faster. Whatever cannot be known is said to be
unknown; a cluster that is not in step has no "free now".
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from claims.asks.engine import claim_of, node_tolerations
from claims.asks.options import NAMES as OPTIONS
from claims.asks.values import Reading
from claims.bookings.conflicts import conflicts_of, words_of
from claims.catalogue.flavored import node_names
from claims.catalogue.growth import Growth, growths_of
from claims.catalogue.stock import FleetOf
from claims.models import Flavor, Request
from claims.money.pricing import PriceList
from claims.preview.changing import Changing
from claims.preview.costs import Cost, CostLine, costs_of, costs_of_units
from claims.preview.manifests import Written, written
from claims.preview.outlook import Expected, Held, Line, expected, held_by, waiting
from claims.preview.placed import Placed, placed
from claims.preview.reasons import reasons_of
from claims.preview.suggestions import Search, Suggestion
from claims.preview.units import Units
from claims.preview.upkeep import maintenance_ahead
from claims.preview.verdicts import Asked, Verdict, judge
from claims.quotas.guard import Verdict as QuotaVerdict
from claims.quotas.guard import foretell
from claims.requests import manifests
from claims.requests.approval_rules import approval_for
from inventory.coverage import coverage_of
from inventory.mirror.writer import features_of
from inventory.models import ClassProfile, Cluster, Device, DeviceProfile
from inventory.snapshot import fleet
from portal.accounts.models import User
from portal.dra.cluster import how_many_more
from portal.dra.explain import explain
from portal.dra.fleet import Fleet
from portal.dra.quantity import Quantity
from portal.reasons import in_words

__all__ = ["CostLine", "FleetOf", "Preview", "preview", "reasons_of"]

NODES_SHOWN = 5
HELD_SHOWN = 6
# Counting stops here: "more than enough" is all that a person needs.
ROOM_LIMIT = 100
# What the search for something that would fit may take, in seconds of processor time.
SEARCH_SECONDS = 0.08
_TONES = {
    Verdict.FREE: "good",
    Verdict.BUSY: "busy",
    Verdict.GROW: "wait",
    Verdict.OUT: "bad",
    Verdict.IMPOSSIBLE: "bad",
    Verdict.UNKNOWN: "off",
}


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
    # What is said of it first.
    verdict: Verdict = Verdict.UNKNOWN
    # Node pools that would bring it.
    growth: Sequence[Growth] = ()
    # Where it does not fit now: what would, who holds it until when, how many wait, how long others waited.
    suggestions: Sequence[Suggestion] = ()
    held: Sequence[Held] = ()
    waiting: int | None = None
    expected: Expected | None = None
    # What it means for the project's quotas, and for what others have booked; "" = for nothing.
    quotas: Sequence[QuotaVerdict] = ()
    booked: str = ""
    # Maintenance that it would run into, in words.
    maintenance: Sequence[str] = ()
    # Of a change: it keeps the devices that it has; and what to do where another place is not to be had.
    keeps: bool = False
    way_out: str = ""
    # The hold's priority class, if it would have one: it frees nothing.
    priority_class: str = ""
    # The engine could not decide; in its words.
    problem: str = ""
    # Who would have to approve it; "" = nobody.
    approval: str = ""
    # What would be sent or copied, by each way that the flavor has there.
    written: Sequence[Written] = ()
    # What it costs depends on which device it will be: of what is asked for, of alternatives, of more parts.
    costs: Sequence[Cost] = field(default_factory=tuple)
    # Where that is a range and it fits: the devices that it would be given now, and their cost.
    placed: Sequence[Placed] = ()

    @property
    def cost(self) -> Sequence[CostLine]:
        """The arithmetic of all that it may cost."""
        return [line for cost in self.costs for line in cost.lines]

    @property
    def remarks(self) -> Sequence[str]:
        """What is wrong with what was typed so far, of the fields that this answer hangs on."""
        names = ("flavor", "device_class", "count", "min_memory", "shape", "duration", *OPTIONS)
        return [message for name in names for message in self.reading.errors.get(name, ())]

    @property
    def warnings(self) -> Sequence[str]:
        """What may be wrong, and stops nobody."""
        return [message for said in self.reading.warnings.values() for message in said]

    @property
    def held_shown(self) -> Sequence[Held]:
        return self.held[:HELD_SHOWN]

    @property
    def held_more(self) -> int:
        """Devices that are held by others than those shown."""
        return sum(one.devices for one in self.held[HELD_SHOWN:])

    @property
    def priority_words(self) -> str:
        """What the priority class of the hold means for who holds something already."""
        if not self.priority_class:
            return ""
        return _(
            "Its hold runs with the priority class %(name)s. That frees no device that is held: priority "
            "only orders Pods that wait."
        ) % {"name": self.priority_class}

    @property
    def tone(self) -> str:
        """The tone of its badge."""
        return _TONES[self.verdict]

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


def preview(
    reading: Reading,
    *,
    prices: PriceList,
    now: datetime,
    viewer: User | None = None,
    changing: Changing | None = None,
    fleet_of: FleetOf = fleet,
    clock: Callable[[], float] = time.thread_time,
) -> Preview:
    """Answers for as much of the ask as could be read. `viewer` is who reads it; `changing` the request that
    it changes, None = a new one; `clock` bounds how long is searched for something that would fit."""
    result = Preview(reading=reading)
    cluster, device_class = reading.cluster, reading.device_class
    by_plugin = reading.placement is not None and reading.backend == Request.Backend.PLUGIN
    if cluster is None or (device_class is None and not by_plugin):
        return result
    coverage = coverage_of(cluster, cluster.streams.all(), now=now)
    result.in_step, result.as_of, result.why = coverage.in_step, coverage.as_of, str(coverage.why)
    approval, _own = approval_for(reading)
    result.approval = "" if approval == Flavor.Approval.NONE else str(Flavor.Approval(approval).label)
    if reading.flavor is not None and reading.shape == Request.Shape.CLAIM:
        result.priority_class = reading.flavor.hold_priority_class
    result.written = written(reading)
    result.quotas = changing.quotas(reading, now=now) if changing else foretell(reading, now=now)
    result.keeps = changing is not None and changing.in_place(reading)
    if reading.count is not None and not result.keeps:
        result.growth = growths_of(reading, now=now)
    asking = _Asking(result, viewer=viewer, changing=changing, now=now, fleet_of=fleet_of, clock=clock)
    if device_class is None:
        asking.units(prices)
    else:
        asking.devices(prices)
    if result.nodes is not None and not result.nodes:
        asking.outlook()
    elif result.nodes or result.keeps:
        asking.bookings()
    result.maintenance = maintenance_ahead(reading, nodes=result.nodes, now=now)
    return result


@dataclass
class _Asking:
    """One answer being put together."""

    result: Preview
    viewer: User | None
    changing: Changing | None
    now: datetime
    fleet_of: FleetOf
    clock: Callable[[], float]

    @property
    def reading(self) -> Reading:
        return self.result.reading

    @property
    def cluster(self) -> Cluster:
        assert self.reading.cluster is not None  # the caller looked
        return self.reading.cluster

    def devices(self, prices: PriceList) -> None:
        """By DRA."""
        result, reading = self.result, self.reading
        profiles = _with_memory(reading.profiles, reading.min_memory)
        result.products = sorted({profile.product or profile.driver for profile in profiles})
        result.matching, result.free = _count(reading, self.cluster, profiles)
        if not result.in_step:
            result.free = None
        result.costs = costs_of(reading, prices, now=self.now)
        spec = reading.spec
        if spec is None or not result.in_step or "min_memory" in reading.errors or result.keeps:
            return
        placement = reading.placement
        asked = Asked(
            fleet=self.fleet_of(self.cluster),
            claim=claim_of(manifests.preview_claim(spec, namespace=reading.namespace or "default")),
            tolerations=node_tolerations(placement.tolerations) if placement else (),
            node_selector=dict(placement.node_selector) if placement else {},
        )
        self._engine(asked)
        if result.nodes and (len(result.costs) > 1 or any(cost.open for cost in result.costs)):
            result.placed = placed(reading, asked, result.nodes, prices, now=self.now)

    def _engine(self, asked: Asked) -> None:
        result = self.result
        feasible = asked.feasible()
        result.verdict = judge(asked, now=feasible, can_grow=bool(result.growth))
        if feasible.error is not None:
            result.problem = in_words(feasible.error.error)
            return
        if feasible.undecided and not feasible.nodes:
            result.problem = _("The search took too long on some nodes.")
            return
        result.nodes = feasible.nodes
        if feasible.nodes:
            room = how_many_more(
                asked.fleet,
                asked.claim,
                tolerations=asked.tolerations,
                node_selector=asked.node_selector,
                limit=ROOM_LIMIT,
            )
            result.room, result.room_exact = room.count, room.exact
            return
        explanation = explain(
            asked.fleet,
            asked.claim,
            tolerations=asked.tolerations,
            node_selector=asked.node_selector,
            feasible=feasible,
            holders=result.verdict == Verdict.BUSY,
        )
        result.reasons = reasons_of(explanation)
        if result.verdict == Verdict.BUSY:
            own = self.changing.request if self.changing else None
            result.held = held_by(
                explanation.held_by, cluster=self.cluster, viewer=self.viewer, now=self.now, own=own
            )
            result.way_out = self.changing.way_out(asked) if self.changing else ""
        search = Search(
            asked=asked, reading=self.reading, feasible=feasible, viewer=self.viewer, now=self.now,
            fleet_of=self.fleet_of, clock=self.clock, seconds=SEARCH_SECONDS,
        )  # fmt: skip
        result.suggestions = search.run()

    def units(self, prices: PriceList) -> None:
        """By a Device Plugin."""
        result, reading, placement = self.result, self.reading, self.reading.placement
        assert placement is not None  # the caller looked
        units = Units.of(placement, fleet=self._fleet_if_in_step())
        result.matching = sum(row.capacity for row in units.rows)
        result.products = sorted({row.product for row in units.rows})
        result.costs = costs_of_units(reading, units.rows, prices, now=self.now)
        if not result.in_step or any(row.used is None for row in units.rows) or result.keeps:
            return
        if reading.count is None:
            result.free = sum(units.left.values())
            return
        found = units.now(reading.count)
        result.free, result.problem = found.free, found.problem
        result.verdict = units.verdict(reading.count, found, can_grow=bool(result.growth))
        if found.problem:
            return
        result.nodes = found.nodes
        if found.nodes:
            result.room = found.room
        else:
            result.reasons = units.reasons(reading.count)

    def _fleet_if_in_step(self) -> Fleet:
        if self.result.in_step:
            return self.fleet_of(self.cluster)
        return Fleet.build(slices=(), classes=(), features=features_of(self.cluster.server_version))

    def bookings(self) -> None:
        """What of it others have booked for later."""
        reading = self.reading
        if self.changing is not None:
            self.result.booked = self.changing.booked(reading, now=self.now, fleet_of=self.fleet_of)
            return
        if reading.count is None or reading.duration is None or reading.device_class is None:
            return
        conflict = conflicts_of(
            cluster=self.cluster, placement=reading.placement, device_class=reading.device_class.name,
            count=reading.count, min_memory=reading.min_memory, duration=reading.duration, now=self.now,
            fleet_of=self.fleet_of,
        )  # fmt: skip
        self.result.booked = words_of(conflict) if conflict is not None else ""

    def outlook(self) -> None:
        """The line that it would stand in."""
        reading, placement = self.reading, self.reading.placement
        line = Line(
            cluster=self.cluster,
            flavor=reading.flavor.pk if reading.flavor else None,
            device_class=reading.device_class.name if reading.device_class else "",
            extended_resource=placement.extended_resource if placement else "",
        )
        self.result.waiting = waiting(line, before=self.now, besides=reading.key)
        self.result.expected = expected(line, now=self.now)


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
    nodes = node_names(reading.placement) if reading.placement else None
    if nodes is not None:
        devices = devices.filter(node_name__in=nodes)
    states = dict(devices.values_list("state").annotate(count=Count("pk")).order_by())
    free = states.get(Device.State.FREE, 0) + states.get(Device.State.PARTLY, 0)
    return sum(states.values()), free
