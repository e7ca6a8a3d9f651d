"""On which nodes devices can be used, and which of those take new Pods."""

from collections.abc import Mapping, Sequence

from portal.dra.batches import Batch
from portal.dra.errors import ClaimError
from portal.dra.model import Node
from portal.dra.outcomes import Reason
from portal.dra.pools import PoolDevice


class Places:
    """On which nodes devices can be used; `open` are those that take new Pods."""

    def __init__(self, nodes: Sequence[Node], closed: Mapping[str, Reason]) -> None:
        self._nodes = nodes
        self.closed = closed
        self._names = {node.metadata.name for node in nodes}
        self._known: dict[int, frozenset[str]] = {}
        self._open: dict[int, frozenset[str]] = {}

    def of(self, batch: Batch) -> frozenset[str]:
        """Names of the nodes that can use the devices."""
        known = self._known.get(batch.origin)
        if known is None:
            name = batch.one.node_name
            if name is not None:
                known = frozenset({name}) & self._names
            else:
                known = frozenset(node.metadata.name for node in self._nodes if _reaches(batch.one, node))
            self._known[batch.origin] = known
        return known

    def open(self, batch: Batch) -> frozenset[str]:
        """Those of them that take new Pods."""
        known = self._open.get(batch.origin)
        if known is None:
            found = self.of(batch)
            known = found if found.isdisjoint(self.closed) else found - self.closed.keys()
            self._open[batch.origin] = known
        return known

    def count(self, some: Sequence[Batch]) -> int:
        """How many nodes can use at least one of the devices."""
        return len(frozenset().union(*map(self.of, some)))


def _reaches(item: PoolDevice, node: Node) -> bool:
    """A node selector without meaning reaches nothing; that it is an error is said elsewhere."""
    try:
        return item.reaches(node)
    except ClaimError:
        return False
