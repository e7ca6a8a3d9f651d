"""REST of Pods' devices: the intake for nodes, with tokens of nodes, and which nodes report, for people."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inventory.filters import clean_text
from inventory.models import PodDeviceNode, PodDeviceToken
from inventory.node_api import (
    HasNodeToken,
    NodeTokenAuthentication,
    RawReport,
    answer_to,
    security_definition,
)
from inventory.node_reports import UnableToAccept
from inventory.podresources import intake, tokens
from inventory.podresources.listing import with_devices
from portal.accounts.models import ApiToken
from portal.api import ApiListView

# --- the intake ------------------------------------------------------------------------------------

_REPORT = OpenApiExample(
    "One Pod with one GPU",
    value={
        "format": 1, "cluster": "main", "node": "node-7", "sent_at": "2026-11-03T09:00:00Z",
        "interval_seconds": 300, "collector": "1",
        "pods": [
            {
                "namespace": "protein-folding", "name": "train-0",
                "containers": [
                    {
                        "name": "main",
                        "devices": [{"resource": "nvidia.com/gpu", "ids": ["GPU-8a10b6f7"], "numa": [0]}],
                    }
                ],
            }
        ],
    },
    request_only=True,
)  # fmt: skip


class PodDeviceTokenAuthentication(NodeTokenAuthentication):
    def find(self, plain: str) -> PodDeviceToken | None:
        return tokens.find(plain, now=timezone.now())


class PodDeviceTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # registers itself by metaclass
    target_class = PodDeviceTokenAuthentication
    name = "podDeviceToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:  # noqa: ARG002 - the interface
        return security_definition()


class PodDeviceAcceptedOut(serializers.Serializer[Any]):
    changed = serializers.BooleanField(help_text="Whether any device came to a Pod, or left one.")
    received_at = serializers.DateTimeField()


class PodDeviceReportView(APIView):
    """Takes in which Pods of the node, whose token is sent, have which devices. A report tells of all of
    them: what it lacks has ended. One that was made before the latest one is refused (409), one whose time is
    minutes off as well (422)."""

    authentication_classes = (PodDeviceTokenAuthentication,)
    permission_classes = (HasNodeToken,)
    parser_classes = (RawReport,)

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        responses=PodDeviceAcceptedOut,
        examples=[_REPORT],
        tags=["pod-devices"],
        operation_id="pod_device_report_create",
    )
    def post(self, request: Request) -> Response:
        token = request.auth
        assert isinstance(token, PodDeviceToken)
        # A form is nothing that the parser lets through: `data` is bytes.
        body = request.data if isinstance(request.data, bytes) else b""
        try:
            accepted = intake.accept(token=token, body=body, now=timezone.now())
        except UnableToAccept as refused:
            raise answer_to(refused) from None
        told = {"changed": accepted.changed, "received_at": accepted.node.received_at}
        return Response(PodDeviceAcceptedOut(told).data)


# --- reading ---------------------------------------------------------------------------------------


class PodDeviceNodeOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    node = serializers.CharField()
    told_by = serializers.ChoiceField(choices=PodDeviceNode.Source.choices)
    state = serializers.ChoiceField(
        choices=intake.STATES,
        help_text="`silent`: a report is overdue, and what its Pods have since `seen_at` is unknown.",
    )
    seen_at = serializers.DateTimeField(allow_null=True, help_text="Of when the latest report tells.")
    due_at = serializers.DateTimeField(allow_null=True, help_text="When the next report is overdue.")
    reporting_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when reports have come without a silence between them."
    )
    clock_skew_ms = serializers.IntegerField(allow_null=True)
    collector = serializers.CharField(help_text="Version of the collector; empty for metrics.")
    devices = serializers.IntegerField(help_text="Devices that its Pods had in the latest report.")
    refusal = serializers.CharField(help_text="Code of why the latest report was refused; empty if not.")


PARAMETERS = [
    OpenApiParameter("cluster", str, description="The cluster's name."),
    OpenApiParameter("node", str, description="The node's name."),
    OpenApiParameter("source", str, enum=PodDeviceNode.Source.values),
]


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["pod-devices"]))
class PodDeviceNodeListView(ApiListView):
    """Which nodes tell of the devices that their Pods have, from which source, and since when they do not."""

    required_scope = ApiToken.Scope.INVENTORY
    serializer_class = PodDeviceNodeOut
    ordering = "id"

    def get_queryset(self) -> QuerySet[PodDeviceNode]:
        rows = PodDeviceNode.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
        params = self.request.query_params
        for parameter, column in (("cluster", "cluster__name"), ("node", "name"), ("source", "source")):
            if text := clean_text(params.get(parameter, "")):
                rows = rows.filter(**{column: text})
        return with_devices(rows)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's own
        page: Sequence[PodDeviceNode] = self.paginate_queryset(self.get_queryset()) or []
        now = timezone.now()
        told = [
            {name: getattr(node, name) for name in _AS_STORED}
            | {
                "cluster": node.cluster.name,
                "node": node.name,
                "told_by": node.source,
                "state": intake.state_of(node, now=now),
                "due_at": intake.due_at(node),
                "devices": getattr(node, "held", 0),
            }
            for node in page
        ]
        return self.get_paginated_response(self.get_serializer(told, many=True).data)


_AS_STORED = ("seen_at", "reporting_since", "clock_skew_ms", "collector", "refusal")
