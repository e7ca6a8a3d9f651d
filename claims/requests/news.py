"""What people are told of a request: its requester of each change of state, approvers of what waits for them.

Called inside the transaction of the change (`claims.requests.transitions`). What the requester did is told
only to programs, and so is what comes and goes with every Pod.
"""

from collections.abc import Mapping
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import Flavor, Request
from portal.accounts.models import Membership, User
from portal.accounts.notifications.kinds import Channel, Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

State = Request.State
Reason = Request.Reason

_SENTENCES: Mapping[str, str] = {
    State.WAITING_FOR_APPROVAL: gettext_noop("%(request)s waits for approval."),
    State.SUBMITTED: gettext_noop("%(request)s is submitted."),
    State.APPROVED: gettext_noop("%(request)s is approved."),
    State.CREATING: gettext_noop("%(request)s is being created on the cluster."),
    State.FAILED: gettext_noop("%(request)s has failed."),
    State.CANCELLED: gettext_noop("%(request)s is cancelled."),
    State.REJECTED: gettext_noop("%(request)s is rejected."),
    State.EXPIRED: gettext_noop("%(request)s has expired: nobody decided about it in time."),
    State.WAITING_FOR_POD: gettext_noop("%(request)s is on the cluster and waits for a Pod."),
    State.WAITING_FOR_DEVICE: gettext_noop("%(request)s waits for a device."),
    State.ALLOCATED: gettext_noop("%(request)s has its devices."),
    State.IN_USE: gettext_noop("%(request)s is in use."),
    State.ENDING: gettext_noop("%(request)s is ending."),
    State.ENDED: gettext_noop("%(request)s has ended: it holds nothing any more."),
}
# Steps on the way that nobody waits for.
_QUIET = (State.SUBMITTED, State.CREATING)
# Pods come and go: who has the device knows.
_USE = (State.ALLOCATED, State.IN_USE)
_LONGEST = 1000


def name_of(request: Request) -> Text:
    """How the request is called in sentences: what and how many, and the digits that people call it by."""
    what = request.flavor.name if request.flavor else request.device_class or request.extended_resource
    return as_written(f"{request.count} × {what} ({request.short_key})")


def tell_of_transition(request: Request, *, before: str, actor: User | None, now: datetime) -> None:
    """The state of `request` has just changed from `before`."""
    by_themselves = actor is not None and actor.pk == request.requester_id
    in_passing = request.state in _QUIET or (request.state in _USE and before in _USE)
    tell(
        people=[request.requester],
        kind=Kind.REQUEST,
        subject=Text(_SENTENCES[request.state], request=name_of(request)),
        body=_why(request),
        url=reverse("request-detail", args=[request.key]),
        project=request.project,
        key=f"request:{request.key}:{request.state}:{now.isoformat()}",
        thread=str(request.key),
        facts={
            "request": str(request.key),
            "state": request.state,
            "before": str(before),
            "reason": request.reason,
        },
        now=now,
        only=[Channel.WEBHOOK] if by_themselves or in_passing else list(Channel),
    )


def tell_approvers(request: Request, *, now: datetime) -> None:
    """The request waits for a decision: those who may decide hear of it."""
    tell(
        people=approvers_of(request),
        kind=Kind.APPROVAL,
        subject=Text(
            gettext_noop("%(person)s asks for %(request)s."),
            person=as_written(str(request.requester)),
            request=name_of(request),
        ),
        body=as_written(request.purpose) if request.purpose else None,
        url=reverse("request-detail", args=[request.key]),
        project=request.project,
        key=f"approval:{request.key}:{request.created_at.isoformat()}",
        thread=str(request.key),
        facts={"request": str(request.key), "state": request.state},
        now=now,
    )


def approvers_of(request: Request) -> list[User]:
    """Leads and administrators whose decision the request waits for; where a project has no lead who may,
    administrators stand in. Never auditors, and its requester only where the flavor permits that."""
    leads = list(
        User.objects.filter(
            memberships__project=request.project, memberships__role=Membership.Role.LEAD
        ).exclude(is_auditor=True)
    )
    administrators = list(User.objects.filter(is_administrator=True, is_auditor=False, is_active=True))

    def others(people: list[User]) -> list[User]:
        return [p for p in people if p.is_active and (request.own_approval or p.pk != request.requester_id)]

    if request.approval == Flavor.Approval.LEAD:
        return others(leads) or others(administrators)
    if request.approval == Flavor.Approval.BOTH:
        return others(leads) + others(administrators)
    return others(administrators)


def _why(request: Request) -> Text | None:
    """The reason in the desk's words, then the cluster's or a person's own."""
    said = as_written(request.message[:_LONGEST]) if request.message else None
    if request.reason and request.reason in Reason.values:
        label = Reason(request.reason).label
        return Text("%(reason)s\n%(said)s", reason=label, said=said) if said else Text("%(r)s", r=label)
    return said
