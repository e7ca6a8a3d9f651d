"""What the mirror says of placements now: by which way each is served, how many devices it has and how many
of them a Pod would get.

The numbers are cached under the version of the cluster's mirror: as long as nothing changes there, a page
costs a look into the cache, whatever the size of the fleet. Queries do not grow with the number of
placements.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache

from claims.catalogue.backends import Choice, Rule, Versions, choice_of
from claims.catalogue.placements import selects
from claims.catalogue.stock import FleetOf, Stock, stocks_of
from claims.models import Placement
from inventory import contract
from inventory.coverage import Coverage, coverage_of_all
from inventory.models import Cluster, Device, DeviceProfile, Node
from inventory.snapshot import fleet

# Long enough for a quiet cluster; a version that has passed is never asked for again.
KEEP_SECONDS = 3600


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
        clusters = {pk: c.cluster for pk, c in coverage.items()}
        stocks = stocks_of(missing, choices=choices, clusters=clusters, fleet_of=fleet_of)
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


def _key(placement: Placement, cluster: Cluster) -> str:
    state = (placement.flavor.version, cluster.mirror_version, cluster.server_version)
    return f"claims:place-with-kinds:{placement.pk}:" + ":".join(
        str(part).replace(" ", "_") for part in state
    )


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
