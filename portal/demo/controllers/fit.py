"""Whether a Pod could be placed on a node, devices aside; reasons in kube-scheduler's words."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache

from portal.dra import nodeselector
from portal.dra.model import Node, NodeSelector, Pod, Taint, Toleration
from portal.dra.quantity import Quantity
from portal.dra.taints import tolerates

from .view import Delta, View
from .world import is_finished

Amounts = Mapping[str, int]
UNSCHEDULABLE = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
CROWDED = "Too many pods"
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@lru_cache(maxsize=4096)
def nanos(quantity: str) -> int:
    """A quantity as a whole number of 1e-9."""
    return Quantity.parse(quantity).nanos


def is_extended(resource: str) -> bool:
    """Whether a resource name is an extended resource's: qualified, and not one of Kubernetes' own."""
    domain, slash, _ = resource.partition("/")
    return (bool(slash) and not domain.endswith("kubernetes.io")) or resource.startswith(IMPLICIT_PREFIX)


IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every DeviceClass can be asked for as an extended resource under this prefix and its name."""


def demand(pod: Pod) -> Mapping[str, int]:
    """What a Pod asks of a node: the sum of its containers, or its greediest init container if that is
    more."""
    total: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in pod.spec.containers:
        total.update(_amounts(container.resources.limits, container.resources.requests))
    for container in pod.spec.init_containers:
        amounts = _amounts(container.resources.limits, container.resources.requests)
        if container.restart_policy == "Always":
            total.update(amounts)
        else:
            peak |= Counter(amounts)
    return dict(total | peak)


def _amounts(*sources: Mapping[str, str | int | float]) -> dict[str, int]:
    """Amounts by resource; later sources win (a request counts, a limit stands in for a missing one)."""
    return {name: nanos(str(value)) for source in sources for name, value in source.items()}


class Usage:
    """What the Pods on each node ask for, kept up to date as Pods come and go."""

    def __init__(self, pods: View[Pod]) -> None:
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        pods.subscribe(self._changed)

    def on(self, node: str) -> Amounts:
        """The sums for one node; ``pods`` is the number of Pods."""
        return self._used.get(node, {})

    def _changed(self, delta: Delta[Pod]) -> None:
        before, after = _taken(delta.old), _taken(delta.new)
        if before == after:
            return
        for taken, sign in ((before, -1), (after, 1)):
            if taken is not None:
                used = self._used[taken[0]]
                for name, amount in taken[1].items():
                    used[name] += sign * amount


def _taken(pod: Pod | None) -> tuple[str, Mapping[str, int]] | None:
    if pod is None or not pod.spec.node_name or is_finished(pod):
        return None
    return pod.spec.node_name, {**demand(pod), "pods": 10**9}


def obstacle(pod: Pod, node: Node) -> str | None:
    """Why a Pod must not go to a node at all, whatever room there is; None if it may."""
    if node.spec.unschedulable and not _tolerated(_CORDON, pod.spec.tolerations):
        return UNSCHEDULABLE
    for taint in node.spec.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, pod.spec.tolerations):
            return UNTOLERATED
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return UNSELECTED
    return None


def shortages(wanted: Amounts, used: Amounts, node: Node) -> list[str]:
    """The resources of which the node has too little left; empty if there is room."""
    allocatable = {name: nanos(str(value)) for name, value in node.status.allocatable.items()}
    found = []
    if allocatable.get("pods", 0) < used.get("pods", 0) + 10**9:
        found.append(CROWDED)
    for name, amount in wanted.items():
        if amount and allocatable.get(name, 0) - used.get(name, 0) < amount:
            found.append(f"Insufficient {name}")
    return found


def load(wanted: Amounts, used: Amounts, node: Node) -> float:
    """How full cpu and memory of a node would be (0 to 1): the emptier, the better."""
    shares = []
    for name in ("cpu", "memory"):
        total = nanos(str(node.status.allocatable.get(name, "0")))
        shares.append((used.get(name, 0) + wanted.get(name, 0)) / total if total else 1.0)
    return sum(shares) / len(shares)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def is_ready(node: Node) -> bool:
    """Whether the node's kubelet says so, and nobody has found it silent."""
    return any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)


def selects(selector: NodeSelector | None, node: Node) -> bool:
    """Whether a node is in the scope of an allocation; no selector means every node."""
    return selector is None or nodeselector.matches(selector, node)
