"""Bookings: devices of a flavor that are planned for a person from a moment on, and who agreed to it."""

import uuid
from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from claims.models.catalogue import Flavor
from claims.models.requests import Decision, Request
from inventory.models import Cluster
from portal.accounts.models import Project, User


class BookingBook(models.Model):
    """One row per cluster: who books there writes to it first, so that bookings come one after the other
    (a row lock on PostgreSQL, the one writer's lock on SQLite). Per cluster and not per flavor, since
    several flavors may be made of the same devices."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="+")
    changes = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"bookings on {self.cluster}"


class BookingQuerySet(models.QuerySet["Booking"]):
    def visible_to(self, user: User) -> "BookingQuerySet":
        """Bookings of the user's projects; all for administrators and auditors."""
        return self.filter(project__in=Project.objects.all().detailed_to(user))

    def planned(self) -> "BookingQuerySet":
        """Bookings that take up their time: booked, or waiting for an approval."""
        return self.filter(state__in=PLANNED)

    def within(self, start: datetime, end: datetime) -> "BookingQuerySet":
        """Bookings with an instant in [start, end); both are half-open."""
        return self.filter(starts_at__lt=end, ends_at__gt=start)


class Booking(models.Model):
    """So many devices of a flavor from `starts_at` (inclusive) to `ends_at` (exclusive). A plan of the desk:
    the cluster knows no reservations, so the device is held from then on only if one is free then."""

    class State(models.TextChoices):
        WAITING_FOR_APPROVAL = "waiting-for-approval", _("waiting for approval")
        BOOKED = "booked", _("booked")
        STARTED = "started", _("started")
        MISSED = "missed", _("missed")
        CANCELLED = "cancelled", _("cancelled")
        REFUSED = "refused", _("refused")

    class Reason(models.TextChoices):
        """Why it has not started (yet), where the state alone does not say it."""

        NONE = "", _("nothing to add")
        NO_DEVICE = "no-device", _("not enough devices are free")
        OUT_OF_STEP = "out-of-step", _("the desk is not in step with the cluster")
        NOT_ACCEPTED = "not-accepted", _("the request was not accepted")
        NOT_DECIDED = "not-decided", _("nobody decided about it in time")
        DESK_AWAY = "desk-away", _("the desk was not running at that time")

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    # The request's key is chosen with the booking: however often its start is tried, it is one request.
    request_key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="bookings")
    requester = models.ForeignKey(User, models.PROTECT, related_name="bookings")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="bookings")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    # The flavor's node pool there; "" = its only or unnamed one.
    pool = models.CharField(max_length=63, blank=True)
    namespace = models.CharField(max_length=63)
    count = models.PositiveIntegerField()
    # A Kubernetes quantity such as "40Gi"; "" = any.
    min_memory = models.CharField(max_length=32, blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    purpose = models.CharField(max_length=1000)
    # Who has to agree ahead, as the flavor said when it was booked.
    approval = models.CharField(max_length=14, choices=Flavor.Approval.choices, default=Flavor.Approval.NONE)
    own_approval = models.BooleanField(default=False)

    state = models.CharField(max_length=20, choices=State.choices, default=State.BOOKED)
    reason = models.CharField(max_length=14, choices=Reason.choices, blank=True)
    # The same in the words of whoever refused it; "" = nothing was said.
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    # When its start was last tried.
    tried_at = models.DateTimeField(null=True, blank=True)
    request = models.OneToOneField(Request, models.PROTECT, null=True, blank=True, related_name="booking")

    objects = BookingQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="booking_ends_after_start"),
            models.CheckConstraint(condition=Q(count__gte=1), name="booking_count_positive"),
            models.CheckConstraint(
                condition=Q(state="started", request__isnull=False)
                | (~Q(state="started") & Q(request__isnull=True)),
                name="booking_started_has_request",
            ),
        ]
        indexes: ClassVar = [
            # What overlaps on a cluster, and what is due.
            models.Index(fields=["cluster", "state", "ends_at"], name="booking_overlaps"),
            models.Index(fields=["state", "starts_at"], name="booking_due"),
            models.Index(fields=["project", "starts_at"], name="booking_of_project"),
        ]

    def __str__(self) -> str:
        return f"{self.count} × {self.flavor}"

    @property
    def duration(self) -> timedelta:
        return self.ends_at - self.starts_at

    @property
    def short_key(self) -> str:
        """The first eight digits of the key, for people."""
        return self.key.hex[:8]


PLANNED = (Booking.State.WAITING_FOR_APPROVAL, Booking.State.BOOKED)


class BookingDecision(models.Model):
    """What a lead or an administrator decided about a booking. Written once, never changed."""

    booking = models.ForeignKey(Booking, models.CASCADE, related_name="decisions")
    role = models.CharField(max_length=14, choices=Decision.Role.choices)
    verdict = models.CharField(max_length=10, choices=Decision.Verdict.choices)
    person = models.ForeignKey(User, models.PROTECT, related_name="+")
    comment = models.CharField(max_length=1000, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["booking", "role"], name="one_booking_decision_per_role")
        ]

    def __str__(self) -> str:
        return f"{self.booking}: {self.verdict} by {self.person}"
