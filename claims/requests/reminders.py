"""Reminders before the time of a request is over: three days, one day and one hour ahead, each once.

After a pause of the desk only the nearest is sent, since what it says holds and the others are past. What was
sent is known by the moment that it announced: another end arms them anew. None is sent at a time when the
request did not exist yet: who asks for two hours knows that.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import Request
from claims.requests.news import name_of
from claims.requests.states import LIVE
from portal import access
from portal.accounts.models import Membership, Notification, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

STEPS = (timedelta(hours=1), timedelta(days=1), timedelta(days=3))
# What is left is told in round numbers.
ROUND = timedelta(minutes=5)
_WAITING = (Request.State.WAITING_FOR_POD, Request.State.WAITING_FOR_DEVICE)


def remind(*, now: datetime) -> int:
    """Send what is due. Returns how many requests were told of."""
    due = [(request, step) for request in _ending_soon(now) if (step := step_of(request, now=now))]
    keys = {_key(request, step): (request, step) for request, step in due}
    told = set(Notification.objects.filter(kind=Kind.EXPIRY, key__in=keys).values_list("key", flat=True))
    for key, (request, _step) in keys.items():
        if key not in told:
            _tell(request, key, now=now)
    return len(keys.keys() - told)


def step_of(request: Request, *, now: datetime) -> timedelta | None:
    """The reminder that holds now: the nearest of those whose moment has come; None before the first."""
    if request.expires_at is None or request.expires_at <= now:
        return None
    since = request.allocated_at or request.created_at
    left = request.expires_at - now
    return next((step for step in STEPS if left <= step and request.expires_at - step > since), None)


def people_of(request: Request) -> Sequence[User]:
    """Whose request it is; once they have left the project, or the house, the project's leads. One query."""
    return people_of_all([request])[request.pk]


def people_of_all(requests: Collection[Request]) -> Mapping[int, Sequence[User]]:
    """The same of many, by primary key; the requesters are read along. One query."""
    leads: dict[int, list[User]] = {}
    members: set[tuple[int, int]] = set()
    of_requesters = Q(user__in={request.requester_id for request in requests})
    rows = Membership.objects.filter(
        of_requesters | Q(role=Membership.Role.LEAD),
        project__in={request.project_id for request in requests},
        user__is_active=True,
    )
    for row in rows.select_related("user").order_by("pk"):
        members.add((row.project_id, row.user_id))
        if row.role == Membership.Role.LEAD:
            leads.setdefault(row.project_id, []).append(row.user)
    return {
        request.pk: [request.requester]
        if (request.project_id, request.requester_id) in members
        or access.may_read_everything(request.requester)
        else leads.get(request.project_id, [])
        for request in requests
    }


def _ending_soon(now: datetime) -> QuerySet[Request]:
    soon = Request.objects.filter(state__in=LIVE, expires_at__gt=now, expires_at__lte=now + max(STEPS))
    return soon.select_related("project", "requester", "flavor").order_by("expires_at", "pk")


def _key(request: Request, step: timedelta) -> str:
    end = request.expires_at.isoformat() if request.expires_at else ""
    return f"expiry:{request.key}:{end}:{step // timedelta(hours=1)}"


def _tell(request: Request, key: str, *, now: datetime) -> None:
    assert request.expires_at is not None, "it is ending"
    left = -(-(request.expires_at - now) // ROUND) * ROUND
    message = (
        gettext_noop("%(request)s gives up waiting in %(left)s, at %(at)s.")
        if request.state in _WAITING
        else gettext_noop("The time of %(request)s is over in %(left)s, at %(at)s.")
    )
    tell(
        people=people_of(request),
        kind=Kind.EXPIRY,
        subject=Text(message, request=name_of(request), left=left, at=request.expires_at),
        body=as_written(request.purpose) if request.purpose else None,
        url=reverse("request-detail", args=[request.key]),
        project=request.project,
        key=key,
        thread=str(request.key),
        facts={"request": str(request.key), "expires_at": request.expires_at.isoformat()},
        now=now,
    )
