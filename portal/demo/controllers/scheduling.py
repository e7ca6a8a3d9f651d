"""The scheduler: picks a node for each Pod, has its devices chosen by ``portal.dra``, and writes all of it
down.

For one Pod the steps are kube-scheduler's: look up its claims, sort nodes out, allocate on those that are
left (the emptiest first), write finalizer, allocation and reservation of each claim, then bind. Each write
is kept before the next begins; after a crash in between, the next attempt finds what was written and goes on
from there.
"""

import heapq
import logging
from collections import Counter
from dataclasses import dataclass, field

from portal.demo.errors import ApiError
from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.allocator import allocate
from portal.dra.features import Features
from portal.dra.fleet import Fleet
from portal.dra.model import AllocationResult, Node, Pod, ResourceClaim, decode_object, encode
from portal.dra.outcomes import Allocated, Failed, Outcome, Undecided

from . import extended
from .claims import EXTENDED_RESOURCE_CLAIM, FINALIZER, claim_names
from .fit import Usage, demand, load, obstacle, selects, shortages
from .loop import Controller
from .view import Delta, Index
from .world import World, controller_of, is_finished, set_condition

COMPONENT = "default-scheduler"
CANNOT_ALLOCATE = "cannot allocate all claims"
MAX_CONSUMERS = 256
FIRST_BACKOFF = 0.25
LAST_BACKOFF = 5.0
# Pods that nothing has happened for are tried again all the same, as kube-scheduler does every five minutes.
LONGEST_REST = 60.0
log = logging.getLogger(__name__)


class Unplaceable(Exception):
    """A Pod cannot be placed now; the message is the one people read in its condition and events."""

    def __init__(self, message: str, *, reason: str = "Unschedulable") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a Pod goes and what its claims get there."""

    node: str
    allocations: dict[Key, AllocationResult] = field(default_factory=dict)
    # Extended resources that a claim made by the scheduler has to cover, and what that claim gets.
    wishes: list[extended.Wish] = field(default_factory=list)
    wished: AllocationResult | None = None


class Scheduler(Controller[Key]):
    """Places Pods of the default scheduler, one at a time."""

    name = "scheduler"

    def __init__(self, world: World, features: Features) -> None:
        super().__init__()
        self.world = world
        self.features = features
        self.usage = Usage(world.pods)
        self._attempts: dict[Key, int] = {}
        self._pending: set[Key] = set()
        self._by_owner = Index(
            world.claims, lambda claim: [item.uid for item in claim.metadata.owner_references]
        )
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
            placement = self._place(pod)
            self._write(pod, raw, placement)
        except Unplaceable as problem:
            self._report(raw, str(problem), reason=problem.reason)
            return LONGEST_REST
        except ApiError as error:
            self._report(raw, f"running Bind plugin: {error.message}", reason="SchedulerError")
            raise
        return None

    def _place(self, pod: Pod) -> Placement:
        claims = self._claims_of(pod)
        pending = [claim for claim in claims if claim.status.allocation is None]
        settled = [claim for claim in claims if claim.status.allocation is not None]
        asked, made = self._extended_resources(pod)
        if made is not None and made.status.allocation is not None:
            settled.append(made)
        nodes = self.world.nodes.objects.values()
        refusals: Counter[str] = Counter()
        candidates: list[tuple[float, str, list[extended.Wish]]] = []
        for node in nodes:
            name = node.metadata.name
            wanted, wishes = self._share_out(pod, node, asked)
            reasons = self._why_not(pod, node, wanted, settled)
            if reasons:
                refusals.update(reasons)
            else:
                heapq.heappush(candidates, (load(wanted, self.usage.on(name), node), name, wishes))
        fleet = self._fleet() if pending or asked else None
        while candidates:
            _, name, wishes = heapq.heappop(candidates)
            if made is not None and made.status.allocation is not None:
                wishes = []
            if fleet is None or not (pending or wishes):
                return Placement(node=name)
            extra = [self._wished_claim(pod, wishes)] if wishes else []
            outcome = allocate(fleet, node=name, claims=[*pending, *extra])
            if isinstance(outcome, Allocated):
                results = list(outcome.claims)
                return Placement(
                    node=name,
                    allocations={claim.key: result for claim, result in zip(pending, results, strict=False)},
                    wishes=wishes,
                    wished=results[-1] if wishes else None,
                )
            refusals[_refusal(outcome)] += 1
        raise Unplaceable(_no_node(len(nodes), refusals, uses_devices=bool(pod.spec.resource_claims)))

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        namespace = pod.metadata.namespace
        found = []
        for name, claim_name in claim_names(pod).items():
            if claim_name is None:
                who = f'pod "{namespace}/{pod.metadata.name}"'
                raise self._for_all_nodes(f"{who}: pod claim {name}: ResourceClaim not created yet")
            claim = self.world.claims.get(namespace, claim_name)
            if claim is None:
                raise self._for_all_nodes(f'resourceclaim.resource.k8s.io "{claim_name}" not found')
            if claim.metadata.deletion_timestamp:
                raise self._for_all_nodes(f'resourceclaim "{claim_name}" is being deleted')
            self._check_owner(pod, name, claim)
            reserved = {entry.uid for entry in claim.status.reserved_for}
            if pod.metadata.uid not in reserved and len(reserved) >= MAX_CONSUMERS:
                raise self._for_all_nodes("resourceclaim in use")
            if claim.status.allocation is None:
                self._check_classes(claim)
            if claim not in found:
                found.append(claim)
        return found

    def _check_owner(self, pod: Pod, name: str, claim: ResourceClaim) -> None:
        """A claim that was generated is for the Pod that it was generated for."""
        entry = next(item for item in pod.spec.resource_claims if item.name == name)
        owner = controller_of(claim.metadata)
        if entry.resource_claim_template_name and (owner is None or owner.uid != pod.metadata.uid):
            who = f"{pod.metadata.namespace}/{pod.metadata.name}"
            claim_name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            raise self._for_all_nodes(
                f"ResourceClaim {claim_name} was not created for pod {who} (pod is not owner)"
            )

    def _check_classes(self, claim: ResourceClaim) -> None:
        for request in claim.spec.devices.requests:
            named = [(request.name, request.exactly.device_class_name)] if request.exactly else []
            named += [
                (f"{request.name}/{sub.name}", sub.device_class_name) for sub in request.first_available
            ]
            for name, class_name in named:
                if self.world.classes.get("", class_name) is None:
                    raise self._for_all_nodes(f"request {name}: device class {class_name} does not exist")

    def _for_all_nodes(self, message: str) -> Unplaceable:
        """A reason that does not depend on the node."""
        total = len(self.world.nodes.objects)
        helpless = (
            f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
        )
        return Unplaceable(f"0/{total} nodes are available: {message}. {helpless}")

    def _why_not(
        self, pod: Pod, node: Node, wanted: dict[str, int], settled: list[ResourceClaim]
    ) -> list[str]:
        if reason := obstacle(pod, node):
            return [reason]
        if short := shortages(wanted, self.usage.on(node.metadata.name), node):
            return short
        for claim in settled:
            if claim.status.allocation and not selects(claim.status.allocation.node_selector, node):
                return ["resourceclaim not available on the node"]
        return []

    # Extended resources

    def _extended_resources(self, pod: Pod) -> tuple[list[extended.Wish], ResourceClaim | None]:
        """What classes could serve of the Pod's extended resources, and the claim of an earlier attempt, if
        any."""
        if not self.features.enabled("DRAExtendedResource"):
            return [], None
        asked = extended.wishes(pod, self._served())
        if not asked:
            return [], None
        for key in self._by_owner[pod.metadata.uid]:
            claim = self.world.claims.objects[key]
            if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
                return asked, claim
        return asked, None

    def _served(self) -> dict[str, str]:
        return extended.classes_by_resource(self.world.classes.objects)

    @staticmethod
    def _share_out(
        pod: Pod, node: Node, asked: list[extended.Wish]
    ) -> tuple[dict[str, int], list[extended.Wish]]:
        """What the node itself must have, and what is left for devices there."""
        wishes = extended.left_to_dra(asked, node)
        by_device = {wish.resource for wish in wishes}
        return {name: amount for name, amount in demand(pod).items() if name not in by_device}, wishes

    @staticmethod
    def _wished_claim(pod: Pod, wishes: list[extended.Wish]) -> ResourceClaim:
        meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
        claim = extended.claim_for({"apiVersion": "v1", "kind": "Pod", "metadata": meta}, wishes)
        claim["metadata"]["name"] = f"{claim['metadata'].pop('generateName')}new"
        decoded = decode_object(claim)
        assert isinstance(decoded, ResourceClaim)
        return decoded

    # What there is to choose from

    def _fleet(self) -> Fleet:
        world = self.world
        return Fleet.build(
            slices=world.slices.objects.values(),
            classes=world.classes.objects.values(),
            nodes=world.nodes.objects.values(),
            claims=world.claims.objects.values(),
            taint_rules=world.taint_rules.objects.values(),
            features=self.features,
        )

    # Writing

    def _write(self, pod: Pod, raw: Object, placement: Placement) -> None:
        store, world = self.world.store, self.world
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if placement.wished is not None:
            self._write_wished(pod, raw, placement)
        for claim_name in dict.fromkeys(claim_names(pod).values()):
            if claim_name is not None:
                self._reserve(pod, claim_name, placement.allocations.get((namespace, claim_name)))
        store.bind(name, placement.node, namespace=namespace, manager=COMPONENT)
        world.event(
            raw,
            kind="Pod",
            reason="Scheduled",
            message=f"Successfully assigned {namespace}/{name} to {placement.node}",
            component=COMPONENT,
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

    def _write_wished(self, pod: Pod, raw: Object, placement: Placement) -> None:
        store, namespace = self.world.store, pod.metadata.namespace
        _, unfinished = self._extended_resources(pod)
        if unfinished is not None:
            # From an attempt that a crash ended; it may have been made for another kind of node.
            self.world.delete("resourceclaims", unfinished.key, uid=unfinished.metadata.uid)
        claim = extended.claim_for(raw, placement.wishes)
        created = store.create("resourceclaims", claim, namespace=namespace, manager=COMPONENT)
        self._reserve(pod, created["metadata"]["name"], placement.wished)
        fresh = store.get("pods", pod.metadata.name, namespace=namespace)
        fresh.setdefault("status", {})["extendedResourceClaimStatus"] = extended.claim_status(
            created["metadata"]["name"], placement.wishes
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
        world.event(
            fresh, kind="Pod", reason="FailedScheduling", message=message, component=COMPONENT, warning=True
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


def _refusal(outcome: Outcome) -> str:
    """Why devices could not be had on one node. An error about the claim itself ends the attempt."""
    if isinstance(outcome, Failed):
        if outcome.scope == "claim":
            raise Unplaceable(
                f'running "DynamicResources" filter plugin: {outcome.error}', reason="SchedulerError"
            )
        return str(outcome.error)
    return "timed out trying to allocate devices" if isinstance(outcome, Undecided) else CANNOT_ALLOCATE


def _no_node(total: int, refusals: Counter[str], *, uses_devices: bool) -> str:
    """kube-scheduler's sentence about a Pod that fits nowhere."""
    if not total:
        return "no nodes available to schedule pods"
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in refusals.items()))
    devices = "still not schedulable, " if uses_devices else ""
    helpless = f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
    return f"0/{total} nodes are available: {reasons}. {devices}{helpless}"
