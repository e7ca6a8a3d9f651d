"""The panel's answer for the units of Device Plugins: nodes that take such Pods and have so many left.

Where a class of DRA stands in for the resource (KEP-5004), the scheduler serves nodes without the plugin by a
claim of its own; then the engine answers for these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from claims.asks.engine import node_tolerations
from claims.catalogue.flavored import units_of
from claims.models import Placement
from claims.preview.verdicts import Asked, Verdict, judge
from inventory.models import CountedUnits
from portal.dra.availability import unavailable
from portal.dra.cluster import how_many_more
from portal.dra.extended import claim_for, class_for
from portal.dra.features import EXTENDED_RESOURCE
from portal.dra.fleet import Fleet
from portal.dra.model import Node
from portal.dra.outcomes import Reason
from portal.dra.units import nanos
from portal.reasons import in_words

# More than anybody asks for.
MOST_ROOM = 1_000


@dataclass(frozen=True, kw_only=True)
class Units:
    """The units of a placement, and the claim that would serve where there are none."""

    placement: Placement
    rows: Sequence[CountedUnits]
    fleet: Fleet
    # What is left on each node that takes such Pods.
    left: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, placement: Placement, *, fleet: Fleet) -> "Units":
        """Units as they are now. Every row's use has to be known."""
        rows = units_of(placement)
        tolerations = node_tolerations(placement.tolerations)
        left = {
            row.node_name: max(0, row.allocatable - (row.used or 0))
            for row in rows
            if row.node_name in fleet.nodes
            and unavailable(fleet.nodes[row.node_name], tolerations=tolerations) is None
        }
        return cls(placement=placement, rows=rows, fleet=fleet, left=left)

    def stand_in(self, count: int) -> Asked | None:
        """The claim that the scheduler would make on nodes without the plugin."""
        if not self.fleet.features.enabled(EXTENDED_RESOURCE):
            return None
        found = class_for(self.fleet.classes.values(), self.placement.extended_resource)
        nodes = self._without_plugin()
        if found is None or not nodes:
            return None
        return Asked(
            fleet=self.fleet.only_nodes(nodes),
            claim=claim_for(found, count=count, namespace="default", name="preview"),
            tolerations=node_tolerations(self.placement.tolerations),
            node_selector=dict(self.placement.node_selector),
        )

    def _without_plugin(self) -> dict[str, Node]:
        """The nodes on which no plugin serves the resource."""
        resource = self.placement.extended_resource
        return {
            name: node
            for name, node in self.fleet.nodes.items()
            if not nanos(node.status.allocatable.get(resource, 0))
        }

    def now(self, count: int) -> "UnitsNow":
        """Where a Pod that asks for so many units would be placed now, and how often."""
        nodes = [name for name, free in self.left.items() if free >= count]
        room = sum(free // count for free in self.left.values())
        free, problem = sum(self.left.values()), ""
        asked = self.stand_in(count)
        if asked is not None:
            feasible = asked.feasible()
            if feasible.error is not None:
                problem = in_words(feasible.error.error)
            elif feasible.nodes:
                nodes += feasible.nodes
                room += _room(asked)
                one = self.stand_in(1)
                free += _room(one) if one is not None else 0
        return UnitsNow(nodes=sorted(nodes), room=room, free=free, problem="" if nodes else problem)

    def verdict(self, count: int, now: "UnitsNow", *, can_grow: bool) -> Verdict:
        """What is said of it first."""
        if now.nodes:
            return Verdict.FREE
        if now.problem:
            return Verdict.UNKNOWN
        takes_pods = {name for name in self.left if self._at_all(name) >= count}
        asked = self.stand_in(count)
        by_dra = judge(asked, now=asked.feasible(), can_grow=False) if asked is not None else None
        if takes_pods or by_dra == Verdict.BUSY:
            return Verdict.BUSY
        if can_grow:
            return Verdict.GROW
        if by_dra == Verdict.OUT or any(row.capacity >= count for row in self.rows):
            return Verdict.OUT
        return Verdict.IMPOSSIBLE

    def _at_all(self, node: str) -> int:
        return max((row.allocatable for row in self.rows if row.node_name == node), default=0)

    def reasons(self, count: int) -> list[str]:
        """Why not now: the nodes that take no Pods, and what is left on the others."""
        said = []
        tolerations = node_tolerations(self.placement.tolerations)
        closed: list[Reason] = []
        for row in self.rows:
            node = self.fleet.nodes.get(row.node_name)
            reason = None if node is None else unavailable(node, tolerations=tolerations)
            if reason is not None:
                closed.append(reason)
        most = max(self.left.values(), default=0)
        if self.left or not closed:
            said.append(
                _("No node that takes such Pods has %(count)s units left; the most is %(most)s.")
                % {"count": count, "most": most}
            )
        return [*said, *map(in_words, closed[:3])]


@dataclass(frozen=True, kw_only=True)
class UnitsNow:
    """Nodes that would do, how many such Pods fit, units left in all; or why that cannot be said."""

    nodes: Sequence[str]
    room: int
    free: int
    problem: str = ""


def _room(asked: Asked) -> int:
    return how_many_more(
        asked.fleet,
        asked.claim,
        tolerations=asked.tolerations,
        node_selector=asked.node_selector,
        limit=MOST_ROOM,
    ).count
