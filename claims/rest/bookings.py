"""REST of bookings under /api/v1/: what is left of a flavor and when, booking, deciding, giving up; and the
caller's bookings as iCalendar."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.asks import judging as asks
from claims.asks.reading import WHOLE, WrongValue
from claims.bookings import booking as bookings
from claims.bookings import ics as bookings_ics
from claims.bookings.approvals import decide
from claims.bookings.booking import UnableToBook, UnableToCancel, get_booking_or_404
from claims.bookings.calendar import places_to_book
from claims.bookings.reading import read_start
from claims.bookings.room import steps
from claims.bookings.supply import Target, supply
from claims.models import Booking, Flavor
from claims.requests.approvals import UnableToDecide, Verdict
from claims.rest.answers import ProblemOut
from claims.rest.approvals import DecisionIn, DecisionOut
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope

# A calendar that subscribes need not be told of what is long over.
FEED_BACK = timedelta(days=30)
LONGEST_PERIOD = timedelta(days=92)


class BookingIn(serializers.Serializer[Any]):
    """What is booked. Judged by the same rules as the form."""

    project = serializers.CharField(help_text="Slug of the project that pays.")
    flavor = serializers.CharField(help_text="Slug of a flavor of the catalogue.")
    cluster = serializers.CharField(
        required=False, help_text="May be left out: the first that serves it to the project."
    )
    pool = serializers.CharField(required=False, help_text="A node pool of the flavor there.")
    namespace = serializers.CharField(
        required=False, help_text="One of the project's; may be left out if it has only one there."
    )
    count = serializers.IntegerField(min_value=1, max_value=asks.MAX_COUNT, required=False)
    min_memory = serializers.CharField(required=False, max_length=32, help_text='Such as "40Gi".')
    start = serializers.DateTimeField(help_text="ISO 8601, UTC unless it says otherwise; to the minute.")
    duration = serializers.IntegerField(min_value=1, required=False, help_text="Of units of `duration_unit`.")
    duration_unit = serializers.ChoiceField(choices=list(asks.UNITS), required=False, default="hours")
    purpose = serializers.CharField(max_length=asks.MAX_PURPOSE)
    key = serializers.UUIDField(
        required=False, help_text="Chosen by the client: sent again with it, it is the same booking (200)."
    )


class BookingOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    project = serializers.CharField(source="project.slug")
    requester = serializers.CharField(source="requester.username")
    flavor = serializers.CharField(source="flavor.slug")
    cluster = serializers.CharField(source="cluster.name")
    pool = serializers.CharField()
    namespace = serializers.CharField()
    count = serializers.IntegerField()
    min_memory = serializers.CharField()
    starts_at = serializers.DateTimeField(help_text="Inclusive.")
    ends_at = serializers.DateTimeField(help_text="Exclusive.")
    purpose = serializers.CharField()
    approval = serializers.ChoiceField(choices=Flavor.Approval.choices)
    state = serializers.ChoiceField(choices=Booking.State.choices)
    reason = serializers.ChoiceField(
        choices=Booking.Reason.choices, help_text="Why it has not started; may be empty."
    )
    message = serializers.CharField(help_text="The same in the words of whoever refused it.")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    request = serializers.UUIDField(
        source="request.key", default=None, allow_null=True, help_text="Once it has started."
    )


class BookingDetailOut(BookingOut):
    decisions = DecisionOut(many=True)


class SpanOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(help_text="Exclusive.")
    left = serializers.IntegerField(help_text="Devices that are neither booked nor held by a request then.")


class AvailabilityOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    pool = serializers.CharField()
    usable = serializers.IntegerField(help_text="Devices that are usable now.")
    held_without_end = serializers.IntegerField(
        help_text="Those of them that are held by work whose end is not known; they count as left."
    )
    spans = SpanOut(many=True)


EXAMPLE = OpenApiExample(
    "One H100 on Thursday morning",
    value={
        "project": "protein-folding",
        "flavor": "h100-80g",
        "start": "2026-12-03T09:00:00+01:00",
        "duration": 8,
        "duration_unit": "hours",
        "purpose": "Folding of the December set",
    },
    request_only=True,
)


@extend_schema_view(
    get=extend_schema(
        tags=["bookings"],
        parameters=[
            OpenApiParameter("state", description="A state, or `planned`."),
            OpenApiParameter("project", description="Slug."),
            OpenApiParameter("flavor", description="Slug."),
            OpenApiParameter("mine", OpenApiTypes.BOOL, description="Only those of the caller."),
        ],
    )
)
class BookingListView(ApiListView):
    """Bookings of the caller's projects, the newest first."""

    required_scope = Scope.REQUESTS
    serializer_class = BookingOut

    def get_queryset(self) -> QuerySet[Booking]:
        if getattr(self, "swagger_fake_view", False):
            return Booking.objects.none()
        wanted = self.request.query_params
        rows = Booking.objects.all().visible_to(self.person)
        state = wanted.get("state", "")
        if state:
            rows = rows.planned() if state == "planned" else rows.filter(state=state)
        if wanted.get("project"):
            rows = rows.filter(project__slug=wanted["project"])
        if wanted.get("flavor"):
            rows = rows.filter(flavor__slug=wanted["flavor"])
        if wanted.get("mine") in ("1", "true", "on"):
            rows = rows.filter(requester=self.person)
        rows = rows.select_related("project", "requester", "cluster", "flavor", "request")
        return rows.defer("cluster__kubeconfig_encrypted")

    @extend_schema(
        tags=["bookings"],
        request=BookingIn,
        responses={201: BookingOut, 200: BookingOut, 400: ProblemOut},
        examples=[EXAMPLE],
    )
    def post(self, request: ApiRequest) -> Response:
        """Plan devices for a span of time. Nothing is reserved on the cluster: at the start the desk makes
        the request and holds the devices if they are free then."""
        values = request.data
        if not isinstance(values, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        now = timezone.now()
        try:
            made = bookings.book(
                user=self.person, values=values, key=values.get("key"), now=now,
                source_ip=source_ip(request),
            )  # fmt: skip
        except UnableToBook as error:
            raise exceptions.ValidationError(
                {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
            ) from error
        code = status.HTTP_201_CREATED if made.created_at == now else status.HTTP_200_OK
        return Response(BookingOut(made).data, status=code)


class BookingDetailView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["bookings"], responses={200: BookingDetailOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        """One booking, with what was decided about it."""
        found = get_booking_or_404(self.person, key)
        decisions = found.decisions.select_related("person").order_by("at")
        told = {"decisions": DecisionOut(decisions, many=True).data}
        return Response({**BookingOut(found).data, **told})


_ANSWERS = {200: BookingOut, 400: ProblemOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class BookingCancelView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["bookings"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give the time back; others can book it at once. Harmless when repeated."""
        found = get_booking_or_404(self.person, key, to_end=True)
        try:
            bookings.cancel(booking=found, user=self.person, now=timezone.now(), source_ip=source_ip(request))
        except UnableToCancel as error:
            raise Problem(error.message, code="not_now", status_code=status.HTTP_409_CONFLICT) from error
        return Response(BookingOut(found).data)


class _DecisionView(ApiView):
    required_scope = Scope.REQUESTS
    verdict: ClassVar[str]

    def decide(self, request: ApiRequest, key: uuid.UUID) -> Response:
        body = request.data
        if not isinstance(body, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        found = get_booking_or_404(self.person, key)
        try:
            decide(
                booking=found, user=self.person, verdict=self.verdict, comment=body.get("comment"),
                now=timezone.now(), source_ip=source_ip(request),
            )  # fmt: skip
        except UnableToDecide as error:
            if error.field:
                raise exceptions.ValidationError({error.field: [error.message]}) from error
            raise Problem(error.message, code="not_now", status_code=status.HTTP_409_CONFLICT) from error
        return Response(BookingOut(found).data)


class BookingApproveView(_DecisionView):
    verdict = Verdict.APPROVED

    @extend_schema(tags=["bookings"], request=DecisionIn, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Agree ahead."""
        return self.decide(request, key)


class BookingRejectView(_DecisionView):
    verdict = Verdict.REJECTED

    @extend_schema(tags=["bookings"], request=DecisionIn, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Turn it down; the comment says why."""
        return self.decide(request, key)


class BookingFeedView(ApiView):
    """For calendars that can send a token: ``Authorization: Bearer …``."""

    required_scope = Scope.REQUESTS

    @extend_schema(tags=["bookings"], responses={(200, "text/calendar"): OpenApiTypes.STR})
    def get(self, request: ApiRequest) -> HttpResponse:
        """The caller's own bookings as iCalendar, from thirty days ago on."""
        rows = Booking.objects.filter(requester=self.person, ends_at__gt=timezone.now() - FEED_BACK)
        rows = rows.visible_to(self.person).select_related("project", "flavor", "cluster")
        rows = rows.defer("cluster__kubeconfig_encrypted").order_by("starts_at", "pk")
        text = bookings_ics.calendar(rows, host=request.get_host().partition(":")[0])
        return HttpResponse(text, content_type=bookings_ics.CONTENT_TYPE)


class AvailabilityView(ApiView):
    required_scope = Scope.INVENTORY

    @extend_schema(
        tags=["bookings"],
        parameters=[
            OpenApiParameter("cluster", description="Where; the first place if it is left out."),
            OpenApiParameter("pool", description="Its node pool."),
            OpenApiParameter("from", description="ISO 8601; now if it is left out."),
            OpenApiParameter("to", description="The same; a week later if it is left out."),
        ],
        responses={200: AvailabilityOut, 400: ProblemOut, 404: ProblemOut},
    )
    def get(self, request: ApiRequest, slug: str) -> Response:
        """What is left of a flavor in each span of a time."""
        flavor = Flavor.objects.visible_to(self.person).offered().filter(slug=slug).first()
        if flavor is None:
            raise Http404
        wanted, now = request.query_params, timezone.now()
        start = _moment(wanted, "from", now)
        end = _moment(wanted, "to", start + timedelta(days=7))
        if not start < end <= start + LONGEST_PERIOD:
            raise exceptions.ValidationError(
                {"to": [_("After `from`, and at most %(days)s days later.") % {"days": LONGEST_PERIOD.days}]}
            )
        asked = (wanted.get("cluster"), wanted.get("pool"))
        found = [
            place
            for place in places_to_book(flavor)
            if asked[0] in (None, "", place.cluster.name) and asked[1] in (None, place.pool)
        ]
        if not found:
            raise Http404
        there = supply(target=Target(found[0]), now=now, start=start, end=end)
        told = {
            "cluster": found[0].cluster.name,
            "pool": found[0].pool,
            "usable": there.usable,
            "held_without_end": there.endless,
            "spans": [
                {"start": step.start, "end": step.end, "left": step.room}
                for step in steps(there.fleet, target=0, start=start, end=end)
            ],
        }
        return Response(AvailabilityOut(told).data)


def _moment(values: Mapping[str, str], name: str, default: datetime) -> datetime:
    if not values.get(name):
        return default
    try:
        return read_start({"start": values[name]}, zone=UTC)[0]
    except WrongValue as error:
        raise exceptions.ValidationError({name: [str(error)]}) from error
