"""One immutable picture of everything that an allocation looks at."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from portal.dra import features as gates
from portal.dra.features import Features
from portal.dra.holdings import Holdings
from portal.dra.matching import BadExpression, Matcher, Verdict
from portal.dra.model import (
    DeviceClass,
    DeviceClassSpec,
    DeviceTaintRule,
    Node,
    ObjectMeta,
    ResourceClaim,
    ResourceSlice,
)
from portal.dra.pools import NodePool, Pool, PoolDevice, Pools
from portal.dra.taints import TaintRules

T = TypeVar("T")

_MOST_MEMORIES = 32
_MOST_RECALLED = 8


class Match(msgspec.Struct, frozen=True):
    """The verdict of an expression or class about one device."""

    device: PoolDevice
    verdict: Verdict


class UnknownClassError(LookupError):
    """There is no DeviceClass of this name."""


class Fleet:
    """Slices, classes, nodes, held devices and taint rules of one cluster at one moment; treat it as
    immutable.

    It remembers what it found out (verdicts of expressions, views of nodes), so asking again is cheap.
    """

    def __init__(
        self,
        *,
        pools: Pools,
        classes: dict[str, DeviceClass],
        nodes: dict[str, Node],
        holdings: Holdings,
        features: Features,
    ) -> None:
        self._pools = pools
        self._matchers: dict[str, Matcher] = {}
        self._views: dict[str, tuple[NodePool, ...]] = {}
        self._memories: dict[Hashable, Any] = {}
        self._recalled: dict[Hashable, Any] = {}
        self.classes = classes
        self.nodes = nodes
        self.holdings = holdings
        self.features = features

    @classmethod
    def build(
        cls,
        *,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        nodes: Iterable[Node] = (),
        claims: Iterable[ResourceClaim] = (),
        taint_rules: Iterable[DeviceTaintRule] = (),
        features: Features,
    ) -> "Fleet":
        """Claims that carry an allocation hold their devices. Taint rules count only where their gates are
        on.
        """
        return cls(
            pools=Pools(slices, _ruling(taint_rules, features), features),
            classes={item.metadata.name: item for item in classes},
            nodes={item.metadata.name: item for item in nodes},
            holdings=Holdings(claims, features),
            features=features,
        )

    def with_claims(self, claims: Iterable[ResourceClaim]) -> "Fleet":
        """The same fleet with other claims holding devices; what is known about devices stays known."""
        return self._with(Holdings(claims, self.features))

    @property
    def unheld(self) -> "Fleet":
        """The same fleet if nobody held anything. There is one of it, however often claims change, so that
        what it found out stays known."""
        # It keeps nodes and classes alive: no others can have their identity while it is remembered.
        key = ("unheld", id(self.nodes), id(self.classes))
        return self.memory(key, lambda: self.with_claims(()))

    def plus(self, claims: Iterable[ResourceClaim]) -> "Fleet":
        """The same fleet, in which these claims hold devices too."""
        return self._with(Holdings(claims, self.features, before=self.holdings))

    def with_class(self, name: str, spec: DeviceClassSpec | None) -> "Fleet":
        """The same fleet, in which the class has this spec, or is none; what is known about devices stays
        known."""
        other = self._with(self.holdings)
        other.classes = {key: item for key, item in self.classes.items() if key != name}
        if spec is not None:
            known = self.classes.get(name) or DeviceClass(metadata=ObjectMeta(name=name))
            other.classes[name] = structs.replace(known, spec=spec)
        return other

    def under(self, taint_rules: Iterable[DeviceTaintRule]) -> "Fleet":
        """The same fleet under these taint rules instead of its own."""
        return Fleet(
            pools=self._pools.under(_ruling(taint_rules, self.features)),
            classes=self.classes,
            nodes=self.nodes,
            holdings=self.holdings,
            features=self.features,
        )

    def only_node(self, name: str) -> "Fleet":
        """The same fleet as seen from one node; devices elsewhere still count for pools and counters."""
        other = self._with(self.holdings)
        other.nodes = {name: self.node(name)}
        return other

    def only_nodes(self, nodes: dict[str, Node]) -> "Fleet":
        """The same fleet as seen from these nodes alone."""
        other = self._with(self.holdings)
        other.nodes = nodes
        return other

    def _with(self, holdings: Holdings) -> "Fleet":
        other = Fleet(
            pools=self._pools,
            classes=self.classes,
            nodes=self.nodes,
            holdings=holdings,
            features=self.features,
        )
        other._matchers = self._matchers
        other._views = self._views
        other._memories = self._memories
        return other

    @property
    def pools(self) -> tuple[Pool, ...]:
        """All pools in search order, whatever nodes they serve."""
        return self._pools.all

    def node(self, name: str) -> Node:
        """The node; one that is not known has a name and nothing else."""
        return self.nodes.get(name) or Node(metadata=ObjectMeta(name=name))

    def seen_from(self, node: str) -> tuple[NodePool, ...]:
        """The pools that the node can use, in search order; raises ClaimError for a senseless node
        selector.
        """
        known = self._views.get(node)
        if known is None:
            known = self._views[node] = self._pools.seen_from(self.node(node))
        return known

    def devices(self, pool: Pool | None = None) -> Iterator[PoolDevice]:
        """All devices, or those of one pool, in search order."""
        for item in self.pools if pool is None else (pool,):
            yield from self._pools.devices_of(item)

    def matcher(self, expression: str) -> Matcher:
        """The expression with its memory of verdicts."""
        known = self._matchers.get(expression)
        if known is None:
            known = self._matchers[expression] = Matcher(expression, self.features, odd=self._pools.odd)
        return known

    def memory(self, key: Hashable, make: Callable[[], T]) -> T:
        """Something that was found out about devices (not about who holds them) and stays true as long as
        they are the same; few of the latest keys are remembered.
        """
        known = self._memories.get(key)
        if known is None:
            while len(self._memories) >= _MOST_MEMORIES:
                self._memories.pop(next(iter(self._memories)), None)
            known = self._memories[key] = make()
        return known

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Something that was found out about this very fleet, with its nodes and who holds what; few of the
        latest keys are remembered.
        """
        known = self._recalled.get(key)
        if known is None:
            while len(self._recalled) >= _MOST_RECALLED:
                self._recalled.pop(next(iter(self._recalled)), None)
            known = self._recalled[key] = make()
        return known

    def says(self, matcher: Matcher, item: PoolDevice) -> bool:
        """Whether a matcher of this fleet says yes to a device of it."""
        verdicts: dict[int, bool] = self.memory(("says", matcher.expression), dict)
        known = verdicts.get(id(item))
        if known is None:
            known = verdicts[id(item)] = matcher.verdict(item.id[0], item.device).matches
        return known

    def match(self, expression: str) -> Iterator[Match] | BadExpression:
        """The verdict of one expression about every device, or why it does not compile."""
        matcher = self.matcher(expression)
        return matcher.bad or (
            Match(item, matcher.verdict(item.id[0], item.device)) for item in self.devices()
        )

    def match_class(self, name: str) -> Iterator[Match] | BadExpression:
        """The verdict of a DeviceClass about every device: of its first selector that does not say yes.

        Raises UnknownClassError.
        """
        found = self.classes.get(name)
        if found is None:
            raise UnknownClassError(name)
        matchers = [
            self.matcher(item.cel.expression) for item in found.spec.selectors if item.cel is not None
        ]
        for matcher in matchers:
            if matcher.bad is not None:
                return matcher.bad
        return (Match(item, combined(matchers, item)) for item in self.devices())


def combined(matchers: list[Matcher], item: PoolDevice) -> Verdict:
    """The first verdict that is not a plain yes, else yes."""
    for matcher in matchers:
        verdict = matcher.verdict(item.id[0], item.device)
        if not verdict.matches:
            return verdict
    return Verdict(matches=True)


def _ruling(rules: Iterable[DeviceTaintRule], features: Features) -> TaintRules:
    """None where the gates are off."""
    ruled = features.enabled(gates.DEVICE_TAINTS) and features.enabled(gates.DEVICE_TAINT_RULES)
    return TaintRules(rules if ruled else ())
