"""The scheduler: takes the Pods that have no node one by one, and writes down what was decided for them.

The writes come in kube-scheduler's order: finalizer, allocation and reservation of each claim, then the node
of the Pod. Each is kept before the next begins; after a crash in between, the next attempt finds what was
written and goes on from there.
"""

from portal.demo.errors import ApiError
from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.features import Features
from portal.dra.model import AllocationResult, Node, Pod, ResourceClaim, encode

from .claims import FINALIZER, claim_names
from .extended import claim_for, claim_status
from .loop import Controller
from .placing import Placement, Placer, Unplaceable
from .series import SeriesRecorder
from .view import Delta
from .world import World, is_finished, set_condition

COMPONENT = "default-scheduler"
FIRST_BACKOFF = 0.25
LAST_BACKOFF = 5.0
# Pods that nothing has happened for are tried again all the same, as kube-scheduler does every five minutes.
LONGEST_REST = 60.0


class Scheduler(Controller[Key]):
    """Places Pods of the default scheduler, one at a time."""

    name = "scheduler"

    def __init__(self, world: World, features: Features) -> None:
        super().__init__()
        self.world = world
        self.placer = Placer(world, features)
        self.events = SeriesRecorder(world, COMPONENT)
        self._attempts: dict[Key, int] = {}
        self._pending: set[Key] = set()
        world.pods.subscribe(self._pod_changed)
        world.claims.subscribe(self._claim_changed)
        world.nodes.subscribe(self._node_changed)
        for view in (world.slices, world.classes, world.taint_rules):
            view.subscribe(self._something_changed)

    # What wakes the scheduler

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.new is not None and _wants_node(delta.new):
            self._pending.add(delta.key)
            if delta.old is None or not _wants_node(delta.old) or _asks_more(delta.old, delta.new):
                self._attempts.pop(delta.key, None)
                self.queue.add(delta.key)
            return
        self._pending.discard(delta.key)
        self._attempts.pop(delta.key, None)
        held_before = delta.old is not None and bool(delta.old.spec.node_name) and not is_finished(delta.old)
        if held_before and (delta.new is None or is_finished(delta.new)):
            self._something_changed(delta)

    def _claim_changed(self, delta: Delta[ResourceClaim]) -> None:
        if delta.new is None or delta.old is None:
            self._something_changed(delta)
        elif delta.old.status != delta.new.status:
            freed = len(delta.new.status.reserved_for) < len(delta.old.status.reserved_for)
            if freed or delta.new.status.allocation is None:
                self._something_changed(delta)

    def _node_changed(self, delta: Delta[Node]) -> None:
        if delta.old is None or delta.new is None or _placing_facts(delta.old) != _placing_facts(delta.new):
            self._something_changed(delta)

    def _something_changed(self, _delta: object) -> None:
        """Pods that wait are worth a new attempt, those that were tried often a little later."""
        for key in self._pending:
            attempts = self._attempts.get(key, 0)
            after = min(FIRST_BACKOFF * 2.0 ** (attempts - 1), LAST_BACKOFF) if attempts else 0.0
            self.queue.add(key, after=after)

    # One Pod

    def sync(self, key: Key) -> float | None:
        """Place one Pod, or say why that is not possible."""
        self.world.refresh()
        pod = self.world.pods.objects.get(key)
        if pod is None or not _wants_node(pod):
            return None
        raw = self.world.store.get("pods", key[1], namespace=key[0])
        if raw["spec"].get("schedulingGates"):
            return None
        self._attempts[key] = min(self._attempts.get(key, 0) + 1, 10)
        try:
            placement = self.placer.place(pod)
            self._write(pod, raw, placement)
        except Unplaceable as problem:
            self._report(raw, str(problem), reason=problem.reason)
            return LONGEST_REST
        except ApiError as error:
            self._report(raw, f"running Bind plugin: {error.message}", reason="SchedulerError")
            raise
        return None

    # Writing

    def _write(self, pod: Pod, raw: Object, placement: Placement) -> None:
        store = self.world.store
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if placement.wishes:
            self._serve_wishes(pod, raw, placement)
        for claim_name in dict.fromkeys(claim_names(pod).values()):
            if claim_name is not None:
                self._reserve(pod, claim_name, placement.allocations.get((namespace, claim_name)))
        store.bind(name, placement.node, namespace=namespace, manager=COMPONENT)
        self.events.record(
            raw,
            kind="Pod",
            reason="Scheduled",
            action="Binding",
            message=f"Successfully assigned {namespace}/{name} to {placement.node}",
        )

    def _reserve(self, pod: Pod, claim_name: str, allocation: AllocationResult | None) -> None:
        store = self.world.store
        claim = store.get("resourceclaims", claim_name, namespace=pod.metadata.namespace)
        finalizers = claim["metadata"].setdefault("finalizers", [])
        if allocation is not None and FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
            claim = store.update("resourceclaims", claim, manager=COMPONENT)
        status = claim.setdefault("status", {})
        if allocation is not None:
            status["allocation"] = {**encode(allocation), "allocationTimestamp": self.world.stamp()}
        reserved = status.setdefault("reservedFor", [])
        if all(entry.get("uid") != pod.metadata.uid for entry in reserved):
            reserved.append({"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid})
        store.update_status("resourceclaims", claim, manager=COMPONENT)

    def _serve_wishes(self, pod: Pod, raw: Object, placement: Placement) -> None:
        """The claim for the Pod's extended resources, made and filled unless an earlier attempt got that
        far."""
        store, namespace = self.world.store, pod.metadata.namespace
        made = self.placer.claim_made_for(pod)
        if placement.wished is not None:
            if made is not None:
                # A crash ended that attempt; the claim may have been made for another kind of node.
                self.world.delete("resourceclaims", made.key, uid=made.metadata.uid)
            claim = claim_for(raw, placement.wishes)
            created = store.create("resourceclaims", claim, namespace=namespace, manager=COMPONENT)
            claim_name = str(created["metadata"]["name"])
            self._reserve(pod, claim_name, placement.wished)
        else:
            claim_name = made.metadata.name if made is not None else ""
        fresh = store.get("pods", pod.metadata.name, namespace=namespace)
        fresh.setdefault("status", {})["extendedResourceClaimStatus"] = claim_status(
            claim_name, placement.wishes
        )
        store.update_status("pods", fresh, manager=COMPONENT)

    def _report(self, raw: Object, message: str, *, reason: str) -> None:
        """Leave word at the Pod: a condition and an Event."""
        world, metadata = self.world, raw["metadata"]
        fresh = world.store.find("pods", metadata["name"], namespace=metadata["namespace"])
        if fresh is None or fresh["metadata"]["uid"] != metadata["uid"]:
            return
        status = fresh.setdefault("status", {})
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
        }
        conditions = set_condition(status.get("conditions", ()), condition, now=world.stamp())
        if conditions != status.get("conditions"):
            status["conditions"] = conditions
            world.store.update_status("pods", fresh, manager=COMPONENT)
        self.events.record(
            fresh,
            kind="Pod",
            reason="FailedScheduling",
            action="Scheduling",
            message=message,
            warning=True,
        )


def _wants_node(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.metadata.deletion_timestamp
        and not is_finished(pod)
        and pod.spec.scheduler_name in ("", COMPONENT)
    )


def _asks_more(old: Pod, new: Pod) -> bool:
    """Whether something that matters for placing changed (and not only what the scheduler itself wrote)."""
    return old.spec != new.spec or old.status.resource_claim_statuses != new.status.resource_claim_statuses


def _placing_facts(node: Node) -> tuple[object, ...]:
    return node.spec, node.metadata.labels, node.status.allocatable
