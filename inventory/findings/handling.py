"""What people do about findings: acknowledge, put off, take and finish diagnosis tasks. All is audited."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from inventory.models import DiagnosisTask, Finding
from portal import texts
from portal.accounts import audit
from portal.accounts.models import User

MAX_NOTE = 1000
MAX_SNOOZE = timedelta(days=90)

State = DiagnosisTask.State


class UnableToHandle(ValueError):
    """`field` is what is at fault ("note", "days", "state", "owner", "" = none)."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def acknowledge(
    *, finding: Finding, note: str, actor: User, now: datetime, source_ip: str | None = None
) -> Finding:
    """Somebody knows of it; it leaves the list of what is new. Raises UnableToHandle when it no longer
    holds."""
    return _handle(
        finding,
        "finding.acknowledge",
        {"acknowledged_at": now, "acknowledged_by": actor, "snoozed_until": None, "note": _note(note)},
        actor=actor,
        now=now,
        source_ip=source_ip,
    )


def snooze(
    *,
    finding: Finding,
    until: datetime,
    note: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> Finding:
    """Out of sight until then. Raises UnableToHandle for a time that is past or too far away, and when it no
    longer holds."""
    if not now < until <= now + MAX_SNOOZE:
        raise UnableToHandle(
            "days", _("It can be put off for %(days)d days at most.") % {"days": MAX_SNOOZE.days}
        )
    return _handle(
        finding,
        "finding.snooze",
        {"acknowledged_at": None, "acknowledged_by": actor, "snoozed_until": until, "note": _note(note)},
        actor=actor,
        now=now,
        source_ip=source_ip,
    )


def take_back(*, finding: Finding, actor: User, now: datetime, source_ip: str | None = None) -> Finding:
    """As if it had neither been acknowledged nor put off; the note stays."""
    return _handle(
        finding,
        "finding.reopen",
        {"acknowledged_at": None, "acknowledged_by": None, "snoozed_until": None},
        actor=actor,
        now=now,
        source_ip=source_ip,
    )


@transaction.atomic
def _handle(
    finding: Finding,
    action: str,
    values: dict[str, Any],
    *,
    actor: User,
    now: datetime,
    source_ip: str | None,
) -> Finding:
    row = Finding.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=finding.pk)
    if row.resolved_at is not None:
        raise UnableToHandle("", _("It no longer holds: there is nothing left to do about it."))
    before = {name: _plain(getattr(row, name)) for name in values}
    after = {name: _plain(value) for name, value in values.items()}
    changed_from, changed_to = audit.changes(before, after)
    if changed_to is None:
        return row
    for name, value in values.items():
        setattr(row, name, value)
    row.save(update_fields=list(values))
    audit.record(
        now=now,
        actor=actor,
        action=action,
        target=row,
        target_name=f"{row.cluster.name}: {row.kind} {row.subject}",
        before=changed_from,
        after=changed_to,
        source_ip=source_ip,
    )
    return row


# --- diagnosis tasks ---------------------------------------------------------------------------------


@transaction.atomic
def change_task(
    *,
    task: DiagnosisTask,
    state: str,
    owner: User | None,
    note: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> DiagnosisTask:
    """Give a task a state, an owner and a note. Work in progress has an owner: without one it is the
    actor's. Raises UnableToHandle."""
    if state not in State.values:
        raise UnableToHandle("state", _("A task is open, in work or done."))
    if owner is not None and (not owner.is_active or not owner.is_administrator or owner.is_auditor):
        raise UnableToHandle("owner", _("Only platform administrators work on tasks."))
    row = (
        DiagnosisTask.objects.select_for_update(of=("self",))
        .select_related("cluster", "owner")
        .get(pk=task.pk)
    )
    if row.state == State.DONE and state != State.DONE and _has_successor(row):
        raise UnableToHandle("state", _("The fault came back, and a later task is about it."))
    if state == State.IN_WORK and owner is None:
        owner = actor
    values: dict[str, Any] = {"state": state, "owner": owner, "note": _note(note)}
    before, after = audit.changes(
        {name: _plain(getattr(row, name)) for name in values},
        {name: _plain(value) for name, value in values.items()},
    )
    if after is None:
        return row
    row.state, row.owner, row.note = state, owner, values["note"]
    row.done_at = (row.done_at or now) if state == State.DONE else None
    row.changed_at = now
    row.save()
    audit.record(
        now=now,
        actor=actor,
        action="diagnosis.change",
        target=row,
        target_name=f"{row.cluster.name}: {row.subject}",
        before=before,
        after=after,
        source_ip=source_ip,
    )
    return row


def _has_successor(task: DiagnosisTask) -> bool:
    open_ones = DiagnosisTask.objects.filter(cluster=task.cluster_id, subject=task.subject, done_at=None)
    return open_ones.exists()


def _note(text: str) -> str:
    try:
        note = texts.plain(text)
    except texts.UncleanText as unclean:
        raise UnableToHandle("note", unclean.message) from None
    if len(note) > MAX_NOTE:
        raise UnableToHandle("note", _("A note has at most %(limit)d characters.") % {"limit": MAX_NOTE})
    return note


def _plain(value: Any) -> Any:
    """As an audit entry keeps it."""
    if isinstance(value, User):
        return value.username
    return value.isoformat() if isinstance(value, datetime) else value
