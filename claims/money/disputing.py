"""Disputes: somebody of the project does not agree with a charge; finance answers. Every step is kept."""

from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.models import Charge, Dispute, DisputeEntry
from claims.money.shutting import write_alone
from portal import access
from portal.accounts import audit
from portal.accounts.models import User

State = Dispute.State


class UnableToDispute(Exception):
    """Nothing happened; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def open_dispute(
    *, charge: Charge, text: str, actor: User, now: datetime, source_ip: str | None = None
) -> Dispute:
    """Dispute a charge of a project. Raises UnableToDispute."""
    if charge.project is None:
        raise UnableToDispute(_("Nobody pays for it."))
    said = _said(text)
    try:
        with transaction.atomic():
            # What is disputed is not taken away; whoever rates looks for that, and meanwhile it may be gone.
            write_alone()
            if not Charge.objects.filter(pk=charge.pk, project=charge.project).exists():
                raise UnableToDispute(_("It has moved on meanwhile. Look at it again."))
            dispute = Dispute.objects.create(
                project=charge.project, charge=charge, opened_at=now, opened_by=actor
            )
            DisputeEntry.objects.create(dispute=dispute, at=now, by=actor, state=State.OPEN, text=said)
            audit.record(
                now=now,
                actor=actor,
                action="dispute.open",
                target=dispute,
                project=charge.project,
                after={"charge": charge.pk, "text": said},
                source_ip=source_ip,
            )
    except IntegrityError:
        raise UnableToDispute(_("This charge is disputed already.")) from None
    return dispute


def answer(
    *,
    dispute: Dispute,
    state: str,
    text: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Say something (`state` stays open), or end it: accepted and rejected are finance's, withdrawn is the
    project's; who may is the caller's to know. What is accepted is made good by an adjustment. Raises
    UnableToDispute."""
    said = _said(text)
    with transaction.atomic():
        row = Dispute.objects.select_for_update().select_related("project").get(pk=dispute.pk)
        if row.state != State.OPEN:
            raise UnableToDispute(_("The dispute is over."))
        DisputeEntry.objects.create(dispute=row, at=now, by=actor, state=state, text=said)
        if state != State.OPEN:
            row.state = state
            row.save(update_fields=["state"])
        audit.record(
            now=now,
            actor=actor,
            action="dispute.answer",
            target=row,
            project=row.project,
            after={"state": state, "text": said},
            source_ip=source_ip,
        )


def _said(text: str) -> str:
    if not text.strip():
        raise UnableToDispute(_("Say what is wrong, in a few words."))
    return text.strip()[:1000]


def steps_of(user: User, dispute: Dispute) -> list[str]:
    """The states that somebody may put a dispute into, or leave it in."""
    keeps, leads = access.may_keep_accounts(user), access.may_lead(user, dispute.project)
    steps = [State.OPEN.value] if keeps or leads else []
    if keeps:
        steps += [State.ACCEPTED.value, State.REJECTED.value]
    if leads:
        steps.append(State.WITHDRAWN.value)
    return steps
