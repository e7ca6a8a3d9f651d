"""REST of the desk under /api/v1/: requests, allocations, charges.

The same domain functions as the pages: the same fields get the same messages, and what a person may not see,
their token may not see.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
    extend_schema_view,
    inline_serializer,
)
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims import asks, requests
from claims.asking import UnableToSubmit
from claims.browse import filtered, get_request_or_404
from claims.charges import charges
from claims.costs import Period, visible_projects
from claims.history import HistoryFilter, HistoryRow, allocations, seen_by
from claims.models import Allocation, Request
from claims.pricing import Statement
from claims.reading import WHOLE
from claims.requests import UnableToChange
from claims.story import Story, story
from portal import access
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

Scope = ApiToken.Scope

# --- what is answered ------------------------------------------------------------------------------


class RequestIn(serializers.Serializer[Any]):
    """What a request asks for. Judged by the same rules as the form."""

    project = serializers.CharField(help_text="Slug of the project that pays.")
    flavor = serializers.CharField(
        required=False, help_text="Slug of a flavor of the catalogue; else name a `device_class`."
    )
    cluster = serializers.CharField(
        required=False, help_text="May be left out with a flavor: the first that serves it to the project."
    )
    pool = serializers.CharField(required=False, help_text="A node pool of the flavor there.")
    namespace = serializers.CharField(
        required=False, help_text="One of the project's; may be left out if it has only one there."
    )
    device_class = serializers.CharField(
        required=False, help_text="Name of a DeviceClass of the cluster, without a flavor."
    )
    count = serializers.IntegerField(
        min_value=1, max_value=asks.MAX_COUNT, required=False, help_text="May be left out with a flavor."
    )
    min_memory = serializers.CharField(
        required=False, max_length=32, help_text='A Kubernetes quantity such as "40Gi"; empty for any.'
    )
    alternatives = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text='Flavors that would do instead, in order: {"flavor": …, "count": …}.',
    )
    parts = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text='Further devices in the same claim: {"device_class": …, "count": …}.',
    )
    same = serializers.CharField(required=False, help_text="Attribute that all devices share (domain/name).")
    different = serializers.CharField(required=False, help_text="Attribute in which all devices differ.")
    share = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="How much of a shared device, by capacity."
    )
    tolerations = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="Taints of devices, as in the API."
    )
    expression = serializers.CharField(required=False, help_text="CEL that must be true.")
    shape = serializers.ChoiceField(
        choices=Request.Shape.choices,
        required=False,
        help_text="May be left out with a flavor. A Device Plugin gives entitlements, DRA the others.",
    )
    duration = serializers.IntegerField(
        min_value=1, required=False, help_text="In units of `duration_unit`; may be left out with a flavor."
    )
    duration_unit = serializers.ChoiceField(choices=list(asks.UNITS), required=False, default="hours")
    purpose = serializers.CharField(max_length=asks.MAX_PURPOSE)
    key = serializers.UUIDField(
        required=False,
        help_text="Chosen by the client: sent again with it, it is the same request (200, not 201).",
    )


class RequestOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    name = serializers.CharField(source="object_name", help_text="Name of the object on the cluster.")
    project = serializers.CharField(source="project.slug")
    requester = serializers.CharField(source="requester.username")
    cluster = serializers.CharField(source="cluster.name")
    namespace = serializers.CharField()
    flavor = serializers.CharField(source="flavor.slug", default=None, allow_null=True)
    backend = serializers.ChoiceField(choices=Request.Backend.choices)
    pool = serializers.CharField(help_text="The flavor's node pool; may be empty.")
    device_class = serializers.CharField(help_text="Empty with a Device Plugin.")
    extended_resource = serializers.CharField(help_text="Empty with DRA.")
    count = serializers.IntegerField()
    min_memory = serializers.CharField()
    options = serializers.DictField(help_text="What was chosen beyond that: alternatives, parts, …")
    shape = serializers.ChoiceField(choices=Request.Shape.choices)
    duration_hours = serializers.SerializerMethodField()
    purpose = serializers.CharField()
    state = serializers.ChoiceField(choices=Request.State.choices)
    reason = serializers.ChoiceField(
        choices=Request.Reason.choices, help_text="Why it is in that state; may be empty."
    )
    message = serializers.CharField(help_text="The same in the cluster's words.")
    hold = serializers.BooleanField(source="hold_wanted")
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()
    allocated_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)

    def get_duration_hours(self, request: Request) -> int:
        return int(request.duration.total_seconds() // 3600)


class DeviceHeldOut(serializers.Serializer[Any]):
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField(source="name")
    node = serializers.CharField()
    product = serializers.CharField()
    claim = serializers.CharField()


class PodOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    phase = serializers.CharField()
    node = serializers.CharField()
    hold = serializers.BooleanField(help_text="The desk's own Pod that keeps the device.")
    why = serializers.CharField(help_text="Why it has no node, in the scheduler's words.")


class AmountOut(serializers.Serializer[Any]):
    currency = serializers.CharField()
    amount = serializers.CharField(help_text="A decimal, rounded to the currency's minor unit.")


class RequestDetailOut(RequestOut):
    words = serializers.CharField(help_text="The state in a sentence.")
    in_step = serializers.BooleanField(help_text="Whether the desk knows the cluster's present state.")
    claims_allocated = serializers.IntegerField()
    claims_total = serializers.IntegerField()
    devices = DeviceHeldOut(many=True)
    pods = PodOut(many=True)
    cost = AmountOut(many=True)
    pod_snippet = serializers.CharField(help_text="YAML that a Pod needs to use it.")
    job = serializers.CharField(help_text="A whole Job that uses it, as YAML.")
    manifest = serializers.CharField(help_text="What is sent to the cluster; empty for an entitlement.")


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


# A function, because `errors` is the name of an attribute of serializer classes.
ProblemOut = inline_serializer(
    "Problem",
    {
        "type": serializers.CharField(),
        "title": serializers.CharField(),
        "status": serializers.IntegerField(),
        "code": serializers.CharField(),
        "detail": serializers.CharField(),
        "errors": serializers.ListField(
            child=serializers.DictField(child=serializers.CharField()),
            required=False,
            help_text='Per field: {"field", "message", "code"}.',
        ),
    },
)


# --- requests --------------------------------------------------------------------------------------

EXAMPLE = OpenApiExample(
    "One GPU with 40 GiB for three days",
    value={
        "project": "protein-folding",
        "cluster": "main",
        "device_class": "gpu.nvidia.com",
        "count": 1,
        "min_memory": "40Gi",
        "shape": "claim",
        "duration": 3,
        "duration_unit": "days",
        "purpose": "Folding of the March set",
    },
    request_only=True,
)


@extend_schema_view(
    get=extend_schema(
        tags=["requests"],
        parameters=[
            OpenApiParameter("state", description="A state, `active` or `over`."),
            OpenApiParameter("project", description="Slug."),
            OpenApiParameter("mine", OpenApiTypes.BOOL, description="Only those of the caller."),
            OpenApiParameter("q", description="Part of name, class or purpose."),
        ],
    )
)
class RequestListView(ApiListView):
    """Requests of the caller's projects, newest first."""

    required_scope = Scope.REQUESTS
    serializer_class = RequestOut

    def get_queryset(self) -> QuerySet[Request]:
        if getattr(self, "swagger_fake_view", False):
            return Request.objects.none()
        rows = filtered(Request.objects.all().visible_to(self.person), self.request.query_params, self.person)
        return rows.select_related("project", "requester", "cluster", "flavor").defer(
            "cluster__kubeconfig_encrypted"
        )

    @extend_schema(
        tags=["requests"],
        request=RequestIn,
        responses={201: RequestOut, 200: RequestOut, 400: ProblemOut},
        examples=[EXAMPLE],
    )
    def post(self, request: ApiRequest) -> Response:
        """Ask for devices. The cluster judges it on trial first; nothing is stored when it refuses."""
        values = request.data
        if not isinstance(values, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        now = timezone.now()
        try:
            made = requests.submit(
                user=self.person,
                values=values,
                key=values.get("key"),
                now=now,
                source_ip=source_ip(request),
            )
        except UnableToSubmit as error:
            raise exceptions.ValidationError(
                {("non_field_errors" if name == WHOLE else name): said for name, said in error.errors.items()}
            ) from error
        code = status.HTTP_201_CREATED if made.created_at == now else status.HTTP_200_OK
        return Response(RequestOut(made).data, status=code)


class RequestDetailView(ApiView):
    """One request with its devices, Pods and cost so far."""

    required_scope = Scope.REQUESTS

    @extend_schema(tags=["requests"], responses={200: RequestDetailOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, key: uuid.UUID) -> Response:
        found = get_request_or_404(self.person, key)
        return Response(_detail(story(request=found, now=timezone.now())))


class _ActionView(ApiView):
    """A POST that changes a request; its answer is the request as it is then."""

    required_scope = Scope.REQUESTS

    def act(
        self, request: ApiRequest, key: uuid.UUID, change: Callable[..., None], *, to_end: bool = False
    ) -> Response:
        found = get_request_or_404(self.person, key, for_write=not to_end, to_end=to_end)
        try:
            change(request=found, user=self.person, now=timezone.now(), source_ip=source_ip(request))
        except UnableToChange as error:
            raise Problem(error.message, code="not_now", status_code=status.HTTP_409_CONFLICT) from error
        found.refresh_from_db()
        return Response(RequestOut(found).data)


_ANSWERS = {200: RequestOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut}


class RequestHoldView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Let the desk keep the device by a Pod of its own until release. Harmless when repeated."""
        return self.act(request, key, requests.hold)


class RequestReleaseView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give the devices back. Pods of people stay: while some use it, it is `ending` and costs."""
        return self.act(request, key, requests.release, to_end=True)


class RequestCancelView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Give up a request that got nothing yet."""
        return self.act(request, key, requests.cancel, to_end=True)


class RequestRetryView(_ActionView):
    @extend_schema(tags=["requests"], request=None, responses=_ANSWERS)
    def post(self, request: ApiRequest, key: uuid.UUID) -> Response:
        """Start a failed request again under the same name."""
        return self.act(request, key, requests.retry)


# --- allocations and charges -----------------------------------------------------------------------

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


def _detail(told: Story) -> dict[str, Any]:
    return {
        **RequestOut(told.request).data,
        "words": told.words,
        "in_step": told.coverage.in_step,
        "claims_allocated": told.allocated,
        "claims_total": told.claims,
        "devices": DeviceHeldOut(told.devices, many=True).data,
        "pods": PodOut(told.pods, many=True).data,
        "cost": _totals(told.cost),
        "pod_snippet": told.snippet,
        "job": told.job,
        "manifest": told.manifest,
    }


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
        "totals": _totals(told),
    }


def _totals(told: Statement) -> list[dict[str, str]]:
    return [{"currency": currency, "amount": str(amount)} for currency, amount in told.totals.items()]
