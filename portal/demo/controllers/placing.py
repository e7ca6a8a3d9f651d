"""Deciding where a Pod goes: node by node as kube-scheduler filters them, devices by ``portal.dra``.

Nothing is written here. The answer is a :class:`Placement`, or an exception with the sentence that people
read.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from portal.demo.records import Key
from portal.dra.cluster import tried
from portal.dra.features import EXTENDED_RESOURCE, Features
from portal.dra.fleet import Fleet
from portal.dra.model import AllocationResult, Node, Pod, ResourceClaim
from portal.dra.outcomes import Allocated, Failed, Outcome, Undecided

from .claims import EXTENDED_RESOURCE_CLAIM, MAX_CONSUMERS, claim_names
from .extended import Wish, claim_for, classes_by_resource, left_to_dra, wishes_of
from .fit import Usage, demand, load, obstacle, selects, shortages
from .view import Index
from .world import World, controller_of

CANNOT_ALLOCATE = "cannot allocate all claims"


class Unplaceable(Exception):
    """A Pod cannot be placed now; the message is the one people read in its condition and events."""

    def __init__(self, message: str, *, reason: str = "Unschedulable") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a Pod goes and what its claims get there.

    ``wishes`` are the extended resources that a claim made by the scheduler covers, ``wished`` what that
    claim gets; None if it has got it already.
    """

    node: str
    allocations: dict[Key, AllocationResult] = field(default_factory=dict)
    wishes: tuple[Wish, ...] = ()
    wished: AllocationResult | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that could take the Pod if its devices can be had there."""

    fullness: float
    node: str
    wishes: tuple[Wish, ...]


class Placer:
    """Chooses nodes and devices from what the world looks like at the moment."""

    def __init__(self, world: World, features: Features) -> None:
        self.world = world
        self.features = features
        self.usage = Usage(world.pods)
        self._by_owner = Index(
            world.claims, lambda claim: [item.uid for item in claim.metadata.owner_references]
        )
        self._hardware: tuple[tuple[int, ...], Fleet] | None = None

    def place(self, pod: Pod) -> Placement:
        """A node, and devices for all claims that have none yet; raises Unplaceable."""
        claims = self._claims_of(pod)
        pending = [claim for claim in claims if claim.status.allocation is None]
        settled = [claim for claim in claims if claim.status.allocation is not None]
        asked = self._asked(pod)
        made = self.claim_made_for(pod) if asked else None
        served: tuple[Wish, ...] = ()
        if made is not None and made.status.allocation is not None:
            settled.append(made)
            served = _covered_by(made, asked)
        candidates, refusals = self._filter(pod, settled, asked)
        if served:
            candidates = [_Candidate(item.fullness, item.node, ()) for item in candidates]
        for candidate, outcome in self._attempts(pod, pending, candidates):
            if isinstance(outcome, Allocated):
                return _placement(candidate, pending, outcome, served)
            refusals[_refusal(outcome)] += 1
        total = len(self.world.nodes.objects)
        raise Unplaceable(_no_node(total, refusals, uses_devices=bool(pod.spec.resource_claims)))

    def claim_made_for(self, pod: Pod) -> ResourceClaim | None:
        """The claim that an earlier attempt made for the Pod's extended resources."""
        for key in self._by_owner[pod.metadata.uid]:
            claim = self.world.claims.objects[key]
            if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
                return claim
        return None

    # The Pod's claims

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        namespace = pod.metadata.namespace
        found: list[ResourceClaim] = []
        for name, claim_name in claim_names(pod).items():
            if claim_name is None:
                who = f'pod "{namespace}/{pod.metadata.name}"'
                raise self._nowhere(f"{who}: pod claim {name}: ResourceClaim not created yet")
            claim = self.world.claims.get(namespace, claim_name)
            if claim is None:
                raise self._nowhere(f'resourceclaim.resource.k8s.io "{claim_name}" not found')
            self._check_claim(pod, name, claim)
            if claim not in found:
                found.append(claim)
        return found

    def _check_claim(self, pod: Pod, name: str, claim: ResourceClaim) -> None:
        if claim.metadata.deletion_timestamp:
            raise self._nowhere(f'resourceclaim "{claim.metadata.name}" is being deleted')
        entry = next(item for item in pod.spec.resource_claims if item.name == name)
        owner = controller_of(claim.metadata)
        if entry.resource_claim_template_name and (owner is None or owner.uid != pod.metadata.uid):
            who = f"{pod.metadata.namespace}/{pod.metadata.name}"
            which = f"{claim.metadata.namespace}/{claim.metadata.name}"
            raise self._nowhere(f"ResourceClaim {which} was not created for pod {who} (pod is not owner)")
        reserved = {consumer.uid for consumer in claim.status.reserved_for}
        if pod.metadata.uid not in reserved and len(reserved) >= MAX_CONSUMERS:
            raise self._nowhere("resourceclaim in use")
        if claim.status.allocation is None:
            self._check_classes(claim)

    def _check_classes(self, claim: ResourceClaim) -> None:
        for request in claim.spec.devices.requests:
            named = [(request.name, request.exactly.device_class_name)] if request.exactly else []
            named += [
                (f"{request.name}/{sub.name}", sub.device_class_name) for sub in request.first_available
            ]
            for name, class_name in named:
                if self.world.classes.get("", class_name) is None:
                    raise self._nowhere(f"request {name}: device class {class_name} does not exist")

    def _nowhere(self, why: str) -> Unplaceable:
        """A reason that does not depend on the node."""
        total = len(self.world.nodes.objects)
        return Unplaceable(
            f"0/{total} nodes are available: {why}. no new claims to deallocate, {_helpless(total)}"
        )

    def _asked(self, pod: Pod) -> list[Wish]:
        """What classes could serve of the Pod's extended resources."""
        if not self.features.enabled(EXTENDED_RESOURCE):
            return []
        return wishes_of(pod, classes_by_resource(self.world.classes.objects))

    # The nodes

    def _filter(
        self, pod: Pod, settled: Sequence[ResourceClaim], asked: Sequence[Wish]
    ) -> tuple[list[_Candidate], Counter[str]]:
        """The nodes that are worth asking for devices, the emptiest first; and why the others are not."""
        refusals: Counter[str] = Counter()
        candidates = []
        needs = demand(pod)
        for node in self.world.nodes.objects.values():
            wishes = tuple(left_to_dra(asked, node))
            by_device = {wish.resource for wish in wishes}
            wanted = {name: amount for name, amount in needs.items() if name not in by_device}
            if reasons := self._why_not(pod, node, wanted, settled):
                refusals.update(reasons)
            else:
                fullness = load(wanted, self.usage.on(node.metadata.name), node)
                candidates.append(_Candidate(fullness, node.metadata.name, wishes))
        return sorted(candidates, key=lambda item: (item.fullness, item.node)), refusals

    def _why_not(
        self, pod: Pod, node: Node, wanted: dict[str, int], settled: Sequence[ResourceClaim]
    ) -> list[str]:
        if reason := obstacle(pod, node):
            return [reason]
        if short := shortages(wanted, self.usage.on(node.metadata.name), node):
            return short
        for claim in settled:
            if claim.status.allocation and not selects(claim.status.allocation.node_selector, node):
                return ["resourceclaim not available on the node"]
        return []

    # The devices

    def _attempts(
        self, pod: Pod, pending: Sequence[ResourceClaim], candidates: Sequence[_Candidate]
    ) -> Iterator[tuple[_Candidate, Outcome]]:
        """What comes out on each candidate in turn; devices are only looked at where some are wanted."""
        for wishes, group in groupby(candidates, key=lambda item: item.wishes):
            by_node = {item.node: item for item in group}
            claims = [*pending, *([_claim_wished(pod, wishes)] if wishes else [])]
            if not claims:
                for node, candidate in by_node.items():
                    yield candidate, Allocated(node=node, claims=())
                continue
            for node, outcome in tried(self._fleet(), claims, list(by_node)):
                yield by_node[node], outcome

    def _fleet(self) -> Fleet:
        """Everything that an allocation looks at. What is known about the hardware is kept while it stays."""
        world = self.world
        views = (world.slices, world.classes, world.nodes, world.taint_rules)
        versions = tuple(view.version for view in views)
        if self._hardware is None or self._hardware[0] != versions:
            fleet = Fleet.build(
                slices=world.slices.objects.values(),
                classes=world.classes.objects.values(),
                nodes=world.nodes.objects.values(),
                taint_rules=world.taint_rules.objects.values(),
                features=self.features,
            )
            self._hardware = versions, fleet
        return self._hardware[1].with_claims(world.claims.objects.values())


def _covered_by(claim: ResourceClaim, asked: Sequence[Wish]) -> tuple[Wish, ...]:
    requests = {request.name for request in claim.spec.devices.requests}
    return tuple(wish for wish in asked if wish.request in requests)


def _placement(
    candidate: _Candidate, pending: Sequence[ResourceClaim], outcome: Allocated, served: tuple[Wish, ...]
) -> Placement:
    results = list(outcome.claims)
    return Placement(
        node=candidate.node,
        allocations={claim.key: result for claim, result in zip(pending, results, strict=False)},
        wishes=candidate.wishes or served,
        wished=results[-1] if candidate.wishes else None,
    )


def _claim_wished(pod: Pod, wishes: Sequence[Wish]) -> ResourceClaim:
    """The claim for extended resources as it will be made, for the allocator to look at."""
    meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
    claim = claim_for({"apiVersion": "v1", "kind": "Pod", "metadata": meta}, wishes)
    claim["metadata"]["name"] = f"{claim['metadata'].pop('generateName')}new"
    return msgspec.convert(claim, ResourceClaim)


def _refusal(outcome: Outcome) -> str:
    """Why devices could not be had on one node. An error about the claim itself ends the attempt."""
    if isinstance(outcome, Failed):
        if outcome.scope == "claim":
            message = f'running "DynamicResources" filter plugin: {outcome.error}'
            raise Unplaceable(message, reason="SchedulerError")
        return str(outcome.error)
    return "timed out trying to allocate devices" if isinstance(outcome, Undecided) else CANNOT_ALLOCATE


def _no_node(total: int, refusals: Counter[str], *, uses_devices: bool) -> str:
    """kube-scheduler's sentence about a Pod that fits nowhere."""
    if not total:
        return "no nodes available to schedule pods"
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in refusals.items()))
    devices = "still not schedulable, " if uses_devices else ""
    return f"0/{total} nodes are available: {reasons}. {devices}{_helpless(total)}"


def _helpless(total: int) -> str:
    return f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
