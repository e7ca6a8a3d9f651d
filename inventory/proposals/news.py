"""Who hears of a proposal: administrators that it waits for them, its author what became of it."""

from datetime import datetime

from django.db.models import Count, Q
from django.urls import reverse
from django.utils.translation import gettext_noop

from inventory.models import ClassProposal
from inventory.proposals import rules
from portal.accounts.models import User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written


def proposed(proposal: ClassProposal, *, now: datetime) -> None:
    """It waits for approval: those hear of it who may approve, unless it is their own."""
    own = {proposal.author_id, proposal.drawn_by_id}
    others = User.objects.filter(is_administrator=True, is_auditor=False, is_active=True).exclude(pk__in=own)
    subject = Text(
        gettext_noop("%(person)s proposes to change the device class %(name)s"),
        person=as_written(str(proposal.drawn_by)),
        name=as_written(proposal.name),
    )
    _tell(proposal, list(others.order_by("pk")), subject, now=now, about="proposed")


def decided(proposal: ClassProposal, *, by: User | None, now: datetime, text: str = "") -> None:
    """Its state is another by now: author and drawer hear of it, unless they did it."""
    subject = Text(
        gettext_noop("The proposal for the device class %(name)s: %(state)s"),
        name=as_written(proposal.name),
        state=ClassProposal.State(proposal.state).label,
    )
    people = {person.pk: person for person in (proposal.author, proposal.drawn_by)}
    if by is not None:
        people.pop(by.pk, None)
    _tell(proposal, list(people.values()), subject, now=now, about=proposal.state, text=text)


def said(proposal: ClassProposal, *, by: User, now: datetime, text: str, entry: int) -> None:
    """Somebody wrote something: author, drawer and all who wrote before hear of it."""
    subject = Text(
        gettext_noop("%(person)s wrote about the proposal for the device class %(name)s"),
        person=as_written(str(by)),
        name=as_written(proposal.name),
    )
    wrote = set(proposal.entries.exclude(person=None).values_list("person", flat=True))
    wrote |= {proposal.author_id, proposal.drawn_by_id}
    wrote.discard(by.pk)
    people = User.objects.filter(pk__in=wrote, is_active=True, is_administrator=True).order_by("pk")
    _tell(proposal, list(people), subject, now=now, about=f"entry-{entry}", text=text)


def waiting(user: User) -> tuple[int, int]:
    """How many proposals this administrator may approve or has to draw anew, and how many roll-outs have
    stopped and wait for anybody; one query."""
    state = ClassProposal.State
    open_ones = Q(state__in=[state.OPEN, state.OUTDATED])
    if rules.in_force() is rules.Rule.SECOND:
        own = Q(author=user) | Q(drawn_by=user)
        open_ones = (Q(state=state.OPEN) & ~own) | (Q(state=state.OUTDATED) & own)
    stopped = Q(state__in=[state.PARTLY, state.FAILED], given_up_at=None)
    found = ClassProposal.objects.aggregate(
        waits=Count("pk", filter=open_ones), stopped=Count("pk", filter=stopped)
    )
    return int(found["waits"]), int(found["stopped"])


def _tell(
    proposal: ClassProposal, people: list[User], subject: Text, *, now: datetime, about: str, text: str = ""
) -> None:
    body = text or proposal.reason
    tell(
        people=people,
        kind=Kind.CLASS,
        subject=subject,
        body=as_written(body) if body else None,
        url=reverse("class-proposal-detail", args=[proposal.pk]),
        key=f"class-proposal:{proposal.pk}:{proposal.revision}:{about}:{now.isoformat()}"[:160],
        thread=f"class-proposal-{proposal.pk}",
        facts={"proposal": proposal.pk, "name": proposal.name, "state": proposal.state},
        now=now,
    )
