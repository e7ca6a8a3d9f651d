"""What the form's panel tells before anything is sent: what matches, what is free, where it fits, its cost.

An answer of the desk, not a reservation: somebody else may be faster. Whatever cannot be known is said to be
unknown; a cluster that is not in step has no "free now".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from claims import manifests, snippets
from claims.approval_rules import approval_for
from claims.asking import Reading
from claims.engine import claim_of, node_tolerations
from claims.flavored import node_names, units_of
from claims.models import Flavor, Placement, Request
from claims.options import NAMES as OPTIONS
from claims.options import Piece
from claims.pricing import MICROSECOND, PriceList, plain
from claims.stock import wish_of
from inventory.coverage import coverage_of
from inventory.models import ClassProfile, Cluster, Device, DeviceProfile
from inventory.snapshot import fleet
from portal import money
from portal.dra.availability import unavailable
from portal.dra.cluster import feasible_nodes, how_many_more
from portal.dra.explain import Explanation, explain
from portal.dra.fleet import Fleet
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
    # "instead" for an alternative, "besides" for a further part; "" for what is asked for first.
    role: str = ""

    @property
    def price(self) -> str:
        """The exact price per device-hour."""
        return plain(self.per_hour)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A manifest as it would be sent (or copied); `used` tells the way that is used from the other one."""

    backend: str
    kind: str
    text: str
    used: bool


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
    # Who would have to approve it; "" = nobody.
    approval: str = ""
    # What would be sent or copied, by each way that the flavor has there.
    written: Sequence[Written] = ()
    # One line per product that may be given: the cost depends on which one it is.
    cost: Sequence[CostLine] = field(default_factory=tuple)

    @property
    def remarks(self) -> Sequence[str]:
        """What is wrong with what was typed so far, of the fields that this answer hangs on."""
        names = ("flavor", "device_class", "count", "min_memory", "shape", "duration", *OPTIONS)
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
    by_plugin = reading.placement is not None and reading.backend == Request.Backend.PLUGIN
    if cluster is None or (device_class is None and not by_plugin):
        return result
    coverage = coverage_of(cluster, cluster.streams.all(), now=now)
    result.in_step, result.as_of, result.why = coverage.in_step, coverage.as_of, str(coverage.why)
    approval, _own = approval_for(reading)
    result.approval = "" if approval == Flavor.Approval.NONE else str(Flavor.Approval(approval).label)
    result.written = written(reading)
    if device_class is None:
        tell_units(result, prices, now=now, fleet_of=fleet_of)
        return result
    profiles = _with_memory(reading.profiles, reading.min_memory)
    result.products = sorted({profile.product or profile.driver for profile in profiles})
    result.matching, result.free = _count(reading, cluster, profiles)
    if not coverage.in_step:
        result.free = None
    result.cost = _cost(reading, profiles, prices, now=now)
    if reading.count is not None and coverage.in_step and "min_memory" not in reading.errors:
        _ask_engine(result, fleet_of(cluster), reading.placement)
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
    nodes = node_names(reading.placement) if reading.placement else None
    if nodes is not None:
        devices = devices.filter(node_name__in=nodes)
    states = dict(devices.values_list("state").annotate(count=Count("pk")).order_by())
    free = states.get(Device.State.FREE, 0) + states.get(Device.State.PARTLY, 0)
    return sum(states.values()), free


def _cost(
    reading: Reading, profiles: Sequence[DeviceProfile], prices: PriceList, *, now: datetime
) -> list[CostLine]:
    """One line per price that may apply: which product it will be is the scheduler's choice."""
    if reading.device_class is None:
        return []
    lines = _lines(_products(profiles), reading.device_class.name, reading, prices, now=now)
    for role, pieces in (("instead", reading.options.alternatives), ("besides", reading.options.parts)):
        for piece in pieces:
            lines += [
                replace(line, role=role)
                for line in _lines(
                    _products(piece.profiles), piece.wish.device_class, reading, prices, now=now, piece=piece
                )
            ]
    return lines


def _products(profiles: Sequence[DeviceProfile]) -> list[str]:
    return sorted({profile.product for profile in profiles})


def _lines(
    products: Sequence[str],
    device_class: str,
    reading: Reading,
    prices: PriceList,
    *,
    now: datetime,
    piece: Piece | None = None,
) -> list[CostLine]:
    book = prices.current(now)
    count = piece.count if piece else reading.count
    if count is None or reading.duration is None:
        return []
    hours = Fraction(reading.duration // MICROSECOND, money.MICROSECONDS_PER_HOUR)
    lines: dict[tuple[Decimal | None, str], CostLine] = {}
    for product in products:
        per_hour = book.price(device_class=device_class, product=product) if book else None
        key = (per_hour, "" if per_hour is None else product)
        lines.setdefault(
            key,
            CostLine(
                product=product or device_class,
                count=count,
                hours=hours,
                per_hour=per_hour,
                currency=book.currency if book else "",
                amount=None if per_hour is None else Fraction(per_hour) * hours * count,
            ),
        )
    return list(lines.values())


def _ask_engine(result: Preview, fleet: Fleet, placement: Placement | None) -> None:
    spec = result.reading.spec
    if spec is None:
        return
    claim = claim_of(manifests.preview_claim(spec, namespace=result.reading.namespace or "default"))
    tolerations = node_tolerations(placement.tolerations) if placement else ()
    selector = placement.node_selector if placement else None
    feasible = feasible_nodes(fleet, [claim], tolerations=tolerations, node_selector=selector)
    if feasible.error is not None:
        result.problem = in_words(feasible.error.error)
        return
    result.nodes = feasible.nodes
    if feasible.nodes:
        room = how_many_more(fleet, claim, tolerations=tolerations, node_selector=selector, limit=ROOM_LIMIT)
        result.room, result.room_exact = room.count, room.exact
    else:
        result.reasons = reasons_of(explain(fleet, claim, tolerations=tolerations, node_selector=selector))


def tell_units(result: Preview, prices: PriceList, *, now: datetime, fleet_of: FleetOf = fleet) -> None:
    """The same of a Device Plugin's units: nodes that take such Pods and have so many left."""
    reading = result.reading
    placement, cluster = reading.placement, reading.cluster
    if placement is None or cluster is None:
        return
    rows = units_of(placement)
    result.matching = sum(row.capacity for row in rows)
    result.products = sorted({row.product for row in rows})
    result.cost = _lines(result.products or [""], "", reading, prices, now=now)
    if not result.in_step or any(row.used is None for row in rows):
        return
    nodes = fleet_of(cluster).nodes
    tolerations = node_tolerations(placement.tolerations)
    left = {
        row.node_name: max(0, row.allocatable - (row.used or 0))
        for row in rows
        if row.node_name in nodes and unavailable(nodes[row.node_name], tolerations=tolerations) is None
    }
    result.free = sum(left.values())
    if reading.count is None:
        return
    result.nodes = sorted(name for name, free in left.items() if free >= reading.count)
    if result.nodes:
        result.room = sum(free // reading.count for free in left.values())
    else:
        most = max(left.values(), default=0)
        result.reasons = [
            _("No node that takes such Pods has %(count)s units left; the most is %(most)s.")
            % {"count": reading.count, "most": most}
        ]


def written(reading: Reading) -> list[Written]:
    """What would be sent to the cluster (DRA) or copied into Pods (Device Plugin); the way that is used
    comes first."""
    placement, count = reading.placement, reading.count
    if reading.project is None or not reading.namespace or count is None:
        return []
    name = manifests.object_name(project=reading.project.slug, key=reading.key or "00000000")
    found = []
    spec = reading.spec
    if spec is None and placement is not None and placement.device_class:
        spec = manifests.claim_spec(wish_of(placement, count=count))
    if spec is not None:
        build = manifests.claim_template if reading.shape == Request.Shape.TEMPLATE else manifests.claim
        owner = manifests.Owner(
            key=reading.key or "…",
            project=reading.project.slug,
            requester=reading.requester,
            cost_centre=reading.project.cost_centre,
            purpose=reading.purpose,
        )
        manifest = build(name=name, namespace=reading.namespace, owner=owner, spec=spec)
        used = reading.backend == Request.Backend.DRA
        found.append(
            Written(
                backend=Request.Backend.DRA,
                kind=manifest["kind"],
                text=manifests.as_yaml(manifest),
                used=used,
            )
        )
    if placement is not None and placement.extended_resource:
        use = snippets.Use(
            object_name=name,
            namespace=reading.namespace,
            shape=Request.Shape.ENTITLEMENT,
            key=reading.key or "…",
            resource=placement.extended_resource,
            count=count,
            node_selector=placement.node_selector,
            tolerations=placement.tolerations,
        )
        used = reading.backend == Request.Backend.PLUGIN
        found.append(
            Written(
                backend=Request.Backend.PLUGIN,
                kind="Pod",
                text=manifests.as_yaml(snippets.pod(use)),
                used=used,
            )
        )
    return sorted(found, key=lambda one: not one.used)


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
