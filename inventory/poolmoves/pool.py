"""A node pool by the labels of its nodes: which nodes are its canary's, and which are as they were."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from inventory.models import Cluster, Node
from inventory.plugins import vendor_of

CANARY, OLD = "canary", "old"


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """What is looked at. `canary_labels` {} = there is no canary; `driver` "" = any driver of the vendor of
    the extended resource."""

    cluster: Cluster
    labels: Mapping[str, str]
    canary_labels: Mapping[str, str]
    extended_resource: str
    device_class: str
    driver: str = ""

    def part_of(self, labels: Mapping[str, str]) -> str:
        """CANARY or OLD for a node with these labels; "" = it is not of the pool."""
        if self.canary_labels and _has(labels, self.canary_labels):
            return CANARY
        return OLD if _has(labels, self.labels) else ""

    def is_its_driver(self, driver: str) -> bool:
        """Whether devices of a driver are the pool's."""
        if self.driver:
            return driver == self.driver
        return bool(vendor := vendor_of(self.extended_resource)) and vendor_of(driver) == vendor


@dataclass(frozen=True)
class Members:
    """The nodes of a pool by name, in order; each with CANARY or OLD."""

    parts: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def of(self, part: str) -> list[str]:
        return [name for name, of_node in self.parts.items() if of_node == part]

    @property
    def canary(self) -> list[str]:
        return self.of(CANARY)

    @property
    def old(self) -> list[str]:
        return self.of(OLD)


def nodes_of(cluster: Cluster) -> list[Node]:
    """All nodes of a cluster by name; one query."""
    return list(Node.objects.filter(cluster=cluster).order_by("name"))


def members_of(pool: NodePool, nodes: Iterable[Node]) -> Members:
    """Those of the cluster's nodes that are of the pool."""
    found = {node.name: (pool.part_of(node.labels), node) for node in nodes}
    return Members(
        parts={name: part for name, (part, _node) in found.items() if part},
        nodes={name: node for name, (part, node) in found.items() if part},
    )


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())
