"""Credit notes and adjustments by hand: proposed by one person with a reason, decided by another. An approved
one is a charge of the month that is open for its project."""

from datetime import UTC, datetime, tzinfo
from fractions import Fraction

from django.db import transaction
from django.utils.translation import gettext as _

from claims.history.curves import us
from claims.models import Adjustment, Charge, Statement
from claims.money import announcing
from claims.money.months import Month
from claims.money.rating import content_of
from claims.money.shutting import write_alone
from portal import money
from portal.accounts import audit
from portal.accounts.models import Project, User


class UnableToAdjust(Exception):
    """Nothing is adjusted; `message` says why, `field` names the input ("" = the whole)."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message, self.field = message, field


def propose(
    *,
    project: Project,
    month: Month,
    minor: int,
    currency: str,
    reason: str,
    actor: User,
    now: datetime,
    refers_to: Statement | None = None,
    source_ip: str | None = None,
    zone: tzinfo = UTC,
) -> Adjustment:
    """Propose an amount in minor units: less than 0 is a credit. Months are those of `zone`. Raises
    UnableToAdjust."""
    if not minor:
        raise UnableToAdjust(_("An adjustment of nothing changes nothing."), field="amount")
    if not reason.strip():
        raise UnableToAdjust(_("Say why."), field="reason")
    if _closed(project, month):
        raise UnableToAdjust(
            _("%(month)s is closed: adjust it in a month that is open.") % {"month": month}, field="month"
        )
    if month.start(zone) > now:
        # A year that was mistyped would be found when that month is closed, if ever.
        raise UnableToAdjust(_("%(month)s has not begun yet.") % {"month": month}, field="month")
    with transaction.atomic():
        made = Adjustment.objects.create(
            project=project,
            month=str(month),
            minor=minor,
            currency=currency,
            reason=reason.strip(),
            refers_to=refers_to,
            proposed_at=now,
            proposed_by=actor,
        )
        audit.record(
            now=now,
            actor=actor,
            action="adjustment.propose",
            target=made,
            project=project,
            after={"month": str(month), "amount": str(made.amount), "currency": currency, "reason": reason},
            source_ip=source_ip,
        )
    return made


def decide(
    *,
    adjustment: Adjustment,
    approve: bool,
    actor: User,
    now: datetime,
    note: str = "",
    source_ip: str | None = None,
    zone: tzinfo = UTC,
) -> None:
    """Agree to it, or not; it counts where its month begins in `zone`. Raises UnableToAdjust for who proposed
    it, and once its month is closed."""
    with transaction.atomic():
        write_alone()
        row = (
            Adjustment.objects.select_for_update(of=("self",))
            .select_related("project", "refers_to")
            .get(pk=adjustment.pk)
        )
        if row.state != Adjustment.State.PROPOSED:
            raise UnableToAdjust(_("Somebody has decided already."))
        if row.proposed_by_id == actor.pk:
            raise UnableToAdjust(_("A second person has to decide: you proposed it."))
        if approve and _closed(row.project, Month.parse(row.month)):
            raise UnableToAdjust(_("Its month is closed meanwhile. Reject it, and propose it for another."))
        row.state = Adjustment.State.APPROVED if approve else Adjustment.State.REJECTED
        row.decided_at, row.decided_by, row.decision_note = now, actor, note.strip()[:500]
        row.save(update_fields=["state", "decided_at", "decided_by", "decision_note"])
        if approve:
            _charge(row, zone)
            announcing.agreed(row, now=now)
        audit.record(
            now=now,
            actor=actor,
            action="adjustment.approve" if approve else "adjustment.reject",
            target=row,
            project=row.project,
            after={"state": row.state, "note": row.decision_note},
            source_ip=source_ip,
        )


def _charge(row: Adjustment, zone: tzinfo) -> None:
    month = Month.parse(row.month)
    statement = Statement.objects.filter(project=row.project, month=row.month).first()
    at = statement.starts_at if statement else month.start(zone)
    charge = Charge(
        kind=Charge.Kind.CREDIT if row.minor < 0 else Charge.Kind.ADJUSTMENT,
        source=f"adjustment-{row.pk}",
        month=row.month,
        started_us=us(at),
        ended_us=us(at),
        project=row.project,
        currency=row.currency,
        quantity=Fraction(1),  # type: ignore[misc] # the field takes fractions
        fixed=Fraction(row.minor, 10 ** money.exponent(row.currency)),
        unit="",
        use="",
        note=row.reason,
    )
    charge.content = content_of(charge)
    charge.save()


def _closed(project: Project, month: Month) -> bool:
    return Statement.objects.filter(project=project, month=str(month), state=Statement.State.CLOSED).exists()
