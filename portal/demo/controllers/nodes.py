"""The node lifecycle controller: what is known about a node's health becomes taints that keep Pods away.

Nodes that nobody reports on turn ``Unknown`` when their lease is not renewed for its duration, measured on
our own clock from when we last saw it change (a cluster that was switched off for a night finds all leases
old). Pods on nodes that are no more are removed.
"""

import asyncio

from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.model import Node, Pod

from .loop import Controller
from .view import Delta, Described, View, decoder
from .world import World, set_condition

MANAGER = "kube-controller-manager"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
CORDONED = "node.kubernetes.io/unschedulable"
OWN_TAINTS = (NOT_READY, UNREACHABLE, CORDONED)
LEASE_NAMESPACE = "kube-node-lease"
SILENCE_SECONDS = 40.0
ORPHAN_SECONDS = 2.0


class NodeHealth(Controller[str]):
    """Keeps the taints of each node in line with its conditions, and notices nodes that fell silent."""

    name = "node-lifecycle"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.leases: View[Described] = View(world.store, "leases", decoder(Described))
        self._heard: dict[str, float] = {}
        self.leases.subscribe(self._lease_changed)
        world.nodes.subscribe(self._node_changed)

    def sync(self, key: str) -> float | None:
        """Judge one node."""
        self.world.nodes.refresh()
        self.leases.refresh()
        node = self.world.nodes.get("", key)
        if node is None:
            return None
        silence = self._silence(key)
        if silence is not None and silence >= SILENCE_SECONDS and _ready_status(node) != "Unknown":
            self._declare_silent(key)
            self.world.nodes.refresh()
            node = self.world.nodes.objects["", key]
        self._taint(node)
        if silence is None:
            return None
        return SILENCE_SECONDS - silence if silence < SILENCE_SECONDS else SILENCE_SECONDS

    def _silence(self, name: str) -> float | None:
        """Seconds since the node's lease was last renewed; None for a node that never had one."""
        heard = self._heard.get(name)
        return None if heard is None else asyncio.get_running_loop().time() - heard

    def _declare_silent(self, name: str) -> None:
        raw, now = self.world.store.get("nodes", name), self.world.stamp()
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        status = raw.setdefault("status", {})
        status["conditions"] = set_condition(status.get("conditions", ()), condition, now=now)
        self.world.store.update_status("nodes", raw, manager=MANAGER)

    def _taint(self, node: Node) -> None:
        wanted = []
        ready = _ready_status(node)
        if ready == "Unknown":
            wanted.append(UNREACHABLE)
        elif ready != "True":
            wanted.append(NOT_READY)
        if node.spec.unschedulable:
            wanted.append(CORDONED)
        raw = self.world.store.get("nodes", node.metadata.name)
        present: list[Object] = raw["spec"].get("taints") or []
        kept = [taint for taint in present if not _is_ours(taint) or taint["key"] in wanted]
        known = {taint["key"] for taint in kept if _is_ours(taint)}
        added = [{"key": key, "effect": "NoSchedule"} for key in wanted if key not in known]
        if added or len(kept) < len(present):
            raw["spec"]["taints"] = [*kept, *added]
            if not raw["spec"]["taints"]:
                del raw["spec"]["taints"]
            self.world.store.update("nodes", raw, manager=MANAGER)

    def _lease_changed(self, delta: Delta[Described]) -> None:
        namespace, name = delta.key
        if namespace != LEASE_NAMESPACE:
            return
        if delta.new is None:
            self._heard.pop(name, None)
            return
        first = name not in self._heard
        self._heard[name] = asyncio.get_running_loop().time()
        if first:
            self.queue.add(name)

    def _node_changed(self, delta: Delta[Node]) -> None:
        if delta.new is not None:
            self.queue.add(delta.key[1])


class OrphanedPods(Controller[Key]):
    """Removes Pods whose node does not exist any more: no kubelet will ever complete them."""

    name = "pod-garbage"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._since: dict[Key, float] = {}
        world.nodes.subscribe(self._node_changed)
        world.pods.subscribe(self._pod_changed)

    def sync(self, key: Key) -> float | None:
        """Look whether the node of one Pod is (still) missing."""
        self.world.pods.refresh()
        self.world.nodes.refresh()
        pod = self.world.pods.objects.get(key)
        if pod is None or not pod.spec.node_name or self.world.nodes.get("", pod.spec.node_name):
            self._since.pop(key, None)
            return None
        now = asyncio.get_running_loop().time()
        wait = self._since.setdefault(key, now) + ORPHAN_SECONDS - now
        if wait > 0:
            return wait
        self.world.delete("pods", key, uid=pod.metadata.uid, grace_period_seconds=0)
        return None

    def _node_changed(self, delta: Delta[Node]) -> None:
        if delta.new is None:
            for key in self.world.pods_on[delta.key[1]]:
                self.queue.add(key)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.new
        if pod is not None and pod.spec.node_name and self.world.nodes.get("", pod.spec.node_name) is None:
            # Perhaps the node only comes to be known a moment after its Pod.
            self.queue.add(delta.key, after=ORPHAN_SECONDS)


def _ready_status(node: Node) -> str:
    return next((item.status for item in node.status.conditions if item.type == "Ready"), "")


def _is_ours(taint: Object) -> bool:
    return taint.get("key") in OWN_TAINTS and taint.get("effect") == "NoSchedule"
