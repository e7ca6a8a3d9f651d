"""What is written down about a proposal: its story for those who review it, and the audit trail."""

from datetime import datetime
from typing import Any

from inventory.models import ClassProposal, ProposalEntry
from portal.accounts import audit
from portal.accounts.models import User


def enter(
    proposal: ClassProposal, kind: str, person: User | None, *, now: datetime, text: str = ""
) -> ProposalEntry:
    """One more line of its story; `person` None = the desk itself."""
    return ProposalEntry.objects.create(
        proposal=proposal,
        kind=kind,
        person=person,
        text=text[:2000],
        revision=proposal.revision,
        at=now,
    )


def record(
    proposal: ClassProposal,
    verb: str,
    *,
    actor: User | None,
    now: datetime,
    source_ip: str | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """An entry of the audit trail, inside the transaction of what it is about."""
    audit.record(
        now=now,
        actor=actor,
        action=f"class_proposal.{verb}",
        target=proposal,
        target_kind="classproposal",
        before=before,
        after=after,
        source_ip=source_ip,
    )
