"""What people are told about bookings. The one place that calls the notifications for them."""

from collections.abc import Iterable
from datetime import datetime

from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_noop

from claims.models import Booking, Flavor
from portal.accounts.models import Membership, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text

_ASKED = gettext_noop("%(person)s asks to book %(what)s from %(at)s on.")
_DECIDED = gettext_noop("The booking of %(what)s from %(at)s on is %(state)s.")
_STARTED = gettext_noop("The booking of %(what)s has started: the desk asks for the devices and holds them.")
_MISSED = gettext_noop("The booking of %(what)s from %(at)s on was missed: %(why)s.")


def local(at: datetime) -> str:
    """A moment in the reader's time zone, as pages write it."""
    return date_format(timezone.localtime(at), "Y-m-d H:i")


def ask_for_decision(booking: Booking, *, now: datetime) -> None:
    """Tell those who decide that a booking waits for them."""
    leads = Membership.objects.filter(project=booking.project, role=Membership.Role.LEAD)
    people = User.objects.none()
    if booking.approval in (Flavor.Approval.LEAD, Flavor.Approval.BOTH):
        people |= User.objects.filter(pk__in=leads.values("user"))
    if booking.approval in (Flavor.Approval.ADMINISTRATOR, Flavor.Approval.BOTH):
        people |= User.objects.filter(is_administrator=True, is_auditor=False)
    others = people.exclude(pk=booking.requester_id) if not booking.own_approval else people
    subject = Text(_ASKED, person=str(booking.requester), what=str(booking), at=booking.starts_at)
    _tell(booking, others, Kind.APPROVAL, subject, now=now)


def decided(booking: Booking, *, now: datetime) -> None:
    """Tell the person what was decided."""
    state = Booking.State(booking.state).label
    subject = Text(_DECIDED, what=str(booking), at=booking.starts_at, state=state)
    _tell(booking, [booking.requester], Kind.REQUEST, subject, now=now)


def started(booking: Booking, *, now: datetime) -> None:
    """Tell the person that the desk has begun."""
    _tell(booking, [booking.requester], Kind.REQUEST, Text(_STARTED, what=str(booking)), now=now)


def missed(booking: Booking, *, now: datetime) -> None:
    """Tell the person that nothing came of it, and why."""
    why = Booking.Reason(booking.reason).label
    subject = Text(_MISSED, what=str(booking), at=booking.starts_at, why=why)
    _tell(booking, [booking.requester], Kind.REQUEST, subject, now=now)


def _tell(booking: Booking, people: Iterable[User], kind: Kind, subject: Text, *, now: datetime) -> None:
    tell(
        people=people,
        kind=kind,
        subject=subject,
        url=reverse("booking-detail", args=[booking.key]),
        now=now,
        project=booking.project,
        key=f"booking:{booking.key}:{booking.state}",
        thread=str(booking.key),
        facts={"booking": str(booking.key), "state": str(booking.state)},
    )
