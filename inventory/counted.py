"""What Device Plugins advertise: extended resources of nodes, which are counted but never named.

A plugin tells how many units a node has, not which; so there are no devices to list, hold or bill one by one.
Where a node advertises a plugin's resource *and* a DRA driver of the same vendor publishes its devices, the
same hardware is offered both ways, and two schedulers' books may hand it out twice.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inventory.models import Device, Node, Pod, Stream
from inventory.plugins import vendor_of

FINISHED = ("Succeeded", "Failed")
HEARD = (Stream.State.WATCHING, Stream.State.LISTING)


@dataclass(frozen=True)
class CountedResource:
    """One extended resource of one node. `used` counts what Pods that have not finished ask for."""

    name: str
    vendor: str
    capacity: int
    allocatable: int
    # None where the desk does not see the cluster's Pods: not observed is not zero.
    used: int | None
    # A DRA driver of the same vendor publishes devices of this node, too.
    both_ways: bool

    @property
    def free(self) -> int | None:
        return None if self.used is None else self.allocatable - self.used


def counted_resources(nodes: Collection[Node]) -> Mapping[int, Sequence[CountedResource]]:
    """Extended resources with units, per node (by primary key); three queries for any number of nodes."""
    advertising = [node for node in nodes if any(_units(n) for n in node.capacity.values())]
    if not advertising:
        return {}
    names = [node.name for node in advertising]
    clusters = {node.cluster_id for node in advertising}
    used = _used(clusters, names)
    drivers = _drivers(clusters, names)
    return {node.pk: list(_of_node(node, used, drivers)) for node in advertising}


def _of_node(
    node: Node,
    used: Mapping[int, Mapping[str, Mapping[str, int]]],
    drivers: Mapping[tuple[int, str], Collection[str]],
) -> Iterable[CountedResource]:
    vendors = {vendor_of(driver) for driver in drivers.get((node.cluster_id, node.name), ())} - {""}
    by_node = used.get(node.cluster_id)
    for name in sorted(node.capacity):
        # A plugin that is gone leaves its resource with zero units behind.
        if capacity := _units(node.capacity[name]):
            yield CountedResource(
                name=name,
                vendor=vendor_of(name),
                capacity=capacity,
                allocatable=_units(node.allocatable.get(name, 0)),
                used=None if by_node is None else by_node.get(node.name, {}).get(name, 0),
                both_ways=vendor_of(name) in vendors,
            )


def _used(clusters: Collection[int], names: Collection[str]) -> Mapping[int, Mapping[str, Mapping[str, int]]]:
    """Units that unfinished Pods ask for, by cluster, node and resource; clusters whose Pods the desk does
    not see are absent."""
    seen = Stream.objects.filter(
        cluster__in=clusters, resource="pods", state__in=HEARD, listed_at__isnull=False
    )
    used: dict[int, dict[str, Counter[str]]] = {
        cluster: defaultdict(Counter) for cluster in seen.values_list("cluster_id", flat=True)
    }
    pods = Pod.objects.filter(cluster__in=list(used), node_name__in=names).exclude(phase__in=FINISHED)
    for cluster, node, resources in pods.values_list("cluster_id", "node_name", "extended_resources"):
        for name, count in resources.items():
            used[cluster][node][name] += _units(count)
    return used


def _drivers(clusters: Collection[int], names: Collection[str]) -> Mapping[tuple[int, str], Collection[str]]:
    drivers: dict[tuple[int, str], set[str]] = defaultdict(set)
    devices = Device.objects.filter(cluster__in=clusters, node_name__in=names).order_by()
    for cluster, node, driver in devices.values_list("cluster_id", "node_name", "pool__driver").distinct():
        drivers[cluster, node].add(driver)
    return drivers


def _units(count: object) -> int:
    """Extended resources are whole numbers; anything else is not ours to guess."""
    text = str(count)
    return int(text) if text.isascii() and text.isdigit() else 0
