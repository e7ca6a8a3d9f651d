"""REST over maintenance: everybody reads (scope `inventory`), administrators plan and change."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.api import InventoryListView
from inventory.filters import clean_text
from inventory.models import Cluster, Maintenance
from inventory.models.taints import Place
from inventory.taints import keeping, maintenance
from inventory.taints.api_answers import EFFECT_OR_NOTHING, MaintenanceOut, maintenance_answer
from inventory.taints.maintenance import MAX_REASON, ChangedMeanwhile, Terms, UnableToPlan
from inventory.taints.places import MOST_DEVICES, UnableToPlace, Where, lines_of, read_place
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiView, Problem


class DeviceNameIn(serializers.Serializer[Any]):
    driver = serializers.CharField(max_length=63)
    pool = serializers.CharField(max_length=253)
    device = serializers.CharField(max_length=63)


class PlaceIn(serializers.Serializer[Any]):
    cluster = serializers.CharField(max_length=63)
    scope = serializers.ChoiceField(choices=Place.Scope.choices)
    driver = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    pool = serializers.CharField(max_length=253, required=False, default="", allow_blank=True)
    node = serializers.CharField(max_length=253, required=False, default="", allow_blank=True)
    devices = serializers.ListField(
        child=DeviceNameIn(), required=False, default=list, max_length=MOST_DEVICES
    )


class TermsIn(serializers.Serializer[Any]):
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=MAX_REASON)
    effect = serializers.ChoiceField(
        choices=EFFECT_OR_NOTHING, required=False, default="", help_text="Empty: nothing is tainted."
    )
    confirm = serializers.CharField(
        max_length=63, required=False, default="", allow_blank=True,
        help_text="The cluster's name, where all of it is tainted.",
    )  # fmt: skip


class MaintenanceIn(TermsIn):
    place = PlaceIn()


class MaintenanceChangeIn(TermsIn):
    version = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class VersionIn(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


EXAMPLE = {
    "place": {"cluster": "physics", "scope": "node", "node": "gpu-01"}, "starts_at": "2026-12-01T20:00:00Z",
    "ends_at": "2026-12-01T23:00:00Z", "reason": "new fans", "effect": "NoSchedule",
}  # fmt: skip


def where_of(values: dict[str, Any]) -> Where:
    """The place that somebody sent. Raises Problem."""
    cluster = Cluster.objects.filter(name=values["cluster"]).first()
    if cluster is None:
        raise Problem(_("There is no such cluster."), code="place_refused", field="place.cluster")
    try:
        return read_place(
            cluster=cluster, scope=values["scope"], driver=values["driver"], pool=values["pool"],
            node=values["node"], devices=lines_of(values["devices"]),
        )  # fmt: skip
    except UnableToPlace as refused:
        raise Problem(refused.message, code="place_refused", field=f"place.{refused.field}") from refused


@extend_schema_view(
    get=extend_schema(
        parameters=[
            OpenApiParameter("cluster", str),
            OpenApiParameter("state", str, enum=list(Maintenance.State.values)),
        ],
        tags=["maintenance"],
    )
)
class MaintenanceListView(InventoryListView):
    """Maintenance that is planned, goes on or is over: the latest start first."""

    serializer_class = MaintenanceOut
    ordering = ("-starts_at", "-id")  # type: ignore[assignment] # a tuple is as good

    def get_queryset(self) -> QuerySet[Maintenance]:
        rows = Maintenance.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        params = self.request.query_params
        for parameter, lookup in (("cluster", "cluster__name"), ("state", "state")):
            if text := clean_text(params.get(parameter, "")):
                rows = rows.filter(**{lookup: text})
        return rows

    def tell(self, page: Sequence[Maintenance]) -> Sequence[Any]:
        return [maintenance_answer(row) for row in page]

    @extend_schema(
        request=MaintenanceIn,
        responses={201: MaintenanceOut},
        tags=["maintenance"],
        examples=[OpenApiExample("a node", value=EXAMPLE, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """Plan maintenance. It begins at its time, or at once."""
        self.administrator()
        serializer = MaintenanceIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        values, now = serializer.validated_data, timezone.now()
        try:
            planned = maintenance.plan(
                where=where_of(values["place"]), terms=_terms(values), actor=self.person, now=now,
                confirmed=values["confirm"], source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToPlan as refused:
            raise _problem(refused) from refused
        keeping.settle(planned, now=now, actor=self.person)
        return Response(MaintenanceOut(maintenance_answer(planned)).data, status=201)


class MaintenanceDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=MaintenanceOut, tags=["maintenance"])
    def get(self, _request: Request, key: UUID) -> Response:
        """One maintenance."""
        return Response(MaintenanceOut(maintenance_answer(_or_404(key))).data)

    @extend_schema(request=MaintenanceChangeIn, responses=MaintenanceOut, tags=["maintenance"])
    def put(self, request: Request, key: UUID) -> Response:
        """Change its terms; of what is under way the end, the reason and the taint."""
        self.administrator()
        serializer = MaintenanceChangeIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        values, now, found = serializer.validated_data, timezone.now(), _or_404(key)
        try:
            maintenance.change(
                maintenance=found, terms=_terms(values), seen_version=values["version"], actor=self.person,
                now=now, confirmed=values["confirm"], source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToPlan as refused:
            raise _problem(refused) from refused
        keeping.settle(found, now=now, actor=self.person)
        return Response(MaintenanceOut(maintenance_answer(found)).data)


class MaintenanceCancelView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(request=VersionIn, responses=MaintenanceOut, tags=["maintenance"])
    def post(self, request: Request, key: UUID) -> Response:
        """Call it off, or end what is under way now."""
        self.administrator()
        serializer = VersionIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        now, found = timezone.now(), _or_404(key)
        try:
            maintenance.cancel(
                maintenance=found, seen_version=serializer.validated_data["version"], actor=self.person,
                now=now, source_ip=audit.source_ip(request),
            )  # fmt: skip
        except UnableToPlan as refused:
            raise _problem(refused) from refused
        keeping.settle(found, now=now, actor=self.person)
        return Response(MaintenanceOut(maintenance_answer(found)).data)


# --- inside -------------------------------------------------------------------------------------------


def _or_404(key: UUID) -> Maintenance:
    try:
        return get_object_or_404(Maintenance.objects.select_related("cluster"), key=key)
    except OverflowError:
        raise Http404 from None


def _terms(values: dict[str, Any]) -> Terms:
    return Terms(**{name: values[name] for name in ("starts_at", "ends_at", "reason", "effect")})


def _problem(refused: UnableToPlan) -> Problem:
    status = 409 if isinstance(refused, ChangedMeanwhile) else 422
    return Problem(refused.message, code="maintenance_refused", field=refused.field, status_code=status)
