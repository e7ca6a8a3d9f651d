"""What the mirror says of placements now: by which way each is served, how many devices it has and how many
of them a Pod would get.

The numbers come from the engine, cached under the version of the cluster's mirror: as long as nothing changes
there, a page costs a look into the cache, whatever the size of the fleet. Queries do not grow with the number
of placements.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.core.cache import cache
from django.db.models import Count

from claims import manifests
from claims.backends import Choice, Rule, Versions, choice_of
from claims.engine import claim_of, node_tolerations
from claims.models import Placement, Request
from claims.placements import selects
from inventory import contract
from inventory.coverage import Coverage, coverage_of_all
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import ClassProfile, Cluster, CountedUnits, Device, DeviceProfile, Node
from inventory.products import PARTITION
from inventory.snapshot import fleet
from portal.dra.availability import unavailable
from portal.dra.cluster import how_many_more
from portal.dra.fleet import Fleet
from portal.dra.model import Toleration
from portal.reasons import in_words

# Long enough for a quiet cluster; a version that has passed is never asked for again.
KEEP_SECONDS = 3600
FleetOf = Callable[[Cluster], Fleet]


@dataclass(frozen=True, kw_only=True)
class Stock:
    """Devices (or units) of a placement: all, and those that a Pod would get now. None = not known;
    `problem` says why the engine cannot tell."""

    total: int | None = None
    free: int | None = None
    problem: str = ""
    # Partitions of one piece of hardware are alternatives: `total` is not the number of what is published.
    alternatives: bool = False
    # What the devices are called, and how much memory each kind has, smallest first.
    products: tuple[str, ...] = ()
    memory: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Place:
    """A placement with what may be said of it now."""

    placement: Placement
    coverage: Coverage
    choice: Choice
    stock: Stock

    @property
    def cluster(self) -> str:
        return self.placement.cluster.name

    @property
    def total(self) -> int | None:
        return self.stock.total

    @property
    def free(self) -> int | None:
        """None while the cluster is not in step: not observed is not zero."""
        return self.stock.free if self.coverage.in_step else None


def choices_of(placements: Collection[Placement]) -> Mapping[int, Choice]:
    """How each placement (by primary key) is served now. A few queries per cluster that has conditions."""
    conditional = [p for p in placements if _both(p) and any(Rule.of(p).conditions)]
    seen = _versions(conditional)
    return {
        placement.pk: choice_of(
            placement, versions=seen.get(placement.pk, {}), served=_served(placement.cluster)
        )
        for placement in placements
    }


def places_of(
    placements: Collection[Placement], *, now: datetime, fleet_of: FleetOf = fleet
) -> Mapping[int, Place]:
    """Each placement (by primary key) with its stock. Placements carry their cluster and flavor."""
    coverage = coverage_of_all(now=now)
    keys = {
        placement.pk: _key(placement, coverage[placement.cluster_id].cluster)
        for placement in placements
        if placement.cluster_id in coverage
    }
    known = cache.get_many(keys.values())
    missing = [p for p in placements if p.pk in keys and keys[p.pk] not in known]
    if missing:
        choices = choices_of(missing)
        stocks = _stocks(missing, choices, {pk: c.cluster for pk, c in coverage.items()}, fleet_of)
        fresh = {keys[p.pk]: (choices[p.pk], stocks[p.pk]) for p in missing}
        cache.set_many(fresh, KEEP_SECONDS)
        known |= fresh
    return {
        placement.pk: Place(
            placement=placement,
            coverage=coverage[placement.cluster_id],
            choice=known[keys[placement.pk]][0],
            stock=known[keys[placement.pk]][1],
        )
        for placement in placements
        if placement.pk in keys
    }


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


def _key(placement: Placement, cluster: Cluster) -> str:
    state = (placement.flavor.version, cluster.mirror_version, cluster.server_version)
    return f"claims:place:{placement.pk}:" + ":".join(str(part).replace(" ", "_") for part in state)


def _both(placement: Placement) -> bool:
    return bool(placement.device_class and placement.extended_resource)


def _served(cluster: Cluster) -> bool:
    # Before the follower has found out what the cluster serves, nothing speaks against DRA.
    return not cluster.served or "resourceclaims" in cluster.served


# --- versions ---------------------------------------------------------------------------------------


def _versions(placements: Collection[Placement]) -> Mapping[int, Versions]:
    """Versions that conditions are about, by placement: of the node pool where there is one."""
    found: dict[int, Versions] = {}
    by_cluster: dict[int, list[Placement]] = defaultdict(list)
    for placement in placements:
        by_cluster[placement.cluster_id].append(placement)
    for rows in by_cluster.values():
        observed = contract.observe(rows[0].cluster)
        whole: dict[str, Sequence[str]] = {part: tuple(seen) for part, seen in observed.items()}
        pools = _pools_of(rows) if any(row.node_selector for row in rows) else {}
        for row in rows:
            found[row.pk] = {**whole, **pools.get(row.pk, {})}
    return found


def _pools_of(placements: Sequence[Placement]) -> Mapping[int, Versions]:
    """Runtimes and drivers of the nodes that each placement selects, in two queries."""
    cluster = placements[0].cluster
    nodes = list(Node.objects.filter(cluster=cluster).values_list("name", "labels", "container_runtime"))
    rows = Device.objects.filter(cluster=cluster).order_by().values_list("node_name", "profile").distinct()
    by_node: dict[str, set[int]] = defaultdict(set)
    for node, profile in rows:
        by_node[node].add(profile)
    kinds = DeviceProfile.objects.in_bulk({pk for profiles in by_node.values() for pk in profiles})
    told: dict[int, Versions] = {}
    for placement in placements:
        if not placement.node_selector:
            continue
        seen: dict[str, set[str]] = defaultdict(set)
        for name, labels, runtime in nodes:
            if not selects(placement.node_selector, labels):
                continue
            if runtime:
                seen[contract.RUNTIME].add(runtime.replace("://", " ", 1))
            for pk in by_node.get(name, ()):
                if version := contract.version_of(kinds[pk].attributes):
                    seen[contract.DRIVER + kinds[pk].driver].add(version)
        # What no node of the pool tells is not observed there, whatever other pools tell.
        parts = {part for part, _range in Rule.of(placement).conditions if part != contract.KUBERNETES}
        told[placement.pk] = {part: tuple(seen.get(part, ())) for part in parts}
    return told


# --- stock ------------------------------------------------------------------------------------------


def _stocks(
    placements: Sequence[Placement],
    choices: Mapping[int, Choice],
    clusters: Mapping[int, Cluster],
    fleet_of: FleetOf,
) -> Mapping[int, Stock]:
    by_dra = [p for p in placements if choices[p.pk].backend == Request.Backend.DRA]
    counted = [p for p in placements if choices[p.pk].backend == Request.Backend.PLUGIN]
    fleets = {pk: fleet_of(clusters[pk]) for pk in {p.cluster_id for p in placements}}
    whole = _all_of(by_dra, clusters, fleets)
    stocks = {
        placement.pk: _free(placement, fleets[placement.cluster_id], whole[placement.pk])
        for placement in by_dra
    }
    units: dict[tuple[int, str], list[CountedUnits]] = defaultdict(list)
    if counted:
        resources = {placement.extended_resource for placement in counted}
        for row in CountedUnits.objects.filter(cluster__in=clusters, resource__in=resources):
            units[row.cluster_id, row.resource].append(row)
    for placement in counted:
        rows = units[placement.cluster_id, placement.extended_resource]
        stocks[placement.pk] = _units(placement, fleets[placement.cluster_id], rows)
    return stocks


def _free(placement: Placement, fleet: Fleet, whole: Stock) -> Stock:
    """How many requests for one device would be placed now, one after the other."""
    claim = claim_of(manifests.preview_claim(manifests.claim_spec(wish_of(placement))))
    if whole.alternatives and whole.total:
        # In all there are as many as fit at once if nobody held anything and every node took Pods.
        everywhere = (Toleration(operator="Exists"),)
        at_once = how_many_more(
            fleet.with_claims(()), claim, tolerations=everywhere, node_selector=placement.node_selector,
            limit=whole.total,
        )  # fmt: skip
        if at_once.error is None and at_once.count:
            whole = replace(whole, total=at_once.count)
    total = whole.total or 0
    room = how_many_more(
        fleet,
        claim,
        tolerations=node_tolerations(placement.tolerations),
        node_selector=placement.node_selector,
        # A shared device serves many requests; in devices there are never more free than there are.
        limit=total + 1,
    )
    if room.error is not None:
        return replace(whole, problem=in_words(room.error.error))
    if room.count <= total and not room.exact:
        return whole
    return replace(whole, free=min(room.count, total))


def _all_of(
    placements: Sequence[Placement], clusters: Mapping[int, Cluster], fleets: Mapping[int, Fleet]
) -> Mapping[int, Stock]:
    """Devices that each placement is about, held or not: by kinds of device, not one by one."""
    names = {placement.device_class for placement in placements}
    rows = ClassProfile.objects.filter(
        device_class__cluster__in={p.cluster_id for p in placements}, device_class__name__in=names
    )
    kinds: dict[tuple[int, str], set[int]] = defaultdict(set)
    single: dict[tuple[int, str], set[int]] = defaultdict(set)
    for pk, name, profile, device in rows.values_list(
        "device_class__cluster", "device_class__name", "profile", "device"
    ):
        kinds[pk, name].add(profile)
        if device is not None:
            single[pk, name].add(device)
    profiles = DeviceProfile.objects.in_bulk({pk for found in kinds.values() for pk in found})
    counts = _counts(profiles, by_node=any(p.node_selector for p in placements))
    found = {}
    for placement in placements:
        cluster = clusters[placement.cluster_id]
        key = (cluster.pk, placement.device_class)
        expressions = matching.compile_all(
            placement.selectors, features=features_of(cluster.server_version, served=cluster.served)
        )
        members = [profiles[pk] for pk in kinds[key]]
        nodes = _nodes_of(placement, fleets[cluster.pk])
        if key in single or expressions.reads_identity:
            numbers = _one_by_one(placement, members, expressions, single.get(key), nodes)
        else:
            matched = matching.match(expressions, members, cluster_id=cluster.pk).profiles
            numbers = {
                pk: sum(n for node, n in counts.get((cluster.pk, pk), ()) if nodes is None or node in nodes)
                for pk in matched
            }
        there = [profiles[pk] for pk, number in numbers.items() if number]
        found[placement.pk] = Stock(
            total=sum(numbers.values()),
            alternatives=any(profile.kind == PARTITION for profile in there),
            products=tuple(sorted({profile.product or profile.driver for profile in there})),
            memory=tuple(sorted({p.memory_bytes for p in there if p.memory_bytes is not None})),
        )
    return found


def _counts(profiles: Iterable[int], *, by_node: bool) -> Mapping[tuple[int, int], Sequence[tuple[str, int]]]:
    """(cluster, profile) → (node, devices); the node is "" where nobody asks for it."""
    devices = Device.objects.filter(profile__in=profiles).order_by()
    counts: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    if by_node:
        rows = devices.values_list("cluster", "profile", "node_name").annotate(n=Count("pk"))
        for cluster, profile, node, count in rows:
            counts[cluster, profile].append((node, count))
    else:
        whole = devices.values_list("cluster", "profile").annotate(n=Count("pk"))
        for cluster, profile, count in whole:
            counts[cluster, profile].append(("", count))
    return counts


def _one_by_one(
    placement: Placement,
    members: Sequence[DeviceProfile],
    expressions: matching.Expressions,
    single: set[int] | None,
    nodes: set[str] | None,
) -> Mapping[int, int]:
    """Devices by profile where what decides is on the single device."""
    found = matching.match(expressions, members, cluster_id=placement.cluster_id, devices=single)
    devices = Device.objects.filter(cluster=placement.cluster_id, profile__in=members)
    keys = set(found.devices) if expressions.reads_identity else single
    rows = devices.values_list("pk", "profile", "node_name")
    return Counter(
        profile
        for pk, profile, node in rows.iterator()
        if (keys is None or pk in keys)
        and (expressions.reads_identity or profile in found.profiles)
        and (nodes is None or node in nodes)
    )


def _nodes_of(placement: Placement, fleet: Fleet) -> set[str] | None:
    """Names of the pool's nodes; None = the whole cluster."""
    if not placement.node_selector:
        return None
    return {
        name for name, node in fleet.nodes.items() if selects(placement.node_selector, node.metadata.labels)
    }


def _units(placement: Placement, fleet: Fleet, rows: Sequence[CountedUnits]) -> Stock:
    """Units of a Device Plugin, on nodes that take such Pods."""
    tolerations = node_tolerations(placement.tolerations)
    nodes = _nodes_of(placement, fleet)
    here = [row for row in rows if nodes is None or row.node_name in nodes]
    free, seen = 0, True
    for row in here:
        node = fleet.nodes.get(row.node_name)
        if row.used is None:
            seen = False
        elif node is not None and unavailable(node, tolerations=tolerations) is None:
            free += max(0, row.allocatable - row.used)
    return Stock(
        total=sum(row.capacity for row in here),
        free=free if seen else None,
        products=tuple(sorted({row.product for row in here})),
        memory=tuple(sorted({row.memory_bytes for row in here if row.memory_bytes is not None})),
    )
