"""Starting what was booked: when its time comes, the request is made in the ordinary way, with the hold.

`start` may be called at any time, any number of times and by two workers at once. The request and the step
to “started” are stored in one transaction, under a key that was chosen with the booking: there is one request
or none, whatever crashes, and of a start and a cancelling at the same moment one wins.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction

from claims.asks import judging as asks
from claims.asks.engine import claim_of, node_tolerations
from claims.asks.values import Ask, UnableToSubmit
from claims.bookings import news
from claims.bookings.booking import change
from claims.bookings.reading import values_of
from claims.catalogue.stock import FleetOf
from claims.models import PLANNED, Booking, Decision, Request
from claims.requests import manifests
from claims.requests.actions import submit
from claims.requests.approvals import open_roles
from claims.requests.rehearsal import Connect
from claims.requests.transitions import transition
from inventory.clusters import client_for
from inventory.coverage import coverage_of
from inventory.snapshot import fleet
from portal import access
from portal.dra.cluster import feasible_nodes

State = Booking.State
Reason = Booking.Reason

# How long a start is tried; of a short booking, half its time.
GRACE = timedelta(hours=2)


class _Gone(Exception):
    """The booking was cancelled, or started, meanwhile."""


def due(now: datetime) -> list[int]:
    """Bookings (by primary key) whose time has come, the oldest first."""
    rows = Booking.objects.filter(state__in=PLANNED, starts_at__lte=now)
    return list(rows.order_by("starts_at", "created_at", "pk").values_list("pk", flat=True))


def deadline(booking: Booking) -> datetime:
    """When its start is given up."""
    return booking.starts_at + min(GRACE, booking.duration / 2)


def start(
    *, booking_id: int, now: datetime, connect: Connect = client_for, fleet_of: FleetOf = fleet
) -> None:
    """Start the booking, or note why it cannot be started yet; after the grace time it is missed. Talks to
    the cluster: not inside a transaction."""
    rows = Booking.objects.select_related("project", "requester", "flavor", "cluster")
    booking = rows.filter(pk=booking_id, state__in=PLANNED, starts_at__lte=now).first()
    if booking is None or access.only_looks():
        return
    if booking.state == State.WAITING_FOR_APPROVAL:
        _miss(booking, reason=Reason.NOT_DECIDED, message="", now=now)
    elif now >= booking.ends_at:
        _miss(booking, reason=booking.reason or Reason.DESK_AWAY, message=booking.message, now=now)
    else:
        _try(booking, now=now, connect=connect, fleet_of=fleet_of)


def _try(booking: Booking, *, now: datetime, connect: Connect, fleet_of: FleetOf) -> None:
    values = values_of(booking)
    reason, message = Reason.NONE, ""
    try:
        ask = asks.parse(values, user=booking.requester, now=now)
        reason = _obstacle(ask, now=now, fleet_of=fleet_of)
        if not reason:
            submit(
                user=booking.requester,
                values=values,
                now=now,
                key=str(booking.request_key),
                connect=connect,
                within=lambda request: _link(booking, request, now=now),
            )
            return
    except _Gone:
        return
    except UnableToSubmit as error:
        reason, message = Reason.NOT_ACCEPTED, _words(error.errors)
    if now >= deadline(booking):
        _miss(booking, reason=reason, message=message, now=now)
    else:
        Booking.objects.filter(pk=booking.pk, state=State.BOOKED).update(
            reason=reason, message=message, tried_at=now
        )


def _obstacle(ask: Ask, *, now: datetime, fleet_of: FleetOf) -> Reason:
    """Why the cluster would not give the devices now, as far as the desk can tell."""
    coverage = coverage_of(ask.cluster, ask.cluster.streams.all(), now=now)
    if not coverage.in_step:
        return Reason.OUT_OF_STEP
    placement = ask.placement
    found = feasible_nodes(
        fleet_of(ask.cluster),
        [claim_of(manifests.preview_claim(ask.spec, namespace=ask.namespace))],
        tolerations=node_tolerations(placement.tolerations) if placement else (),
        node_selector=placement.node_selector if placement else None,
    )
    return Reason.NONE if found.error is None and found.nodes else Reason.NO_DEVICE


def _link(booking: Booking, request: Request, *, now: datetime) -> None:
    """What is stored together with the request: the booking's step, the hold, the end, what was decided."""
    started = change(
        booking, to=State.STARTED, expected=State.BOOKED, now=now, action="booking.start", tried_at=now,
        request=request,
    )  # fmt: skip
    if not started:
        raise _Gone
    # It ends when it was booked to end, however late it began; a longer wait is in vain.
    Request.objects.filter(pk=request.pk).update(
        hold_wanted=True, asked_at=now, ends_by=booking.ends_at, expires_at=booking.ends_at
    )
    decisions = [
        Decision(
            request=request, role=made.role, verdict=made.verdict, person_id=made.person_id,
            comment=made.comment, at=made.at,
        )
        for made in booking.decisions.all()
    ]  # fmt: skip
    Decision.objects.bulk_create(decisions)
    request.refresh_from_db()
    if request.state == Request.State.WAITING_FOR_APPROVAL and not open_roles(request, decisions):
        # Approved ahead, by everybody whose agreement is needed today.
        transition(
            request, to=Request.State.APPROVED, expected=Request.State.WAITING_FOR_APPROVAL, now=now,
            action="request.approve", due_at=now, attempts=0,
        )  # fmt: skip
    news.started(booking, now=now)


def _miss(booking: Booking, *, reason: str, message: str, now: datetime) -> None:
    with transaction.atomic():
        missed = change(
            booking, to=State.MISSED, expected=booking.state, now=now, action="booking.miss",
            reason=reason, message=message, tried_at=now,
        )  # fmt: skip
        if missed:
            news.missed(booking, now=now)


def _words(errors: Mapping[str, list[str]]) -> str:
    return " ".join(text for said in errors.values() for text in said)
