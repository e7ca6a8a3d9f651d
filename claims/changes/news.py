"""What people are told of changes of requests: approvers of what waits for them, requesters of what became of
it. Called inside the transaction of the change."""

from collections.abc import Mapping
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import Flavor, Request, RequestChange
from claims.requests.news import approvers_of, name_of
from portal.accounts.models import User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

State = RequestChange.State

_SENTENCES: Mapping[str, str] = {
    State.OFFERED: gettext_noop("%(request)s is approved on a condition: accept it or withdraw."),
    State.APPLIED: gettext_noop("%(request)s is changed as you asked."),
    State.REJECTED: gettext_noop("The change of %(request)s is rejected."),
    State.FAILED: gettext_noop("%(request)s could not be changed."),
}


def tell_approvers(change: RequestChange, *, now: datetime) -> None:
    """The change waits for a decision: those who may decide hear of it."""
    # The same people as for a request of the same approval by the same person.
    like = Request(
        project=change.request.project,
        requester=change.person,
        approval=change.approval,
        own_approval=change.own_approval,
    )
    if change.approval == Flavor.Approval.NONE:
        return
    tell(
        people=approvers_of(like),
        kind=Kind.APPROVAL,
        subject=Text(
            gettext_noop("%(person)s asks for a change of %(request)s."),
            person=as_written(str(change.person)),
            request=name_of(change.request),
        ),
        body=as_written(change.reason),
        url=reverse("request-detail", args=[change.request.key]),
        project=change.request.project,
        key=f"change:{change.key}:{change.changed_at.isoformat()}",
        thread=str(change.request.key),
        facts={"request": str(change.request.key), "change": str(change.key), "state": change.state},
        now=now,
    )


def tell_requester(change: RequestChange, *, actor: User | None, now: datetime) -> None:
    """Something became of the change; who did it themselves is not told."""
    sentence = _SENTENCES.get(change.state)
    asker = change.request.requester if change.origin == RequestChange.Origin.APPROVER else change.person
    if sentence is None or (actor is not None and actor.pk == asker.pk):
        return
    said = change.message or change.comment
    tell(
        people=[asker],
        kind=Kind.REQUEST,
        subject=Text(sentence, request=name_of(change.request)),
        body=as_written(said[:1000]) if said else None,
        url=reverse("request-detail", args=[change.request.key]),
        project=change.request.project,
        key=f"change:{change.key}:{change.state}:{now.isoformat()}",
        thread=str(change.request.key),
        facts={"request": str(change.request.key), "change": str(change.key), "state": change.state},
        now=now,
    )
