"""Everything that a request's page tells: gathered once, as plain values, for HTML and REST alike."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from claims.asks.queueing import KUEUE_REFUSES
from claims.models import FINAL_STATES, Decision, Request
from claims.money.charges import charges_of_request
from claims.money.pricing import Statement
from claims.requests import manifests, snippets
from claims.requests.actions import CANCELLABLE, RELEASABLE
from claims.requests.advance import Mirror
from claims.requests.drift import Difference, differences
from claims.requests.rehearsal import manifest_of
from claims.requests.states import ClaimFacts, PodFacts
from inventory.coverage import Coverage, coverage_of
from inventory.models import Claim, ClaimDevice, LocalQueue
from portal.accounts.models import AuditEntry

State = Request.State
Reason = Request.Reason
Shape = Request.Shape

# What each audited action is called in the timeline.
ACTIONS: Mapping[str, StrOrPromise] = {
    "request.submit": gettext_lazy("submitted; the cluster accepted it on trial"),
    "request.approve": gettext_lazy("approved"),
    "request.beyond-quota": gettext_lazy("approved beyond the quota"),
    "request.reject": gettext_lazy("rejected"),
    "request.lapse": gettext_lazy("given up: nobody decided in time"),
    "request.entitled": gettext_lazy("Pods may ask for it now"),
    "request.create": gettext_lazy("the desk began to create it"),
    "request.created": gettext_lazy("created on the cluster"),
    "request.waiting-for-pod": gettext_lazy("no Pod uses it"),
    "request.waiting-for-device": gettext_lazy("a Pod waits for a device"),
    "request.allocated": gettext_lazy("a device was allocated"),
    "request.in-use": gettext_lazy("a Pod uses it"),
    "request.hold": gettext_lazy("hold asked for"),
    "request.held": gettext_lazy("hold Pod created"),
    "request.hold-again": gettext_lazy("hold Pod created again after it had disappeared"),
    "request.hold-lost": gettext_lazy("hold Pod ended; it is made again"),
    "request.hold-aside": gettext_lazy("Pods have joined: the hold steps aside, as its flavor says"),
    "request.pod-ended": gettext_lazy("a Pod that still used it is deleted, as its flavor says"),
    "request.hold-refused": gettext_lazy("the cluster refused the hold Pod"),
    "request.release": gettext_lazy("released"),
    "request.offer": gettext_lazy("approved on a condition"),
    "request.change-ask": gettext_lazy("a change asked for"),
    "request.change-approve": gettext_lazy("the change approved"),
    "request.change-offer": gettext_lazy("the change approved on a condition"),
    "request.change-accept": gettext_lazy("the condition accepted"),
    "request.change-reject": gettext_lazy("the change rejected"),
    "request.change-withdraw": gettext_lazy("the change withdrawn"),
    "request.change-apply": gettext_lazy("changed"),
    "request.change-fail": gettext_lazy("the change failed"),
    "request.sweep": gettext_lazy("an object that was left behind is removed"),
    "request.replaced": gettext_lazy("ended: another request has taken its place"),
    "request.cancel": gettext_lazy("cancelled"),
    "request.retry": gettext_lazy("tried again"),
    "request.expire": gettext_lazy("its time was over"),
    "request.over-quota": gettext_lazy("ended: the project is over its quota"),
    "request.ending": gettext_lazy("ending"),
    "request.end": gettext_lazy("ended"),
    "request.fail": gettext_lazy("failed"),
}


@dataclass(frozen=True, kw_only=True)
class DeviceHeld:
    """One device that the request holds now; `pk` of the mirror's device while it is published."""

    pk: int | None
    driver: str
    pool: str
    name: str
    node: str
    product: str
    claim: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One entry of the timeline; `who` "" = the desk itself."""

    at: datetime
    what: str
    who: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Story:
    request: Request
    coverage: Coverage
    words: str
    pods: Sequence[PodFacts]
    # Claims that have their devices, of all claims: "n of m".
    allocated: int
    claims: int
    # These claims, of a template.
    made: Sequence[ClaimFacts]
    devices: Sequence[DeviceHeld]
    # What somebody else changed about its objects.
    drift: Sequence[Difference]
    cost: Statement
    timeline: Sequence[Step]
    decisions: Sequence[Decision]
    snippet: str
    manifest: str
    workload: str
    job: str
    # A Job for each of the namespace's queues of Kueue; else why Kueue would not admit one ("" = it would).
    queued: Sequence[tuple[str, str]]
    queued_not: str

    @property
    def final(self) -> bool:
        """Nothing will change any more without a person."""
        return self.request.state in FINAL_STATES

    @property
    def may_hold(self) -> bool:
        request = self.request
        return request.shape == Shape.CLAIM and request.state in RELEASABLE and not request.hold_wanted

    @property
    def may_change(self) -> bool:
        return self.request.state in RELEASABLE

    @property
    def may_release(self) -> bool:
        return self.request.state in RELEASABLE

    @property
    def may_cancel(self) -> bool:
        return self.request.state in CANCELLABLE

    @property
    def may_retry(self) -> bool:
        return self.request.state == State.FAILED

    @property
    def mend(self) -> str:
        """Commands that put right what can be put right."""
        return "\n".join(one.mend for one in self.drift if one.mend)

    @property
    def users(self) -> Sequence[PodFacts]:
        """Pods of people that have the device."""
        return [pod for pod in self.pods if not pod.hold and pod.node and not pod.finished]

    @property
    def version(self) -> str:
        """Changes whenever the page would look different; to the minute where only time goes by."""
        cost = sorted(self.cost.totals.items())
        told = (
            self.words,
            self.request.state,
            self.request.message,
            self.request.hold_wanted,
            self.request.expires_at,
            self.coverage.in_step,
            self.pods,
            self.devices,
            self.made,
            self.drift,
            self.timeline,
            [decision.pk for decision in self.decisions],
            cost,
        )
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def story(*, request: Request, now: datetime) -> Story:
    """Gather the story of one request; a fixed number of queries."""
    cluster = request.cluster
    mirror = Mirror.load(cluster=cluster, requests=[request])
    situation = mirror.situation(request)
    use = use_of(request)
    refused = snippets.kueue_refuses(request.shape, request.spec)
    return Story(
        request=request,
        coverage=coverage_of(cluster, cluster.streams.all(), now=now),
        words=words(request, holders=situation.holders),
        pods=situation.pods,
        allocated=len(situation.allocated),
        claims=len(situation.claims),
        made=sorted(situation.claims, key=lambda claim: claim.name),
        drift=differences(request),
        devices=_devices(mirror.claims.get(str(request.key), [])),
        cost=charges_of_request(request=request, now=now),
        timeline=_timeline(request),
        decisions=list(request.decisions.select_related("person").order_by("at")),
        snippet=snippets.lines(use),
        # Of an entitlement nothing is sent.
        manifest="" if request.shape == Shape.ENTITLEMENT else manifests.as_yaml(manifest_of(request)),
        workload=manifests.as_yaml(snippets.pod(use)),
        job=manifests.as_yaml(snippets.job(use)),
        queued=[] if refused else _queued(request, use),
        queued_not=str(KUEUE_REFUSES[refused]) if refused else "",
    )


def use_of(request: Request) -> snippets.Use:
    """How Pods use the request."""
    return snippets.Use(
        object_name=request.object_name,
        namespace=request.namespace,
        shape=request.shape,
        key=str(request.key),
        resource=request.extended_resource,
        count=request.count,
        node_selector=request.node_selector,
        tolerations=request.tolerations,
    )


def _queued(request: Request, use: snippets.Use) -> list[tuple[str, str]]:
    if chosen := request.options.get("queue"):
        return [(chosen, manifests.as_yaml(snippets.kueue_job(use, queue=chosen)))]
    queues = LocalQueue.objects.filter(cluster=request.cluster, namespace=request.namespace)
    names = queues.order_by("name").values_list("name", flat=True)
    return [(name, manifests.as_yaml(snippets.kueue_job(use, queue=name))) for name in names]


def words(request: Request, *, holders: Sequence[str] = ()) -> str:
    """The state in a sentence or two, with what can be done about it."""
    if request.shape == Shape.ENTITLEMENT and (said := _ENTITLED.get(request.state)):
        return str(said)
    if request.state == State.ENDING:
        return _ending_words(holders, ends_pods=request.ends_pods)
    if request.state in (State.WAITING_FOR_POD, State.WAITING_FOR_DEVICE) and request.hold_wanted:
        if request.due_at is not None:
            return _("The desk is creating the hold Pod.")
        if request.state == State.WAITING_FOR_POD:
            return _("The hold Pod is being started.")
    sentences = {
        State.WAITING_FOR_APPROVAL: _(
            "The cluster accepted it on trial. Somebody has to approve it; until then nothing is created."
        ),
        State.APPROVED: _("It is approved. The desk is about to create it."),
        State.REJECTED: _("It was rejected. Nothing was created and nothing costs."),
        State.EXPIRED: _("Its time was over before anybody decided. Nothing was created and nothing costs."),
        State.SUBMITTED: _("The cluster accepted it on trial. The desk is about to create it."),
        State.CREATING: _("The desk is creating it on the cluster."),
        State.FAILED: _("It failed. Nothing is held and nothing costs. You can try again."),
        State.CANCELLED: _("It was cancelled before it got anything."),
        State.WAITING_FOR_POD: _(
            "It is on the cluster and waits for a Pod that uses it. Nothing is allocated yet, nothing costs."
        ),
        State.WAITING_FOR_DEVICE: _("A Pod asks for it, and the scheduler has not found a device yet."),
        State.ALLOCATED: _("The device is yours: the hold keeps it until you release it. It costs."),
        State.IN_USE: _("Your Pods use it. It costs until the last of them has ended."),
        State.ENDED: _("It is over. Nothing is held and nothing costs any more."),
    }
    return sentences[State(request.state)]


_ENTITLED: Mapping[str, StrOrPromise] = {
    State.WAITING_FOR_POD: gettext_lazy(
        "Pods of the namespace may ask for it: use the lines below. Nothing is reserved for them meanwhile."
    ),
    State.WAITING_FOR_DEVICE: gettext_lazy(
        "A Pod asks for it, and the scheduler has not found a node with enough units yet."
    ),
    State.IN_USE: gettext_lazy("Your Pods use it until the last of them has ended."),
}


def _ending_words(holders: Sequence[str], *, ends_pods: bool) -> str:
    told = {"pods": ", ".join(holders)}
    if holders and ends_pods:
        return (
            _(
                "The desk is deleting these Pods, as the flavor says: %(pods)s. Until they have ended they "
                "hold the device, and it still costs."
            )
            % told
        )
    if holders:
        return (
            _(
                "It ends as soon as these Pods end: %(pods)s. Until then they hold the device, "
                "and it still costs. The desk never deletes your Pods."
            )
            % told
        )
    return _("Its objects are being removed from the cluster.")


def _devices(claims: Sequence[Claim]) -> list[DeviceHeld]:
    names = {claim.pk: claim for claim in claims}
    results = ClaimDevice.objects.filter(claim__in=names).select_related("device__profile")
    return [
        DeviceHeld(
            pk=result.device_id,
            driver=result.driver,
            pool=result.pool_name,
            name=result.device_name,
            node=(result.device.node_name if result.device else "") or names[result.claim_id].node_name,
            product=result.device.profile.product if result.device else "",
            claim=names[result.claim_id].name,
        )
        for result in results.order_by("claim__name", "driver", "pool_name", "device_name")
    ]


def _timeline(request: Request) -> list[Step]:
    entries = AuditEntry.objects.filter(target_kind="request", target_id=str(request.key))
    return [
        Step(
            at=entry.at,
            what=str(ACTIONS.get(entry.action, entry.action)),
            who=str(entry.actor) if entry.actor else "",
            note=_note(entry.after or {}),
        )
        for entry in entries.select_related("actor").order_by("at", "id")
    ]


def _note(after: Mapping[str, Any]) -> str:
    reason = after.get("reason")
    if reason == Reason.RELEASED:
        # The entry says so itself.
        return ""
    if reason in Reason.values:
        return str(Reason(reason).label)
    return str(after.get("message") or "")
