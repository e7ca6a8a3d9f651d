"""The course of statements: open → in review → closed, and back from review. Closing is for good: the month's
charges and lines are kept with a digest over them, and the database refuses to change them afterwards."""

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import datetime, tzinfo
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from claims.models import Adjustment, Charge, Dispute, PriceBook, Statement, StatementLine
from claims.money import announcing
from claims.money.idle_cost import is_passed_on, pass_on_anew, rate_idle
from claims.money.months import Month
from claims.money.rated import rate_month
from claims.money.shutting import write_alone
from claims.money.statements import Line, lines_of, stored_lines
from portal.accounts import audit
from portal.accounts.models import Membership, Project, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text

State = Statement.State
MOVES = {"review": (State.OPEN, State.REVIEW), "reopen": (State.REVIEW, State.OPEN)}


class UnableToMove(Exception):
    """The statement stays as it is; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def move(
    *,
    project: Project | None,
    month: Month,
    zone: tzinfo,
    action: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> Statement:
    """Put a statement into review, or take it back. Raises UnableToMove."""
    before, after = MOVES[action]
    start, end = month.bounds(zone)
    if now < end:
        raise UnableToMove(_("The month is not over yet."))
    with transaction.atomic():
        row, _made = Statement.objects.get_or_create(
            project=project,
            month=str(month),
            defaults={"zone": str(zone), "starts_at": start, "ends_at": end},
        )
        row = Statement.objects.select_for_update().get(pk=row.pk)
        if row.state != before:
            raise UnableToMove(_wrong_state(row))
        row.state = after
        in_review = after == State.REVIEW
        row.reviewed_at, row.reviewed_by = (now, actor) if in_review else (None, None)
        row.save(update_fields=["state", "reviewed_at", "reviewed_by"])
        audit.record(
            now=now,
            actor=actor,
            action=f"statement.{action}",
            target=row,
            project=project,
            before={"state": before},
            after={"state": after},
            source_ip=source_ip,
        )
    return row


def close(
    *,
    project: Project | None,
    month: Month,
    zone: tzinfo,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
    rated: bool = False,
    books: Collection[int] | None = None,
) -> Statement:
    """Close a statement that is in review, for good; its month is rated once more before (unless it has just
    been `rated`, by these price `books`). Raises UnableToMove while something about it is undecided, and
    where another book was published in between."""
    if not rated:
        books = _books()
        rate_month(month=month, zone=zone)
        announcing.corrections(month=month, now=now)
        passed_on = is_passed_on(month=month)
        if project is None or passed_on:
            rate_idle(month=month, zone=zone, now=now)
        if passed_on:
            pass_on_anew(month=month, zone=zone, actor=actor, now=now)
    with transaction.atomic():
        write_alone()
        row = Statement.objects.select_for_update().filter(project=project, month=str(month)).first()
        if row is None or row.state != State.REVIEW:
            raise UnableToMove(_wrong_state(row))
        if books is not None and books != _books():
            raise UnableToMove(_("It has moved on meanwhile. Look at it again."))
        if Adjustment.objects.filter(
            project=project, month=str(month), state=Adjustment.State.PROPOSED
        ).exists():
            raise UnableToMove(_("An adjustment still waits for a second person."))
        charges = Charge.objects.filter(project=project, month=str(month))
        if Dispute.objects.filter(charge__in=charges, state=Dispute.State.OPEN).exists():
            raise UnableToMove(_("A charge is disputed: the dispute has to be answered first."))
        # Of the zone that it was rated in, should that have changed since it was reviewed.
        row.zone, (row.starts_at, row.ends_at) = str(zone), month.bounds(zone)
        lines = lines_of(charges, now=row.ends_at)
        StatementLine.objects.bulk_create(_stored(row, lines))
        row.digest = digest(charges, lines)
        row.state, row.closed_at, row.closed_by = State.CLOSED, now, actor
        charges.update(closed=True)
        row.save()
        audit.record(
            now=now,
            actor=actor,
            action="statement.close",
            target=row,
            project=project,
            before={"state": State.REVIEW},
            after={"state": State.CLOSED, "digest": row.digest, "lines": len(lines)},
            source_ip=source_ip,
        )
        announcing.closed(row, lines, now=now)
        if project is not None:
            _tell_closed(row, project, lines, now=now)
    return row


def move_all(
    *,
    projects: Sequence[Project | None],
    month: Month,
    zone: tzinfo,
    action: str,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> tuple[int, list[tuple[Project | None, str]]]:
    """The same for many, each by itself: how many were moved, and why the others were not. Those that are in
    another state are passed over."""
    wanted = State.REVIEW if action == "close" else MOVES[action][0]
    states: dict[int | None, str] = dict(
        Statement.objects.filter(month=str(month)).values_list("project_id", "state")
    )
    moved, refused = 0, []
    books = _books()
    if action == "close":
        rate_month(month=month, zone=zone)
        announcing.corrections(month=month, now=now)
        rate_idle(month=month, zone=zone, now=now)
        if is_passed_on(month=month):
            pass_on_anew(month=month, zone=zone, actor=actor, now=now)
    for project in projects:
        if states.get(project.pk if project else None, State.OPEN) != wanted:
            continue
        common: dict[str, Any] = {
            "project": project, "month": month, "zone": zone, "actor": actor, "now": now,
            "source_ip": source_ip,
        }  # fmt: skip
        try:
            if action == "close":
                close(**common, rated=True, books=books)
            else:
                move(**common, action=action)
        except UnableToMove as unable:
            refused.append((project, unable.message))
        else:
            moved += 1
    return moved, refused


def _books() -> set[int]:
    return set(PriceBook.objects.values_list("pk", flat=True))


def digest(charges: Any, lines: Sequence[Line]) -> str:
    """SHA-256 over the content of every charge, in order of time, and over every line."""
    told = hashlib.sha256()
    ordered = charges.order_by("started_us", "source", "kind").values_list("content", flat=True)
    for content in ordered.iterator(chunk_size=5_000):
        told.update(content.encode())
    for line in lines:
        told.update(json.dumps([*line.key, str(line.time), str(line.exact), line.minor]).encode())
    return told.hexdigest()


def verify(row: Statement) -> bool:
    """Whether a closed statement still is what it was closed with."""
    charges = Charge.objects.filter(project=row.project_id, month=row.month)
    return digest(charges, stored_lines(row.lines.order_by("position"))) == row.digest


def _stored(row: Statement, lines: Sequence[Line]) -> list[StatementLine]:
    return [
        StatementLine(
            statement=row,
            position=position,
            time=line.time,  # type: ignore[misc] # the field takes fractions
            exact=line.exact,
            minor=line.minor,
            **line.key._asdict(),
        )
        for position, line in enumerate(lines, start=1)
    ]


def _tell_closed(row: Statement, project: Project, lines: Sequence[Line], *, now: datetime) -> None:
    leads = Membership.objects.filter(project=project, role=Membership.Role.LEAD).select_related("user")
    totals: dict[str, int] = {}
    for line in lines:
        if line.minor is not None:
            totals[line.key.currency] = totals.get(line.key.currency, 0) + line.minor
    tell(
        people=[membership.user for membership in leads],
        kind=Kind.COST,
        subject=Text(
            gettext_noop("The statement of %(project)s for %(month)s is closed."),
            project=project.name,
            month=row.month,
        ),
        url=reverse("statement-detail", args=[row.month, project.slug]),
        now=now,
        project=project,
        key=f"statement-closed:{row.pk}",
        facts={"month": row.month, "digest": row.digest, "totals_in_minor_units": totals},
    )


def _wrong_state(row: Statement | None) -> str:
    state = Statement.State(row.state if row else State.OPEN).label
    return _("The statement is %(state)s.") % {"state": state}
