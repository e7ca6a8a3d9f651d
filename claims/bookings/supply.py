"""What there is to book on a cluster: devices by the targets that would take them, who holds them until when,
and what is planned already.

Counted is what is usable now: free, or held by a request whose end is known. What is held by work whose end
nobody knows (Pods past their time, claims that the desk did not make) counts as there, and is told. Devices
that are cut from others or shared are counted by the engine, each target for itself.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.core.cache import cache
from django.db.models import Count

from claims.bookings.room import Fleet, Group, Hold, Use
from claims.catalogue.flavored import node_names
from claims.catalogue.places import places_of
from claims.catalogue.stock import FleetOf
from claims.models import Booking, Placement, Request, RequestClaim
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import ClaimDevice, ClassProfile, Cluster, Device, DeviceProfile, Node
from inventory.products import PARTITION
from inventory.snapshot import fleet
from portal.dra.quantity import Quantity

KEEP_SECONDS = 600

# Requests that are about to take devices, or wait for some.
_COMING = (
    Request.State.SUBMITTED,
    Request.State.APPROVED,
    Request.State.CREATING,
    Request.State.WAITING_FOR_POD,
    Request.State.WAITING_FOR_DEVICE,
)
_USABLE = (Device.State.FREE, Device.State.PARTLY, Device.State.HELD)

# (profile, node, device or 0): what decides which targets take a device.
Kind = tuple[int, str, int]


@dataclass(frozen=True)
class Target:
    """What is booked or asked for: a flavor's placement (or a class, as one that is not stored), and the
    least memory of each device ("" = any)."""

    placement: Placement
    min_memory: str = ""

    @property
    def key(self) -> str:
        """The same for what takes the same devices."""
        placed = self.placement
        parts: tuple[Any, ...] = (
            *(placed.device_class, placed.selectors, sorted(placed.node_selector.items())),
            *(placed.tolerations, placed.device_tolerations, self.min_memory),
        )
        return repr(parts)


@dataclass(frozen=True, kw_only=True)
class Supply:
    """What can be booked of the first of some targets on a cluster."""

    fleet: Fleet
    # Devices of the first target that are usable now, and the most of them on one node.
    usable: int
    on_one_node: int
    # Those of them that are held by work whose end nobody knows.
    endless: int


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """Facts of the mirror alone, which stay true as long as its version does."""

    usable: Mapping[Group, int]
    # Devices of each group by the uid of the claim that holds them.
    held: Sequence[tuple[Group, str, int]]
    total: int
    on_one_node: int


def supply(
    *,
    target: Target,
    now: datetime,
    start: datetime,
    end: datetime,
    without: Booking | None = None,
    replaced: Request | None = None,
    only_kept: bool = False,
    fleet_of: FleetOf = fleet,
) -> Supply:
    """What is usable of `target`, and all that is planned in [start, end) on its cluster, `without` one
    booking, and as if `replaced` held nothing and waited for nothing. `only_kept` leaves out bookings that
    flavors do not keep."""
    cluster = target.placement.cluster
    bookings = Booking.objects.filter(cluster=cluster).planned().within(start, end)
    if without is not None:
        bookings = bookings.exclude(pk=without.pk)
    if only_kept:
        bookings = bookings.filter(flavor__bookings_kept=True)
    rows = list(bookings.select_related("flavor").order_by("pk"))
    targets, places = _targets(target, rows)
    uses = [
        Use(target=places[row.pk], count=row.count, start=row.starts_at, end=row.ends_at)
        for row in rows
        if row.pk in places
    ]
    counted = _counted(targets, now=now, fleet_of=fleet_of)
    own = _claims_made_by(replaced)
    held = [row for row in counted.held if row[1] not in own]
    ends = _ends(cluster, {uid for _group, uid, _count in held}, now=now)
    holds = [
        Hold(group=group, count=count, until=until)
        for group, uid, count in held
        if (until := ends.get(uid)) is not None
    ]
    endless = sum(count for group, uid, count in held if 0 in group and uid not in ends)
    uses += _coming(target, now=now, besides=replaced)
    return Supply(
        fleet=Fleet(usable=counted.usable, holds=holds, uses=uses),
        usable=counted.total,
        on_one_node=counted.on_one_node,
        endless=endless,
    )


def placement_of(booking: Booking) -> Placement | None:
    """Where the booking is served now; None = the flavor is no longer served there."""
    rows = Placement.objects.filter(flavor=booking.flavor, cluster=booking.cluster, pool=booking.pool)
    return rows.select_related("flavor", "cluster").first()


def _targets(first: Target, bookings: Sequence[Booking]) -> tuple[list[Target], dict[int, int]]:
    """The distinct targets of these bookings, `first` at position 0; and each booking's position."""
    targets, by_key = [first], {first.key: 0}
    wanted = {booking.flavor_id for booking in bookings}
    rows = Placement.objects.filter(flavor__in=wanted, cluster=first.placement.cluster)
    placed = {(row.flavor_id, row.pool): row for row in rows.select_related("flavor", "cluster")}
    places: dict[int, int] = {}
    for booking in bookings:
        placement = placed.get((booking.flavor_id, booking.pool))
        if placement is None or not placement.device_class:
            continue
        target = Target(placement, booking.min_memory)
        if target.key not in by_key:
            by_key[target.key] = len(targets)
            targets.append(target)
        places[booking.pk] = by_key[target.key]
    return targets, places


# --- the mirror -------------------------------------------------------------------------------------


@dataclass
class _Members:
    """The devices of one target."""

    profiles: dict[int, DeviceProfile] = field(default_factory=dict)
    # Devices that decide one by one; None = every device of the profiles.
    single: set[int] | None = None
    nodes: set[str] | None = None

    def take(self, kind: Kind) -> bool:
        profile, node, device = kind
        if profile not in self.profiles or (self.nodes is not None and node not in self.nodes):
            return False
        return self.single is None or device in self.single

    @property
    def apart(self) -> bool:
        """Cut from others, or shared: the devices do not add up."""
        found = self.profiles.values()
        return any(one.kind == PARTITION or one.allow_multiple_allocations for one in found)


def _counted(targets: Sequence[Target], *, now: datetime, fleet_of: FleetOf) -> _Counted:
    cluster = targets[0].placement.cluster
    version = Cluster.objects.values_list("mirror_version", "server_version").get(pk=cluster.pk)
    flavors = [target.placement.flavor.version if target.placement.pk else 0 for target in targets]
    seen = repr((cluster.pk, version, flavors, [target.key for target in targets]))
    key = f"claims:bookable:{sha256(seen.encode()).hexdigest()}"
    known: _Counted | None = cache.get(key)
    if known is None:
        known = _count(targets, now=now, fleet_of=fleet_of)
        cache.set(key, known, KEEP_SECONDS)
    return known


def _count(targets: Sequence[Target], *, now: datetime, fleet_of: FleetOf) -> _Counted:
    cluster = targets[0].placement.cluster
    members = [_members(target) for target in targets]
    whole = [place for place, one in enumerate(members) if not one.apart]
    single = any(members[place].single is not None for place in whole)
    columns = ["profile", "node_name", *(["pk"] if single else [])]
    profiles = {pk for place in whole for pk in members[place].profiles}
    devices = Device.objects.filter(cluster=cluster, profile__in=profiles, state__in=_USABLE)
    counts: Counter[Kind] = Counter()
    away = _away(cluster)
    for *found, count in devices.order_by().values_list(*columns).annotate(n=Count("pk")):
        if found[1] not in away:
            counts[_kind(found)] += count
    usable: Counter[Group] = Counter()
    on_node: Counter[str] = Counter()
    for kind, count in counts.items():
        takers = frozenset(place for place in whole if members[place].take(kind))
        if takers:
            usable[takers] += count
        if 0 in takers:
            on_node[kind[1]] += count
    held = _held(cluster, members, whole, single=single, away=away)
    most = max(on_node.values(), default=0)
    for place, target in enumerate(targets):
        extra, more = _by_engine(place, target, members[place], now=now, fleet_of=fleet_of)
        if extra:
            usable[frozenset({place})] += extra
        held += more
        if place == 0 and extra:
            # Where they are the engine does not say.
            most += extra
    total = sum(count for group, count in usable.items() if 0 in group)
    return _Counted(usable=dict(usable), held=held, total=total, on_one_node=most)


def _members(target: Target) -> _Members:
    placement = target.placement
    cluster = placement.cluster
    rows = ClassProfile.objects.filter(
        device_class__cluster=cluster, device_class__name=placement.device_class
    ).values_list("profile", "device")
    found = list(rows)
    profiles = DeviceProfile.objects.in_bulk({profile for profile, _device in found})
    if target.min_memory:
        least = Quantity.parse(target.min_memory)
        profiles = {
            pk: profile
            for pk, profile in profiles.items()
            if profile.memory_bytes is not None and Quantity.from_int(profile.memory_bytes) >= least
        }
    single = {device for _profile, device in found if device is not None} or None
    features = features_of(cluster.server_version, served=cluster.served)
    expressions = matching.compile_all(placement.selectors, features=features)
    matched = matching.match(expressions, profiles.values(), cluster_id=cluster.pk, devices=single)
    if expressions.reads_identity:
        single = set(matched.devices)
    else:
        profiles = {pk: profile for pk, profile in profiles.items() if pk in matched.profiles}
    names = node_names(placement)
    return _Members(profiles=profiles, single=single, nodes=None if names is None else set(names))


def _away(cluster: Cluster) -> set[str]:
    """Nodes that take no Pods now: what is held there is gone once it is released."""
    rows = Node.objects.filter(cluster=cluster)
    return set((rows.filter(ready=False) | rows.filter(unschedulable=True)).values_list("name", flat=True))


def _kind(columns: Sequence[Any]) -> Kind:
    profile, node, *device = columns
    return (profile, node, device[0] if device else 0)


def _held(
    cluster: Cluster, members: Sequence[_Members], whole: Sequence[int], *, single: bool, away: set[str]
) -> list[tuple[Group, str, int]]:
    """Devices by group and by the claim that holds them."""
    profiles = {pk for place in whole for pk in members[place].profiles}
    rows = ClaimDevice.objects.filter(
        claim__cluster=cluster, device__profile__in=profiles, admin_access=False
    )
    columns = ["device__profile", "device__node_name", *(["device"] if single else []), "claim__uid"]
    found: Counter[tuple[Group, str]] = Counter()
    for *kind, uid, count in rows.order_by().values_list(*columns).annotate(n=Count("device", distinct=True)):
        if kind[1] in away:
            continue
        takers = frozenset(place for place in whole if members[place].take(_kind(kind)))
        if takers:
            found[takers, uid] += count
    return [(group, uid, count) for (group, uid), count in found.items()]


def _by_engine(
    place: int, target: Target, members: _Members, *, now: datetime, fleet_of: FleetOf
) -> tuple[int, list[tuple[Group, str, int]]]:
    """What the states of devices do not tell: how many partitions fit at once, and what a target that
    tolerates more than others gets besides."""
    placement = target.placement
    tolerant = bool(placement.tolerations or placement.device_tolerations)
    if not (members.apart or tolerant) or placement.pk is None:
        return 0, []
    found = places_of([placement], now=now, fleet_of=fleet_of).get(placement.pk)
    if found is None or found.stock.total is None:
        return 0, []
    free = found.stock.free
    if members.apart:
        gone = found.stock.total - free if free is not None else 0
        group = frozenset({place})
        claims = _claims_of(placement.cluster, members)
        known = min(gone, sum(claims.values()))
        held = [(group, uid, count) for uid, count in claims.items()]
        # Other cuts of the same devices are in the way, too, until nobody knows when.
        return found.stock.total, [*held, *([(group, "", gone - known)] if gone > known else [])]
    rows = Device.objects.filter(cluster=placement.cluster, profile__in=members.profiles)
    free_for_all = sum(
        count
        for *kind, count in rows.filter(state=Device.State.FREE)
        .order_by()
        .values_list("profile", "node_name", "pk")
        .annotate(n=Count("pk"))
        if members.take(_kind(kind))
    )
    return max(0, (free or 0) - free_for_all), []


def _claims_of(cluster: Cluster, members: _Members) -> Mapping[str, int]:
    rows = ClaimDevice.objects.filter(
        claim__cluster=cluster, device__profile__in=members.profiles, admin_access=False
    )
    held: dict[str, int] = defaultdict(int)
    counted = rows.order_by().values_list("claim__uid", "device__node_name")
    for uid, node, count in counted.annotate(n=Count("device", distinct=True)):
        if members.nodes is None or node in members.nodes:
            held[uid] += count
    return held


# --- requests ---------------------------------------------------------------------------------------


def _ends(cluster: Cluster, uids: set[str], *, now: datetime) -> dict[str, datetime]:
    """When claims of the desk will be released, by uid; those that are past their time left out."""
    if not uids:
        return {}
    rows = RequestClaim.objects.filter(cluster=cluster, request__expires_at__gt=now)
    rows = rows.exclude(request__state=Request.State.ENDING)
    ends = rows.values_list("claim_uid", "request__expires_at")
    return {uid: until for uid, until in ends.iterator() if uid in uids and until is not None}


def _claims_made_by(request: Request | None) -> set[str]:
    if request is None:
        return set()
    return set(RequestClaim.objects.filter(request=request).values_list("claim_uid", flat=True))


def _coming(target: Target, *, now: datetime, besides: Request | None = None) -> list[Use]:
    """Requests for the same flavor there that will take devices as soon as they can."""
    placement = target.placement
    if placement.pk is None:
        return []
    rows = Request.objects.filter(
        cluster=placement.cluster, flavor=placement.flavor, pool=placement.pool, allocated_at=None,
        state__in=_COMING,
    )  # fmt: skip
    if besides is not None:
        rows = rows.exclude(pk=besides.pk)
    waiting = rows.filter(hold_wanted=True) | rows.filter(state=Request.State.WAITING_FOR_DEVICE)
    return [
        Use(target=0, count=count, start=now, end=ends_by or now + duration, booked=False)
        for count, duration, ends_by in waiting.values_list("count", "duration", "ends_by")
        if ends_by is None or ends_by > now
    ]
