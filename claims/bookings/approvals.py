"""Approving bookings ahead: by the rules of requests (`claims.requests.approvals`), before the time has
come."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import cast

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from claims.bookings import news
from claims.bookings.booking import change, record
from claims.models import Booking, BookingDecision, Decision, Flavor, Request
from claims.models.bookings import BookingQuerySet
from claims.requests.approvals import UnableToDecide, Verdict, open_roles, read_comment, role_of
from portal import access
from portal.accounts.models import Membership, User

State = Booking.State


def may_decide(user: User, booking: Booking, decisions: Sequence[BookingDecision]) -> bool:
    """Whether the person may decide about the booking now."""
    if booking.state != State.WAITING_FOR_APPROVAL:
        return False
    try:
        role_of(user, _asked(booking), _given(decisions))
    except PermissionDenied:
        return False
    return True


def missing(booking: Booking, decisions: Sequence[BookingDecision]) -> list[str]:
    """Whose agreement the booking still lacks."""
    return open_roles(_asked(booking), _given(decisions))


def decidable(user: User) -> BookingQuerySet:
    """Bookings that wait for a decision in projects that `user` leads; all for administrators and
    auditors."""
    rows = Booking.objects.filter(state=State.WAITING_FOR_APPROVAL)
    if access.may_read_everything(user):
        return rows
    led = Membership.objects.filter(user=user, role=Membership.Role.LEAD).values("project")
    return rows.filter(Q(approval__in=[Flavor.Approval.LEAD, Flavor.Approval.BOTH]), project__in=led)


def decide(
    *,
    booking: Booking,
    user: User,
    verdict: str,
    comment: object,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Approve or refuse ahead. With the last agreement that was missing it is booked; one refusal ends it.
    Raises UnableToDecide, and PermissionDenied for who may not."""
    if access.only_looks():
        raise UnableToDecide(access.why_only_looks())
    text = read_comment(comment, verdict)
    with transaction.atomic():
        booking.refresh_from_db(from_queryset=Booking.objects.select_for_update())
        decisions = list(booking.decisions.all())
        if booking.state != State.WAITING_FOR_APPROVAL:
            raise UnableToDecide(
                _("It no longer waits for a decision: it is “%(state)s”.")
                % {"state": State(booking.state).label}
            )
        role = role_of(user, _asked(booking), _given(decisions))
        if verdict == Verdict.APPROVED and booking.project.archived_at is not None:
            raise UnableToDecide(_("This project is archived."))
        try:
            with transaction.atomic():
                made = BookingDecision.objects.create(
                    booking=booking, role=role, verdict=verdict, person=user, comment=text, at=now
                )
        except IntegrityError:
            raise UnableToDecide(_("Somebody decided at the same moment.")) from None
        waiting = State.WAITING_FOR_APPROVAL
        if verdict == Verdict.REJECTED:
            change(
                booking, to=State.REFUSED, expected=waiting, now=now, actor=user, action="booking.reject",
                message=text, ip=source_ip,
            )  # fmt: skip
        elif missing(booking, [*decisions, made]):
            after = {"approved_as": role, **({"message": text} if text else {})}
            record(booking, "booking.approve", actor=user, now=now, after=after, ip=source_ip)
            return
        else:
            change(
                booking, to=State.BOOKED, expected=waiting, now=now, actor=user, action="booking.approve",
                ip=source_ip,
            )  # fmt: skip
        news.decided(booking, now=now)


def _asked(booking: Booking) -> Request:
    # What the rules read – requester, project, who has to agree – bookings call by the same names.
    return cast("Request", booking)


def _given(decisions: Sequence[BookingDecision]) -> Collection[Decision]:
    return cast("Collection[Decision]", decisions)
