"""REST of the ledger under /api/v1/: who held which device, and what it costs.

What a person may not see, their token may not see.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.api_answers import AmountOut, ProblemOut, totals_of
from claims.charges import charges
from claims.costs import Period, visible_projects
from claims.history import HistoryFilter, HistoryRow, allocations, seen_by
from claims.models import Allocation
from claims.pricing import Statement
from portal import access
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

Scope = ApiToken.Scope


class AllocationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    cluster = serializers.CharField()
    node = serializers.CharField()
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField()
    share_id = serializers.CharField()
    hardware_id = serializers.CharField()
    product = serializers.CharField()
    device_class = serializers.CharField()
    consumed_capacity = serializers.DictField(child=serializers.CharField())
    admin_access = serializers.BooleanField(help_text="Looked at without being held; never billed.")
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Null: still held.")
    end_uncertainty_us = serializers.IntegerField(
        help_text="It ended within this many microseconds after `ended_at`; the earlier bound is billed."
    )
    project = serializers.CharField(allow_null=True, help_text="Null: unattributed.")
    request = serializers.UUIDField(allow_null=True, help_text="Only for those who see the project's claims.")
    namespace = serializers.CharField(help_text="Empty for strangers, as are claim, person and consumers.")
    claim = serializers.CharField()
    person = serializers.CharField()
    consumers = serializers.ListField(child=serializers.CharField())


class ChargeLineOut(serializers.Serializer[Any]):
    project = serializers.CharField(allow_null=True, help_text="Null: unattributed.")
    device_class = serializers.CharField()
    product = serializers.CharField()
    device_hours = serializers.CharField(help_text="A decimal with six places.")
    price_per_device_hour = serializers.CharField(allow_null=True, help_text="Null: no price.")
    currency = serializers.CharField()
    amount = serializers.CharField(
        allow_null=True, help_text="Rounded so that the lines of a currency add up to its total."
    )
    exact_numerator = serializers.CharField(allow_null=True)
    exact_denominator = serializers.CharField(allow_null=True)
    running = serializers.IntegerField(help_text="How many allocations of the line still run.")


class ChargesOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField(help_text="What still runs is counted up to here.")
    lines = ChargeLineOut(many=True)
    totals = AmountOut(many=True)


_PERIOD = [
    OpenApiParameter("from", description="A date, or an ISO 8601 time (UTC unless it says otherwise)."),
    OpenApiParameter("to", description="The same; a date includes that day, a time is exclusive."),
]


@extend_schema_view(
    get=extend_schema(
        tags=["chargeback"],
        parameters=[
            *_PERIOD,
            *(
                OpenApiParameter(name, description=text)
                for name, text in (
                    ("project", "Slug."),
                    ("cluster", "Name."),
                    ("product", "Product."),
                    ("device", "Device name or hardware id."),
                    ("node", "Node name."),
                )
            ),
            OpenApiParameter("running", OpenApiTypes.BOOL, description="Only what is held now."),
        ],
    )
)
class AllocationListView(ApiListView):
    """Who held which device from when to when, newest first. Any caller sees devices and projects; claims,
    Pods and persons only members of the project, administrators and auditors."""

    required_scope = Scope.CHARGEBACK
    serializer_class = AllocationOut
    ordering = ("-started_at", "-id")

    def get_queryset(self) -> QuerySet[Allocation]:
        if getattr(self, "swagger_fake_view", False):
            return Allocation.objects.none()
        wanted = HistoryFilter.parse(self.request.query_params)
        if wanted.errors:
            raise exceptions.ValidationError({name: [said] for name, said in wanted.errors.items()})
        return allocations(wanted)

    def list(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's signature
        page: Sequence[Allocation] = self.paginate_queryset(self.get_queryset()) or []
        rows = seen_by(page, viewer=self.person, now=timezone.now())
        return self.get_paginated_response(AllocationOut([_allocation(row) for row in rows], many=True).data)


class ChargesView(ApiView):
    """What was used in a period and what it costs, by project, class, product and price."""

    required_scope = Scope.CHARGEBACK

    @extend_schema(
        tags=["chargeback"],
        parameters=[
            *_PERIOD,
            OpenApiParameter("project", description="Slug; without it all that one may see."),
        ],
        responses={200: ChargesOut, 400: ProblemOut, 404: ProblemOut},
    )
    def get(self, request: ApiRequest) -> Response:
        now, user = timezone.now(), self.person
        period = Period.parse(request.query_params, now=now)
        if period.errors:
            raise exceptions.ValidationError({name: [said] for name, said in period.errors.items()})
        projects = {project.pk: project for project in visible_projects(user)}
        slug = request.query_params.get("project", "")
        chosen = [pk for pk, project in projects.items() if project.slug == slug] if slug else list(projects)
        if slug and not chosen:
            raise Http404
        everything = not slug and access.may_see_costs_of_all(user)
        told = charges(start=period.start, end=period.end, now=now, projects=None if everything else chosen)
        slugs = {pk: project.slug for pk, project in projects.items()}
        return Response(ChargesOut(_charges(told, slugs) | {"as_of": now}).data)


# --- from domain to answer -------------------------------------------------------------------------


def _allocation(row: HistoryRow) -> dict[str, Any]:
    allocation = row.allocation
    return {
        "id": allocation.pk,
        "cluster": allocation.cluster.name,
        "node": allocation.node_name,
        "driver": allocation.driver,
        "pool": allocation.pool_name,
        "device": allocation.device_name,
        "share_id": allocation.share_id,
        "hardware_id": allocation.hardware_id,
        "product": allocation.product,
        "device_class": allocation.device_class,
        "consumed_capacity": allocation.consumed_capacity,
        "admin_access": allocation.admin_access,
        "started_at": allocation.started_at,
        "ended_at": allocation.ended_at,
        "end_uncertainty_us": allocation.end_uncertainty_us,
        "project": row.project.slug if row.project else None,
        "request": row.request_key or None,
        "namespace": row.namespace,
        "claim": row.claim,
        "person": row.person,
        "consumers": row.consumers,
    }


def _charges(told: Statement, slugs: Mapping[int, str]) -> dict[str, Any]:
    return {
        "start": told.start,
        "end": told.end,
        "lines": [
            {
                "project": slugs.get(line.project_id) if line.project_id is not None else None,
                "device_class": line.device_class,
                "product": line.product,
                "device_hours": line.hours_text,
                "price_per_device_hour": line.price or None,
                "currency": line.currency,
                "amount": None if line.amount is None else str(line.amount),
                "exact_numerator": None if line.exact is None else str(line.exact.numerator),
                "exact_denominator": None if line.exact is None else str(line.exact.denominator),
                "running": line.running,
            }
            for line in told.lines
        ],
        "totals": totals_of(told),
    }
