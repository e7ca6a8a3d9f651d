"""What the desk does with requests by itself: ending those whose time is over, that nobody uses, whose place
another has taken, or about which nobody decided; letting a hold step aside."""

from datetime import datetime

from django.db import transaction

from claims.models import Request
from claims.requests.states import LIVE
from claims.requests.transitions import announce, end, record, transition

State = Request.State
Reason = Request.Reason


def expire(*, request: Request, now: datetime) -> bool:
    """End a request whose time is over, by the desk itself: the hold and the unused claim go, Pods stay."""
    return end(request, LIVE, now=now, actor=None, reason=Reason.EXPIRED, action="request.expire", ip=None)


def give_back_idle(*, request: Request, now: datetime) -> bool:
    """End a request whose devices nobody has used for as long as its flavor bears, by the desk itself.
    Returns whether it did: not when somebody has begun to use it meanwhile."""
    return end(
        request,
        (State.ALLOCATED,),
        now=now,
        actor=None,
        reason=Reason.IDLE,
        action="request.idle-release",
        ip=None,
    )


def lapse(*, request: Request, now: datetime) -> bool:
    """Give up, by the desk itself, on a request about which nobody decided in time. Returns whether it
    did."""
    if request.expires_at is None or request.expires_at > now:
        return False
    return transition(
        request,
        to=State.EXPIRED,
        expected=State.WAITING_FOR_APPROVAL,
        now=now,
        action="request.lapse",
        reason=Reason.NOT_DECIDED,
        ended_at=now,
    )


def end_replaced(*, request: Request, now: datetime) -> bool:
    """End a request whose place another has taken, by the desk itself. Returns whether it did."""
    return end(request, LIVE, now=now, actor=None, reason=Reason.REPLACED, action="request.replaced", ip=None)


def step_aside(*, request: Request, now: datetime) -> bool:
    """Give up the hold, by the desk itself, since Pods of people have the device: as its flavor says. The
    device is free when they end."""
    with transaction.atomic():
        changed = Request.objects.filter(pk=request.pk, state__in=LIVE, hold_wanted=True).update(
            hold_wanted=False, due_at=now, attempts=0, changed_at=now
        )
        if changed:
            request.refresh_from_db()
            record(request, "request.hold-aside", actor=None, now=now, after={"hold": False})
            announce(request)
    return bool(changed)
