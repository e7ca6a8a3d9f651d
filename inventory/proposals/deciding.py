"""What administrators decide about a proposal: approve, reject, withdraw; and what they write about it.

Each decision holds the row locked and is about the drawing that was looked at: of two who decide at the same
moment, one is told that it was decided.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from inventory.models import ClassProposal, ProposalEntry, ProposalTarget
from inventory.proposals import drawing, news, rules, signals
from inventory.proposals.trail import enter, record
from portal import access, texts
from portal.accounts.models import User

State = ClassProposal.State
Entry = ProposalEntry.Kind
MAX_COMMENT = 2000


class UnableToDecide(Exception):
    """Nothing was decided. `field`: "comment", "confirmed" or ""; `code` is for programs."""

    def __init__(self, message: str, *, field: str = "", code: str = "not_possible") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code


def approve(
    *,
    proposal: ClassProposal,
    user: User,
    revision: int,
    now: datetime,
    comment: object = "",
    confirmed: str = "",
    rule: rules.Rule,
    source_ip: str | None = None,
) -> None:
    """Agree; it is rolled out then. Where a class is no longer what the change was drawn from, it is outdated
    instead, and UnableToDecide says so. `confirmed`: the name of the class, where it is deleted though
    somebody uses it. Raises UnableToDecide."""
    if access.only_looks():
        raise UnableToDecide(access.why_only_looks(), code="only_looks")
    text = read_comment(comment)
    with transaction.atomic():
        _lock(proposal, revision)
        if proposal.state not in (State.OPEN, State.OUTDATED):
            raise _decided(proposal)
        if not rules.may_approve(
            user, author_id=proposal.author_id, drawn_by_id=proposal.drawn_by_id, rule=rule
        ):
            said = _("A second administrator approves: not who proposed it or drew it anew.")
            raise UnableToDecide(said, code="own_proposal")
        targets = list(proposal.targets.select_related("cluster"))
        if any(target.users for target in targets) and confirmed != proposal.name:
            said = _("It is used. Type the name of the class to approve its deletion all the same.")
            raise UnableToDecide(said, field="confirmed", code="in_use")
        moved = drawing.moved(proposal, targets)
        if moved:
            outdate(proposal, moved, user=user, now=now)
        else:
            proposal.approved_by = user
            _move(proposal, State.APPROVED, Entry.APPROVED, user, now=now, text=text, source_ip=source_ip)
            news.decided(proposal, by=user, now=now, text=text)
            transaction.on_commit(lambda: signals.approved.send(ClassProposal, proposal_id=proposal.pk))
    if moved:
        # After the commit: that it is outdated is kept.
        raise UnableToDecide(
            _("The class is no longer what this was drawn from, on: %(clusters)s. Draw it anew.")
            % {"clusters": ", ".join(target.cluster.name for target in moved)},
            code="outdated",
        )


def outdate(
    proposal: ClassProposal, moved: Sequence[ProposalTarget], *, user: User | None, now: datetime
) -> None:
    """A class is no longer what the change was drawn from. Inside the caller's transaction."""
    if proposal.state != State.OUTDATED:
        where = ", ".join(target.cluster.name for target in moved)
        _move(proposal, State.OUTDATED, Entry.OUTDATED, user, now=now, text=where)
        news.decided(proposal, by=None, now=now, text=where)


def reject(
    *,
    proposal: ClassProposal,
    user: User,
    revision: int,
    now: datetime,
    comment: object,
    source_ip: str | None = None,
) -> None:
    """Turn it down; the comment says why. Raises UnableToDecide."""
    text = read_comment(comment)
    if not text:
        raise UnableToDecide(_("Say why, so that the author knows what to change."), field="comment")
    with transaction.atomic():
        _lock(proposal, revision)
        if proposal.state not in (State.OPEN, State.OUTDATED):
            raise _decided(proposal)
        _move(proposal, State.REJECTED, Entry.REJECTED, user, now=now, text=text, source_ip=source_ip)
        news.decided(proposal, by=user, now=now, text=text)


def withdraw(
    *,
    proposal: ClassProposal,
    user: User,
    now: datetime,
    comment: object = "",
    source_ip: str | None = None,
) -> None:
    """Take one's own proposal back. Raises UnableToDecide."""
    text = read_comment(comment)
    with transaction.atomic():
        _lock(proposal, None)
        if proposal.state not in (State.OPEN, State.OUTDATED):
            raise _decided(proposal)
        if user.pk not in (proposal.author_id, proposal.drawn_by_id):
            raise UnableToDecide(_("Only its author withdraws it; others reject it."), code="not_author")
        if proposal.targets.filter(state=ProposalTarget.State.DONE).exists():
            raise UnableToDecide(_("A part of it is applied already: give up the rest, or roll it back."))
        _move(proposal, State.WITHDRAWN, Entry.WITHDRAWN, user, now=now, text=text, source_ip=source_ip)


def comment(
    *, proposal: ClassProposal, user: User, text: object, now: datetime, source_ip: str | None = None
) -> ProposalEntry:
    """Write something about it, in whatever state it is. Raises UnableToDecide."""
    said = read_comment(text)
    if not said:
        raise UnableToDecide(_("There is nothing written."), field="comment")
    with transaction.atomic():
        made = enter(proposal, Entry.COMMENT, user, now=now, text=said)
        record(proposal, "comment", actor=user, now=now, source_ip=source_ip, after={"text": said})
        news.said(proposal, by=user, now=now, text=said, entry=made.pk)
    return made


def read_comment(value: object) -> str:
    """What is said with a decision, in its one form. Raises UnableToDecide."""
    if not isinstance(value, str):
        raise UnableToDecide(_("This is not a text."), field="comment")
    try:
        text = texts.plain(value)
    except texts.UncleanText as unclean:
        raise UnableToDecide(unclean.message, field="comment") from None
    if len(text) > MAX_COMMENT:
        said = _("It has at most %(limit)s characters.") % {"limit": MAX_COMMENT}
        raise UnableToDecide(said, field="comment")
    return text


def _lock(proposal: ClassProposal, revision: int | None) -> None:
    proposal.refresh_from_db(from_queryset=ClassProposal.objects.select_for_update())
    if revision is not None and proposal.revision != revision:
        raise UnableToDecide(_("It was drawn anew meanwhile. Look at it again."), code="redrawn")


def _decided(proposal: ClassProposal) -> UnableToDecide:
    state = proposal.get_state_display()
    return UnableToDecide(
        _("It no longer waits for a decision: it is “%(state)s”.") % {"state": state}, code="decided"
    )


def _move(
    proposal: ClassProposal,
    state: str,
    kind: str,
    user: User | None,
    *,
    now: datetime,
    text: str = "",
    source_ip: str | None = None,
) -> None:
    before = proposal.state
    proposal.state, proposal.changed_at = state, now
    proposal.save(update_fields=["state", "changed_at", "approved_by"])
    enter(proposal, kind, user, now=now, text=text)
    record(
        proposal,
        {State.APPROVED: "approve", State.REJECTED: "reject", State.WITHDRAWN: "withdraw"}.get(
            State(state), "outdate"
        ),
        actor=user,
        now=now,
        source_ip=source_ip,
        before={"state": before},
        after={"state": str(state), **({"message": text} if text else {})},
    )
