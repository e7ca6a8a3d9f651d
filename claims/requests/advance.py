"""Brings requests forward by what the mirror shows: gathers the facts in bulk, asks
`claims.requests.states`, writes.

The number of queries depends neither on the number of requests nor on the size of the fleet, except for one
write per request that changes.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from claims.ledger import storage
from claims.models import Request, RequestClaim
from claims.requests import manifests
from claims.requests.belonging import Namespaces
from claims.requests.desk_acts import expire, lapse, step_aside
from claims.requests.entitlements import pods_of_entitlements, remember
from claims.requests.states import (
    LIVE,
    ClaimFacts,
    PodFacts,
    Situation,
    Verdict,
    expired,
    next_state,
)
from claims.requests.transitions import transition
from inventory.models import Claim, ClaimTemplate, Cluster, Pod, PodEvent, Stream

State = Request.State
Shape = Request.Shape

# Events that say why a Pod does not start.
REASONS = ("FailedScheduling", "FailedPrepareDynamicResources", "FailedResourceClaimCreation")
# A list that began before the object was created may end after it.
LIST_TIME = timedelta(minutes=1)

_ACTIONS = {
    State.WAITING_FOR_POD: "request.waiting-for-pod",
    State.WAITING_FOR_DEVICE: "request.waiting-for-device",
    State.ALLOCATED: "request.allocated",
    State.IN_USE: "request.in-use",
    State.ENDING: "request.ending",
    State.ENDED: "request.end",
    State.FAILED: "request.fail",
}


def advance(*, cluster: Cluster, now: datetime) -> int:
    """Move all requests of `cluster` to the states that follow from its mirror. Returns how many changed."""
    requests = list(
        Request.objects.filter(cluster=cluster)
        .active()
        .select_related("project", "requester", "cluster")
        .order_by("pk")
    )
    if not requests:
        return 0
    mirror = Mirror.load(cluster=cluster, requests=requests)
    link_claims(cluster=cluster, requests=requests, mirror=mirror, now=now)
    remember(cluster=cluster, requests=requests, pods=mirror.entitled, now=now)
    changed = 0
    for request in requests:
        if expired(state=request.state, expires_at=request.expires_at, now=now):
            changed += expire(request=request, now=now)
            continue
        if request.state == State.WAITING_FOR_APPROVAL:
            changed += lapse(request=request, now=now)
            continue
        changed += _advance_one(request, mirror, now=now)
    return changed


@dataclass(kw_only=True)
class Mirror:
    """What the mirror shows of some requests, indexed for them."""

    objects: set[str]
    # uids of template claims that stand for themselves: request key → claims.
    claims: dict[str, list[Claim]]
    pods: dict[tuple[str, str], list[Pod]]
    pods_by_uid: dict[str, Pod]
    # Pods that use an entitlement, by its request's key.
    entitled: Mapping[str, Sequence[Pod]]
    whys: dict[str, str]
    listed_at: Mapping[str, datetime | None] = field(default_factory=dict)

    @classmethod
    def load(cls, *, cluster: Cluster, requests: Sequence[Request]) -> "Mirror":
        """Reads claims, templates, Pods and events of the requests' namespaces."""
        namespaces = {request.namespace for request in requests}
        uids = {request.object_uid for request in requests if request.object_uid}
        pods = list(
            Pod.objects.filter(cluster=cluster, namespace__in=namespaces).defer("labels", "annotations")
        )
        pods_by_uid = {pod.uid: pod for pod in pods}
        by_claim: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in pods:
            for name in pod.claim_names.values():
                by_claim[pod.namespace, name].append(pod)
        objects = set(
            ClaimTemplate.objects.filter(cluster=cluster, uid__in=uids).values_list("uid", flat=True)
        )
        claims: dict[str, list[Claim]] = defaultdict(list)
        by_uid = {request.object_uid: str(request.key) for request in requests if request.object_uid}
        by_key = {str(request.key): request for request in requests}
        bound = Namespaces(cluster=cluster, names=namespaces)
        rows = Claim.objects.filter(cluster=cluster, namespace__in=namespaces).defer("spec", "annotations")
        for claim in rows:
            if claim.uid in by_uid:
                objects.add(claim.uid)
                claims[by_uid[claim.uid]].append(claim)
                continue
            request = by_key.get(_template_key(claim, pods_by_uid))
            if request is not None and bound.was_of(request, claim.created_at):
                claims[str(request.key)].append(claim)
        waiting = [pod.uid for pod in pods if not pod.node_name]
        return cls(
            objects=objects,
            claims=claims,
            pods=by_claim,
            pods_by_uid=pods_by_uid,
            entitled=pods_of_entitlements(cluster=cluster, requests=requests, pods=pods),
            whys=_whys(cluster, waiting),
            listed_at=dict(
                Stream.objects.filter(
                    cluster=cluster, resource__in=["resourceclaims", "resourceclaimtemplates"]
                ).values_list("resource", "listed_at")
            ),
        )

    def situation(self, request: Request) -> Situation:
        """The facts about one request, for `claims.requests.states.next_state`."""
        claims = self.claims.get(str(request.key), [])
        if request.shape == Shape.TEMPLATE:
            # Guards against a copied label: another namespace is another project's.
            claims = [claim for claim in claims if claim.namespace == request.namespace]
        return Situation(
            shape=request.shape,
            state=request.state,
            reason=request.reason,
            was_allocated=request.allocated_at is not None,
            held=request.hold_wanted or bool(request.hold_pod_uid),
            object_exists=self._object_exists(request),
            claims=tuple(_claim_facts(claim, request) for claim in claims),
            pods=tuple(self._pod_facts(pod, request) for pod in self.pods_of(request, claims)),
        )

    def pods_of(self, request: Request, claims: Sequence[Claim]) -> list[Pod]:
        """Pods that name the shared claim, or own a claim of the template."""
        if request.shape == Shape.CLAIM:
            return self.pods.get((request.namespace, request.object_name), [])
        if request.shape == Shape.ENTITLEMENT:
            return list(self.entitled.get(str(request.key), ()))
        owners = (self.pods_by_uid.get(claim.owner_pod_uid) for claim in claims)
        return [pod for pod in owners if pod is not None]

    def allocated_since(self, request: Request) -> datetime | None:
        """When the first of the request's present allocations began."""
        if request.shape == Shape.ENTITLEMENT:
            placed = [pod for pod in self.entitled.get(str(request.key), ()) if pod.node_name]
            return min((at for pod in placed if (at := pod.scheduled_at or pod.started_at)), default=None)
        begun = [claim.allocated_at for claim in self.claims.get(str(request.key), []) if claim.allocated]
        return min((at for at in begun if at is not None), default=None)

    def _object_exists(self, request: Request) -> bool | None:
        if request.object_uid and request.object_uid in self.objects:
            return True
        if request.object_seen:
            return False
        resource = "resourceclaims" if request.shape == Shape.CLAIM else "resourceclaimtemplates"
        listed, created = self.listed_at.get(resource), request.object_created_at
        if listed is not None and created is not None and listed > created + LIST_TIME:
            return False
        return None

    def _pod_facts(self, pod: Pod, request: Request) -> PodFacts:
        return PodFacts(
            uid=pod.uid,
            name=pod.name,
            phase=pod.phase,
            node=pod.node_name,
            hold=pod.name == manifests.hold_name(request.object_name) and request.shape == Shape.CLAIM,
            why=pod.unschedulable_message or self.whys.get(pod.uid, ""),
        )


def link_claims(*, cluster: Cluster, requests: Sequence[Request], mirror: Mirror, now: datetime) -> None:
    """Remember which claims belong to which request, and let the ledger attribute what it has of them."""
    wanted = {
        claim.uid: RequestClaim(
            cluster=cluster,
            claim_uid=claim.uid,
            claim_name=claim.name,
            request=request,
            pod_uid=claim.owner_pod_uid,
            seen_at=now,
        )
        for request in requests
        for claim in mirror.claims.get(str(request.key), [])
        if claim.namespace == request.namespace
    }
    if not wanted:
        return
    known = RequestClaim.objects.filter(cluster=cluster, claim_uid__in=wanted)
    new = wanted.keys() - set(known.values_list("claim_uid", flat=True))
    if new:
        RequestClaim.objects.bulk_create([wanted[uid] for uid in sorted(new)], ignore_conflicts=True)
        storage.refold(cluster=cluster, uids=new)


def _advance_one(request: Request, mirror: Mirror, *, now: datetime) -> bool:
    situation = mirror.situation(request)
    columns: dict[str, Any] = {}
    if situation.object_exists and not request.object_seen:
        columns["object_seen"] = True
    has_devices = situation.users if request.shape == Shape.ENTITLEMENT else situation.allocated
    if has_devices and request.allocated_at is None:
        since = mirror.allocated_since(request) or now
        columns["allocated_at"] = since
        end = since + request.duration
        columns["expires_at"] = min(end, request.ends_by) if request.ends_by else end
        if request.asked_at is None:
            # Nobody was seen waiting: it was there at once.
            columns["asked_at"] = since
    if request.hold_wanted and request.due_at is None and request.state in LIVE and _hold_missing(situation):
        columns["due_at"] = now
    if request.hold_steps_aside and situation.holders:
        step_aside(request=request, now=now)
    if request.state == State.ENDING and request.ends_pods and request.due_at is None and situation.users:
        columns["due_at"] = now
    verdict = next_state(situation)
    changed = False
    if verdict is not None and verdict.state == State.ENDED and request.due_at is not None:
        # The object is gone, and the desk has still something to remove: only then it is over.
        return False
    if verdict is not None and verdict.state != request.state:
        changed = _change(request, verdict, columns, now=now)
    elif verdict is not None and _says_more(request, verdict):
        # The same state for another reason: shown, but no transition.
        Request.objects.filter(pk=request.pk, state=request.state).update(
            reason=verdict.reason, message=verdict.message, **columns
        )
    elif columns:
        Request.objects.filter(pk=request.pk, state=request.state).update(**columns)
    return changed


def _change(request: Request, verdict: Verdict, columns: dict[str, Any], *, now: datetime) -> bool:
    if verdict.state == State.WAITING_FOR_DEVICE and request.asked_at is None:
        columns["asked_at"] = now
    if verdict.state == State.ENDING:
        columns |= {"hold_wanted": False, "due_at": now, "attempts": 0, "end_reason": verdict.reason}
    if verdict.state in (State.ENDED, State.FAILED):
        columns |= {"ended_at": now, "due_at": None, "hold_wanted": False}
    reason = verdict.reason
    if verdict.state == State.ENDED and not reason:
        reason = request.end_reason
    return transition(
        request,
        to=verdict.state,
        expected=request.state,
        now=now,
        action=_ACTIONS[State(verdict.state)],
        reason=reason,
        message=verdict.message,
        **columns,
    )


def _says_more(request: Request, verdict: Verdict) -> bool:
    """What went wrong on the cluster stays on the page until it is mended or the mirror has worse to tell."""
    told = request.reason in (Request.Reason.RETRYING, Request.Reason.REFUSED)
    if told and verdict.reason in ("", Request.Reason.WINDING_UP):
        return False
    return (verdict.reason, verdict.message) != (request.reason, request.message)


def _hold_missing(situation: Situation) -> bool:
    return not any(pod.hold and not pod.finished for pod in situation.pods)


def _template_key(claim: Claim, pods: Mapping[str, Pod]) -> str:
    """The key of the request whose template a claim was made from; "" if it was not.

    The label comes from the template, but anybody can write one: only a claim whose owner Pod really uses it
    counts, and only in the request's own namespace (see `Mirror.situation`) while that was its project's."""
    owner = pods.get(claim.owner_pod_uid) if claim.owner_pod_uid else None
    if owner is None or claim.name not in owner.claim_names.values():
        return ""
    return str(claim.labels.get(manifests.REQUEST_LABEL, ""))


def _claim_facts(claim: Claim, request: Request) -> ClaimFacts:
    reserved = claim.status.get("reservedFor") or []
    hold = manifests.hold_name(request.object_name) if request.shape == Shape.CLAIM else ""
    names = (str(entry.get("name", "")) for entry in reserved)
    return ClaimFacts(
        uid=claim.uid,
        name=claim.name,
        allocated=claim.allocated,
        deleting=claim.deleted_at is not None,
        consumers=tuple(str(entry.get("uid", "")) for entry in reserved),
        users=tuple(name for name in names if name != hold),
    )


def _whys(cluster: Cluster, pod_uids: Sequence[str]) -> dict[str, str]:
    if not pod_uids:
        return {}
    events = PodEvent.objects.filter(cluster=cluster, pod_uid__in=pod_uids, reason__in=REASONS)
    return dict(events.order_by("last_at").values_list("pod_uid", "message"))
