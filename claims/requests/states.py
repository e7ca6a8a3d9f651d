"""Which state a request is in, as the cluster reports it: a pure function of what the mirror shows.

States that only the desk knows (waiting for approval, submitted, creating, failed, cancelled, ended) are left
alone here: they change by `claims.requests.approvals`, `claims.requests.actions` and
`claims.requests.pursuit`. A claim alone is never allocated: a Pod has to name it, and when the last consumer
goes the device is free again.
"""

from dataclasses import dataclass
from datetime import datetime

from claims.models import Request

State = Request.State
Reason = Request.Reason
Shape = Request.Shape

# States that follow the cluster's reports.
LIVE = (State.WAITING_FOR_POD, State.WAITING_FOR_DEVICE, State.ALLOCATED, State.IN_USE)
# Phases in which a Pod no longer needs its claim.
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """A Pod that names the request's claim or owns a claim of its template."""

    uid: str
    name: str
    phase: str = "Pending"
    node: str = ""
    hold: bool = False
    # In the scheduler's words why it has no node; "" = it has not said.
    why: str = ""

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED


@dataclass(frozen=True, kw_only=True)
class ClaimFacts:
    """A claim of the request: the shared one, or one made from its template."""

    uid: str
    name: str
    allocated: bool = False
    deleting: bool = False
    # uids of what reserved it (`status.reservedFor`).
    consumers: tuple[str, ...] = ()
    # Names of those that are not the desk's hold; a claim may tell of a Pod before the Pod's own stream does.
    users: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the mirror shows of one request. `object_exists` is None while the mirror cannot tell."""

    shape: str
    state: str
    reason: str = ""
    was_allocated: bool = False
    # A hold is wanted or was made: there may be a Pod of the desk that the mirror does not show yet.
    held: bool = False
    object_exists: bool | None
    claims: tuple[ClaimFacts, ...] = ()
    pods: tuple[PodFacts, ...] = ()

    @property
    def allocated(self) -> tuple[ClaimFacts, ...]:
        return tuple(claim for claim in self.claims if claim.allocated)

    @property
    def waiting(self) -> tuple[PodFacts, ...]:
        """Pods that still wait to be placed."""
        return tuple(pod for pod in self.pods if not pod.finished and not pod.node)

    @property
    def users(self) -> tuple[PodFacts, ...]:
        """Pods of people (not the hold) that have been placed and still run."""
        return tuple(pod for pod in self.pods if not pod.hold and pod.node and not pod.finished)

    @property
    def holders(self) -> tuple[str, ...]:
        """Names of what people run that has the device."""
        told = {name for claim in self.allocated for name in claim.users}
        return tuple(sorted({pod.name for pod in self.users} | told))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The state that follows, why, and in the cluster's words."""

    state: str
    reason: str = ""
    message: str = ""


def next_state(seen: Situation) -> Verdict | None:
    """The state that follows from what the mirror shows; None = the mirror has no say in it."""
    if seen.shape == Shape.ENTITLEMENT:
        return _entitled(seen)
    if seen.state == State.ENDING:
        return _ending(seen)
    if seen.state not in LIVE or seen.object_exists is None:
        return None
    return _living(seen) if seen.object_exists else _object_gone(seen)


def expired(*, state: str, expires_at: datetime | None, now: datetime) -> bool:
    """Whether the time asked for is over for a request that still has something on the cluster."""
    return state in LIVE and expires_at is not None and expires_at <= now


def _entitled(seen: Situation) -> Verdict | None:
    """There is no object: the Pods that use it are all there is."""
    if seen.state == State.ENDING:
        if seen.users:
            return Verdict(state=State.ENDING, reason=Reason.STILL_USED, message=_names(seen))
        return Verdict(state=State.ENDED)
    if seen.state not in LIVE:
        return None
    if seen.users:
        reason = Reason.PARTLY if seen.waiting else Reason.NONE
        return Verdict(state=State.IN_USE, reason=reason, message=_why(seen))
    if seen.waiting:
        return Verdict(state=State.WAITING_FOR_DEVICE, reason=_why_reason(seen), message=_why(seen))
    return Verdict(state=State.WAITING_FOR_POD)


def _living(seen: Situation) -> Verdict:
    if seen.shape == Shape.CLAIM and any(claim.deleting for claim in seen.claims):
        # Somebody else deletes it, and Pods keep it until they end.
        return Verdict(state=State.ENDING, reason=Reason.DELETED_ELSEWHERE, message=_names(seen))
    if seen.allocated:
        return _allocated(seen)
    if seen.waiting:
        return Verdict(state=State.WAITING_FOR_DEVICE, reason=_why_reason(seen), message=_why(seen))
    return Verdict(state=State.WAITING_FOR_POD)


def _allocated(seen: Situation) -> Verdict:
    holds = {pod.uid for pod in seen.pods if pod.hold}
    joined = any(set(claim.consumers) - holds for claim in seen.allocated)
    state = State.IN_USE if joined else State.ALLOCATED
    if seen.waiting:
        # Devices are there; a further Pod (or claim of the template) is not placed yet.
        return Verdict(state=state, reason=Reason.PARTLY, message=_why(seen))
    return Verdict(state=state)


def _object_gone(seen: Situation) -> Verdict:
    if seen.shape == Shape.TEMPLATE and seen.claims:
        # Pods that were made from the template keep their claims until they end.
        return Verdict(state=State.ENDING, reason=Reason.DELETED_ELSEWHERE, message=_names(seen))
    if seen.held or any(pod.hold for pod in seen.pods):
        # The hold would wait for ever: it has to be removed first.
        return Verdict(state=State.ENDING, reason=Reason.DELETED_ELSEWHERE)
    state = State.ENDED if seen.was_allocated else State.FAILED
    return Verdict(state=state, reason=Reason.DELETED_ELSEWHERE)


def _ending(seen: Situation) -> Verdict | None:
    if seen.claims and (seen.holders or seen.shape == Shape.TEMPLATE):
        return Verdict(state=State.ENDING, reason=Reason.STILL_USED, message=_names(seen))
    if seen.object_exists or seen.claims:
        return Verdict(state=State.ENDING, reason=Reason.WINDING_UP)
    if seen.object_exists is None:
        return None
    return Verdict(state=State.ENDED)


def _names(seen: Situation) -> str:
    return ", ".join(seen.holders)


def _why(seen: Situation) -> str:
    said = dict.fromkeys(pod.why for pod in seen.waiting if pod.why)
    return "\n".join(said)


def _why_reason(seen: Situation) -> str:
    return Reason.NOT_SCHEDULED if any(pod.why for pod in seen.waiting) else Reason.NONE
