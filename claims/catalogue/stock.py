"""How many devices (or units) placements have, and how many of them a Pod would get now.

Where every device stands for itself, its state in the mirror is the answer: *free* there means that the
scheduler would hand it out to a Pod without tolerations. Where devices are cut from others or shared, or
where a placement tolerates what others do not, the engine is asked.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import Count

from claims.asks.engine import claim_of, node_tolerations
from claims.catalogue.backends import Choice
from claims.catalogue.candidates import candidates_of, candidates_of_units
from claims.catalogue.placements import selects
from claims.models import Placement, Request
from claims.money.expected import Candidate
from claims.requests import manifests
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import ClassProfile, Cluster, CountedUnits, Device, DeviceClass, DeviceProfile, Node
from inventory.products import PARTITION
from portal.dra.availability import unavailable
from portal.dra.cluster import how_many_more
from portal.dra.fleet import Fleet
from portal.dra.model import Toleration
from portal.reasons import in_words

FleetOf = Callable[[Cluster], Fleet]
# Tolerates whatever there is.
EVERYWHERE = (Toleration(operator="Exists"),)
# Devices by (profile, state).
Numbers = Mapping[tuple[int, str], int]


@dataclass(frozen=True, kw_only=True)
class Stock:
    """Devices (or units) of a placement: all, and those that a Pod would get now. None = not known;
    `problem` says why that cannot be told."""

    total: int | None = None
    free: int | None = None
    problem: str = ""
    # What the devices are called, and how much memory each kind has, smallest first.
    products: tuple[str, ...] = ()
    memory: tuple[int, ...] = ()
    # What the prices of one of them may depend on.
    candidates: tuple[Candidate, ...] = ()


def wish_of(
    placement: Placement, *, count: int = 1, min_memory: str = "", memory_domains: tuple[str, ...] = ()
) -> manifests.Wish:
    """What is asked of the cluster for so many devices of the placement, by DRA."""
    return manifests.Wish(
        device_class=placement.device_class,
        count=count,
        min_memory=min_memory,
        selectors=tuple(placement.selectors),
        config=tuple(placement.config),
        memory_domains=memory_domains,
        tolerations=tuple(placement.device_tolerations),
    )


def stocks_of(
    placements: Sequence[Placement],
    *,
    choices: Mapping[int, Choice],
    clusters: Mapping[int, Cluster],
    fleet_of: FleetOf,
) -> Mapping[int, Stock]:
    """The stock of each placement (by primary key), by the way that it is served."""
    nodes = _nodes_of(placements)
    by_dra = [p for p in placements if choices[p.pk].backend == Request.Backend.DRA]
    counted = [p for p in placements if choices[p.pk].backend == Request.Backend.PLUGIN]
    facts = _Facts.load(by_dra, nodes=nodes)
    stocks: dict[int, Stock] = {}
    asked: dict[str, Stock] = {}
    for placement in by_dra:
        # What asks for the same is counted once.
        same = repr(
            (placement.cluster_id, wish_of(placement), placement.node_selector, placement.tolerations)
        )
        if same not in asked:
            asked[same] = _devices(placement, facts, clusters[placement.cluster_id], fleet_of)
        stocks[placement.pk] = asked[same]
    units: dict[tuple[int, str], list[CountedUnits]] = defaultdict(list)
    if counted:
        resources = {placement.extended_resource for placement in counted}
        for row in CountedUnits.objects.filter(cluster__in=clusters, resource__in=resources):
            units[row.cluster_id, row.resource].append(row)
    for placement in counted:
        rows = units[placement.cluster_id, placement.extended_resource]
        here = [row for row in rows if _within(row.node_name, nodes.get(placement.pk))]
        stocks[placement.pk] = _units(placement, here, clusters[placement.cluster_id], fleet_of)
    return stocks


def _nodes_of(placements: Collection[Placement]) -> Mapping[int, set[str]]:
    """Names of the nodes of placements that select some; one query."""
    selecting = [placement for placement in placements if placement.node_selector]
    if not selecting:
        return {}
    found: dict[int, set[str]] = {placement.pk: set() for placement in selecting}
    rows = Node.objects.filter(cluster__in={placement.cluster_id for placement in selecting})
    for cluster, name, labels in rows.values_list("cluster", "name", "labels"):
        for placement in selecting:
            if placement.cluster_id == cluster and selects(placement.node_selector, labels):
                found[placement.pk].add(name)
    return found


def _within(node: str, names: Collection[str] | None) -> bool:
    return names is None or node in names


# --- DRA --------------------------------------------------------------------------------------------


@dataclass
class _Facts:
    """What the mirror has on the placements' classes, loaded at once. Keys are (cluster, class) and (cluster,
    profile)."""

    nodes: Mapping[int, set[str]]
    usable: set[tuple[int, str]]
    kinds: dict[tuple[int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    # Classes that read what only the single device has: their devices.
    single: dict[tuple[int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    profiles: Mapping[int, DeviceProfile] = field(default_factory=dict)
    # (node, state, devices); the node is "" where nobody asks for it.
    counts: dict[tuple[int, int], list[tuple[str, str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def load(cls, placements: Sequence[Placement], *, nodes: Mapping[int, set[str]]) -> "_Facts":
        names = {placement.device_class for placement in placements}
        clusters = {placement.cluster_id for placement in placements}
        usable = DeviceClass.objects.filter(cluster__in=clusters, name__in=names, problem="")
        facts = cls(nodes=nodes, usable=set(usable.values_list("cluster", "name")))
        rows = ClassProfile.objects.filter(device_class__cluster__in=clusters, device_class__name__in=names)
        for cluster, name, profile, device in rows.values_list(
            "device_class__cluster", "device_class__name", "profile", "device"
        ):
            facts.kinds[cluster, name].add(profile)
            if device is not None:
                facts.single[cluster, name].add(device)
        facts.profiles = DeviceProfile.objects.in_bulk({pk for found in facts.kinds.values() for pk in found})
        devices = Device.objects.filter(profile__in=facts.profiles, cluster__in=clusters).order_by()
        if any(placement.node_selector for placement in placements):
            by_node = devices.values_list("cluster", "profile", "node_name", "state").annotate(n=Count("pk"))
            for cluster, profile, node, state, count in by_node:
                facts.counts[cluster, profile].append((node, state, count))
        else:
            whole = devices.values_list("cluster", "profile", "state").annotate(n=Count("pk"))
            for cluster, profile, state, count in whole:
                facts.counts[cluster, profile].append(("", state, count))
        return facts


def _devices(placement: Placement, facts: _Facts, cluster: Cluster, fleet_of: FleetOf) -> Stock:
    key = (cluster.pk, placement.device_class)
    expressions = matching.compile_all(
        placement.selectors, features=features_of(cluster.server_version, served=cluster.served)
    )
    members = [facts.profiles[pk] for pk in facts.kinds[key]]
    numbers, error = _numbers(placement, members, expressions, facts)
    kinds = [facts.profiles[pk] for pk in {pk for (pk, _state), count in numbers.items() if count}]
    stock = Stock(
        total=sum(numbers.values()),
        products=tuple(sorted({profile.product or profile.driver for profile in kinds})),
        memory=tuple(sorted({p.memory_bytes for p in kinds if p.memory_bytes is not None})),
        candidates=candidates_of(kinds, device_class=placement.device_class, cluster=cluster),
    )
    apart = any(profile.kind == PARTITION or profile.allow_multiple_allocations for profile in kinds)
    simple = not (apart or placement.tolerations or placement.device_tolerations)
    if simple and not error and key in facts.usable:
        free = sum(count for (_profile, state), count in numbers.items() if state == Device.State.FREE)
        return replace(stock, free=free)
    cut = any(profile.kind == PARTITION for profile in kinds)
    return _by_engine(placement, fleet_of(cluster), stock, cut=cut)


def _numbers(
    placement: Placement,
    members: Sequence[DeviceProfile],
    expressions: matching.Expressions,
    facts: _Facts,
) -> tuple[Numbers, str]:
    """Devices of the placement by profile and state, and the first error of an expression: by kinds of
    device, unless what decides is on the single device."""
    names = facts.nodes.get(placement.pk)
    single = facts.single.get((placement.cluster_id, placement.device_class))
    found = matching.match(expressions, members, cluster_id=placement.cluster_id, devices=single)
    numbers: Counter[tuple[int, str]] = Counter()
    if single is None and not expressions.reads_identity:
        for pk in found.profiles:
            for node, state, count in facts.counts.get((placement.cluster_id, pk), ()):
                if _within(node, names):
                    numbers[pk, state] += count
        return numbers, found.error
    keys = set(found.devices) if expressions.reads_identity else single
    rows = Device.objects.filter(cluster=placement.cluster_id, profile__in=members)
    for pk, profile, node, state in rows.values_list("pk", "profile", "node_name", "state").iterator():
        matched = expressions.reads_identity or profile in found.profiles
        if matched and (keys is None or pk in keys) and _within(node, names):
            numbers[profile, state] += 1
    return numbers, found.error


def _by_engine(placement: Placement, fleet: Fleet, stock: Stock, *, cut: bool) -> Stock:
    """How many requests for one device would be placed now, one after the other."""
    claim = claim_of(manifests.preview_claim(manifests.claim_spec(wish_of(placement))))
    if cut and stock.total:
        # Partitions are alternatives to each other: in all there are as many as fit at once if nobody held
        # anything and every node took Pods.
        selector = placement.node_selector
        empty = fleet.with_claims(())
        at_once = how_many_more(
            empty, claim, tolerations=EVERYWHERE, node_selector=selector, limit=stock.total
        )
        if at_once.error is None and at_once.count:
            stock = replace(stock, total=at_once.count)
    total = stock.total or 0
    room = how_many_more(
        fleet,
        claim,
        tolerations=node_tolerations(placement.tolerations),
        node_selector=placement.node_selector,
        # A shared device serves many requests; in devices there are never more free than there are.
        limit=total + 1,
    )
    if room.error is not None:
        return replace(stock, problem=in_words(room.error.error))
    if room.count <= total and not room.exact:
        return stock
    return replace(stock, free=min(room.count, total))


# --- Device Plugins ---------------------------------------------------------------------------------


def _units(placement: Placement, rows: Sequence[CountedUnits], cluster: Cluster, fleet_of: FleetOf) -> Stock:
    """Units of a Device Plugin, on nodes that take such Pods."""
    free: int | None = None
    if all(row.used is not None for row in rows):
        if placement.tolerations:
            nodes = fleet_of(cluster).nodes
            tolerations = node_tolerations(placement.tolerations)
            free = sum(
                max(0, row.allocatable - (row.used or 0))
                for row in rows
                if row.node_name in nodes
                and unavailable(nodes[row.node_name], tolerations=tolerations) is None
            )
        else:
            free = sum(row.free for row in rows)
    return Stock(
        total=sum(row.capacity for row in rows),
        free=free,
        products=tuple(sorted({row.product for row in rows})),
        memory=tuple(sorted({row.memory_bytes for row in rows if row.memory_bytes is not None})),
        candidates=candidates_of_units(rows),
    )
