"""Booking ahead: planning devices of a flavor for a span of time, deciding about it, and giving it up.

A booking is a plan of the desk. The cluster knows no reservations: from its start on the device is held *if
one is free then* (`claims.bookings.start`). What the desk can do is not to plan more than there is, and to
keep its own requests out of the way (`claims.bookings.conflicts`).
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import F
from django.http import Http404
from django.utils.translation import gettext as _

from claims.asks.judging import parse_key
from claims.asks.reading import WHOLE, WrongValues
from claims.asks.values import UnableToSubmit
from claims.bookings import news
from claims.bookings.reading import Wanted, read
from claims.bookings.room import first_fit, room
from claims.bookings.supply import Target, supply
from claims.catalogue.stock import FleetOf
from claims.models import Booking, BookingBook, Flavor
from claims.requests.approval_rules import approval_for
from inventory.models import Cluster
from inventory.snapshot import fleet
from portal import access
from portal.accounts import audit
from portal.accounts.models import User

State = Booking.State

# Of one person at a time: a calendar is not for hoarding.
MAX_OPEN = 20
GIVABLE = (State.WAITING_FOR_APPROVAL, State.BOOKED)


class UnableToBook(WrongValues):
    """Nothing was booked. `errors` maps field names (or WHOLE) to messages for people."""


class UnableToCancel(Exception):
    """The booking is not in a state that admits this; `message` says so for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# --- looking ----------------------------------------------------------------------------------------


def get_booking_or_404(user: User, key: uuid.UUID, *, to_end: bool = False) -> Booking:
    """The booking, if `user` may know of it; a stranger gets 404, a reader who may not act 403."""
    rows = Booking.objects.select_related("project", "requester", "cluster", "flavor", "request")
    found = rows.defer("cluster__kubeconfig_encrypted").filter(key=key).first()
    if found is None:
        raise Http404
    access.authorise(user, found.project, details=True)
    if to_end and not may_end(user, found):
        raise PermissionDenied(_("You may look at this booking but not cancel it."))
    return found


def may_end(user: User, booking: Booking) -> bool:
    """Whether the person may cancel it: members and administrators, also in an archived project."""
    if user.is_auditor:
        return False
    return access.may_administer(user) or access.role_in(user, booking.project) is not None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the calendar says to a wanted booking. None = it cannot be said."""

    # Devices that are neither booked nor held throughout the time; and all that are usable now.
    room: int | None = None
    usable: int | None = None
    # Held by work whose end nobody knows: in the way if it lasts.
    endless: int = 0
    on_one_node: int = 0
    # The first start from which it would fit; None = none within the days that can be booked.
    instead: datetime | None = None

    def fits(self, count: int) -> bool:
        return self.room is not None and self.room >= count


def answer(wanted: Wanted, *, now: datetime, fleet_of: FleetOf = fleet) -> Answer:
    """Whether it fits into the calendar, and if not, when it would."""
    seen, start, end = wanted.reading, wanted.start, wanted.end
    if not wanted.placed or seen.placement is None or seen.flavor is None or start is None or end is None:
        return Answer()
    target = Target(seen.placement, seen.min_memory)
    until = now + timedelta(days=seen.flavor.bookable_days)
    there = supply(
        target=target, now=now, start=min(start, now), end=max(end, until + (end - start)), fleet_of=fleet_of
    )
    count = seen.count or 1
    found = room(there.fleet, target=0, start=start, end=end)
    instead = None
    if found < count <= there.usable:
        instead = first_fit(
            there.fleet, target=0, count=count, duration=end - start, start=start, until=until
        ) or first_fit(
            there.fleet,
            target=0,
            count=count,
            duration=end - start,
            start=_next_quarter(now),
            until=start,
        )
    return Answer(
        room=found,
        usable=there.usable,
        endless=there.endless,
        on_one_node=there.on_one_node,
        instead=instead,
    )


def _next_quarter(now: datetime) -> datetime:
    whole = now.replace(minute=0, second=0, microsecond=0)
    return whole + timedelta(minutes=15) * ((now - whole) // timedelta(minutes=15) + 1)


# --- booking ----------------------------------------------------------------------------------------


def book(
    *,
    user: User,
    values: Mapping[str, Any],
    now: datetime,
    zone: tzinfo = UTC,
    key: object = None,
    source_ip: str | None = None,
    fleet_of: FleetOf = fleet,
) -> Booking:
    """Plan what `values` ask for. A start without an offset is in `zone`.

    `key` (a UUID) names the booking: the same key again gives the same booking. Of two who want the last
    device at the same moment, one gets it. Raises UnableToBook with the messages of all fields."""
    if access.only_looks():
        raise UnableToBook({WHOLE: [access.why_only_looks()]})
    try:
        chosen = parse_key(key)
    except UnableToSubmit as error:
        raise UnableToBook(error.errors) from None
    if chosen is not None and (earlier := _earlier(chosen, user)) is not None:
        return earlier
    wanted = read(values, user=user, now=now, zone=zone)
    booking = _draft(wanted, user=user, key=chosen or uuid.uuid4(), now=now)
    # Once without the lock: what is slow to count is then known.
    _refuse_full(wanted, booking, now=now, fleet_of=fleet_of)
    try:
        with transaction.atomic():
            take_book(booking.cluster)
            _refuse_full(wanted, booking, now=now, fleet_of=fleet_of)
            if Booking.objects.filter(requester=user).planned().count() >= MAX_OPEN:
                raise UnableToBook(
                    {
                        WHOLE: [
                            _("You have %(limit)s bookings that have not begun; cancel one first.")
                            % {"limit": MAX_OPEN}
                        ]
                    }
                )
            booking.save(force_insert=True)
            record(booking, "booking.make", actor=user, now=now, after=summary(booking), ip=source_ip)
            if booking.state == State.WAITING_FOR_APPROVAL:
                news.ask_for_decision(booking, now=now)
    except IntegrityError:
        # Sent twice at the same moment: the other one won.
        if (earlier := _earlier(booking.key, user)) is not None:
            return earlier
        raise
    return booking


def cancel(*, booking: Booking, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Give the time back at once. Harmless when it is cancelled already; UnableToCancel when it has started
    or is over."""
    if booking.state == State.CANCELLED:
        return
    changed = any(
        change(booking, to=State.CANCELLED, expected=state, now=now, actor=user, action="booking.cancel",
               ip=source_ip)
        for state in GIVABLE
    )  # fmt: skip
    if changed or booking.state == State.CANCELLED:
        return
    if booking.state == State.STARTED:
        raise UnableToCancel(_("It has started: release its request instead."))
    raise UnableToCancel(
        _("That is not possible while the booking is “%(state)s”.") % {"state": State(booking.state).label}
    )


def change(
    booking: Booking,
    *,
    to: str,
    expected: str,
    now: datetime,
    action: str,
    actor: User | None = None,
    reason: str = "",
    message: str = "",
    ip: str | None = None,
    **columns: Any,
) -> bool:
    """Compare-and-set of the state, with its audit entry. Returns whether it was us who changed it; `booking`
    is refreshed either way."""
    with transaction.atomic():
        changed = (
            Booking.objects.filter(pk=booking.pk, state=expected).update(
                state=to, reason=reason, message=message, changed_at=now, **columns
            )
            == 1
        )
        booking.refresh_from_db(fields=["state", "reason", "message", "changed_at", "tried_at", "request"])
        if changed:
            before, after = {"state": str(expected)}, {"state": str(to)}
            if reason:
                after["reason"] = str(reason)
            record(booking, action, actor=actor, now=now, before=before, after=after, ip=ip)
    return changed


# --- inside -----------------------------------------------------------------------------------------


def take_book(cluster: Cluster) -> None:
    """Wait until nobody else books on the cluster, until the end of the transaction."""
    if not BookingBook.objects.filter(cluster=cluster).update(changes=F("changes") + 1):
        BookingBook.objects.get_or_create(cluster=cluster)
        BookingBook.objects.filter(cluster=cluster).update(changes=F("changes") + 1)


def _draft(wanted: Wanted, *, user: User, key: uuid.UUID, now: datetime) -> Booking:
    seen = wanted.reading
    if (
        wanted.errors
        or seen.project is None
        or seen.flavor is None
        or seen.cluster is None
        or seen.placement is None
        or seen.count is None
        or wanted.start is None
        or wanted.end is None
    ):
        raise UnableToBook(wanted.errors or {WHOLE: [_("Something is missing.")]})
    approval, own = approval_for(seen)
    waits = approval != Flavor.Approval.NONE
    return Booking(
        key=key,
        project=seen.project,
        requester=user,
        flavor=seen.flavor,
        cluster=seen.cluster,
        pool=seen.placement.pool,
        namespace=seen.namespace,
        count=seen.count,
        min_memory=seen.min_memory,
        starts_at=wanted.start,
        ends_at=wanted.end,
        purpose=seen.purpose,
        approval=approval,
        own_approval=own,
        state=State.WAITING_FOR_APPROVAL if waits else State.BOOKED,
        created_at=now,
        changed_at=now,
    )


def _refuse_full(wanted: Wanted, booking: Booking, *, now: datetime, fleet_of: FleetOf) -> None:
    said = answer(wanted, now=now, fleet_of=fleet_of)
    if said.on_one_node < booking.count:
        raise UnableToBook(
            {
                "count": [
                    _("No node has so many: the most that one has is %(most)s.") % {"most": said.on_one_node}
                ]
            }
        )
    if not said.fits(booking.count):
        raise UnableToBook({"start": [full(said)]})


def approval_words(wanted: Wanted) -> str:
    """Who would have to agree; "" = nobody."""
    approval, _own = approval_for(wanted.reading)
    return "" if approval == Flavor.Approval.NONE else str(Flavor.Approval(approval).label)


def full(said: Answer) -> str:
    """That it does not fit then, and when it would."""
    words = _("Only %(room)s of %(usable)s are left throughout that time.") % {
        "room": said.room or 0,
        "usable": said.usable or 0,
    }
    if said.instead is not None:
        words += " " + _("It would fit from %(at)s on.") % {"at": news.local(said.instead)}
    return words


def _earlier(key: uuid.UUID, user: User) -> Booking | None:
    earlier = Booking.objects.filter(key=key).first()
    if earlier is not None and earlier.requester_id != user.pk:
        raise UnableToBook({"key": [_("This key is taken; choose a new one.")]})
    return earlier


def summary(booking: Booking) -> dict[str, Any]:
    """What an audit entry tells of a new booking."""
    return {
        "state": booking.state,
        "flavor": booking.flavor.slug,
        "cluster": booking.cluster.name,
        **({"pool": booking.pool} if booking.pool else {}),
        "namespace": booking.namespace,
        "count": booking.count,
        "min_memory": booking.min_memory,
        "starts_at": booking.starts_at.isoformat(),
        "ends_at": booking.ends_at.isoformat(),
        "purpose": booking.purpose,
    }


def record(
    booking: Booking,
    action: str,
    *,
    actor: User | None,
    now: datetime,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    ip: str | None = None,
) -> None:
    """One audit entry about the booking."""
    audit.record(
        action=action,
        actor=actor,
        target=booking,
        target_id=str(booking.key),
        project=booking.project,
        before=before,
        after=after,
        source_ip=ip,
        now=now,
    )
