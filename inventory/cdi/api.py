"""REST of CDI: the intake for nodes, with tokens of nodes, and reading for people's programs.

A node's token opens the intake and nothing else; tokens of persons do not open the intake.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inventory.cdi import intake, tokens, words
from inventory.cdi.facts import Judged, judge_nodes
from inventory.cdi.listing import visible_files, visible_findings, wanted_nodes
from inventory.models import CdiNode, CdiSpecFile, CdiToken
from inventory.node_api import (
    HasNodeToken,
    NodeTokenAuthentication,
    RawReport,
    answer_to,
    security_definition,
)
from portal.access import may_read_everything
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

# --- the intake ------------------------------------------------------------------------------------


class CdiTokenAuthentication(NodeTokenAuthentication):
    def find(self, plain: str) -> CdiToken | None:
        return tokens.find(plain, now=timezone.now())


class CdiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # registers itself by metaclass
    target_class = CdiTokenAuthentication
    name = "nodeToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:  # noqa: ARG002 - the interface
        return security_definition()


class AcceptedOut(serializers.Serializer[Any]):
    changed = serializers.BooleanField(help_text="Whether the report said anything new.")
    received_at = serializers.DateTimeField()


class ReportView(APIView):
    """Takes in the report of the node whose token is sent. A report that was sent before the latest one is
    refused (409), one whose time is minutes off as well (422)."""

    authentication_classes = (CdiTokenAuthentication,)
    permission_classes = (HasNodeToken,)
    parser_classes = (RawReport,)

    @extend_schema(
        request=OpenApiTypes.OBJECT, responses=AcceptedOut, tags=["cdi"], operation_id="cdi_report_create"
    )
    def post(self, request: Request) -> Response:
        token = request.auth
        assert isinstance(token, CdiToken)
        # A form is nothing that the parser lets through: `data` is bytes.
        body = request.data if isinstance(request.data, bytes) else b""
        try:
            accepted = intake.accept(token=token, body=body, now=timezone.now())
        except intake.UnableToAccept as refused:
            raise answer_to(refused) from None
        return Response(
            AcceptedOut({"changed": accepted.changed, "received_at": accepted.node.received_at}).data
        )


# --- reading ---------------------------------------------------------------------------------------


class CdiFindingOut(serializers.Serializer[Any]):
    code = serializers.CharField()
    severity = serializers.ChoiceField(choices=list(words.SEVERITIES))
    subject = serializers.CharField(help_text="The file, directory, driver or device that it is about.")
    message = serializers.CharField()


class CdiDeviceOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    edits = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="Names and paths that it would bring; only for administrators and auditors.",
    )


class CdiProblemOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    level = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()


class CdiFileOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    kind = serializers.CharField()
    version = serializers.CharField()
    valid = serializers.BooleanField(allow_null=True, help_text="Null: its text was not read.")
    claim_uid = serializers.CharField(help_text="The claim that it was written for; empty for a base spec.")
    uid = serializers.IntegerField()
    gid = serializers.IntegerField()
    mode = serializers.CharField(help_text='Octal: "0644".')
    size = serializers.IntegerField()
    modified_at = serializers.DateTimeField()
    sha256 = serializers.CharField()
    devices = CdiDeviceOut(many=True)
    problems = CdiProblemOut(many=True)


class CdiNodeOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    node = serializers.CharField()
    state = serializers.ChoiceField(choices=list(words.STATES))
    why_unknown = serializers.CharField(help_text="Code of the reason; empty when the state is known.")
    received_at = serializers.DateTimeField(allow_null=True)
    changed_at = serializers.DateTimeField(allow_null=True)
    due_at = serializers.DateTimeField(allow_null=True, help_text="When the next report is overdue.")
    clock_skew_ms = serializers.IntegerField(allow_null=True)
    runtime = serializers.DictField()
    directories = serializers.ListField(child=serializers.DictField())
    findings = CdiFindingOut(many=True)


class CdiNodeDetailOut(CdiNodeOut):
    files = CdiFileOut(many=True)


PARAMETERS = [
    OpenApiParameter("q", str, description="Part of the node's name."),
    OpenApiParameter("cluster", str, description="The cluster's name."),
]


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["cdi"]))
class CdiNodeListView(ApiListView):
    """Nodes that report their CDI specs, with what does not fit."""

    required_scope = ApiToken.Scope.INVENTORY
    serializer_class = CdiNodeOut
    ordering = "id"

    def get_queryset(self) -> QuerySet[CdiNode]:
        return wanted_nodes(self.request.GET)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's own
        page: Sequence[CdiNode] = self.paginate_queryset(self.get_queryset()) or []
        detailed = may_read_everything(self.person)
        told = [_node(judged, detailed=detailed) for judged in judge_nodes(page, now=timezone.now())]
        return self.get_paginated_response(self.get_serializer(told, many=True).data)


class CdiNodeDetailView(ApiView):
    """One node's latest report, file by file."""

    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=CdiNodeDetailOut, tags=["cdi"])
    def get(self, _request: Request, cluster: str, name: str) -> Response:
        node = get_object_or_404(CdiNode, cluster__name=cluster, name=name)
        judged = judge_nodes([node], now=timezone.now())[0]
        detailed = may_read_everything(self.person)
        files = [_file(file, detailed=detailed) for file in visible_files(judged, detailed=detailed)]
        return Response(CdiNodeDetailOut(_node(judged, detailed=detailed) | {"files": files}).data)


def _node(judged: Judged, *, detailed: bool) -> dict[str, Any]:
    node = judged.node
    return {
        "cluster": judged.cluster.name,
        "node": node.name,
        "state": judged.verdict.state,
        "why_unknown": judged.verdict.why,
        "received_at": node.received_at,
        "changed_at": node.changed_at,
        "due_at": judged.due_at,
        "clock_skew_ms": node.clock_skew_ms,
        "runtime": judged.runtime,
        "directories": node.directories,
        "findings": [
            {
                "code": found.code,
                "severity": found.severity,
                "subject": found.subject,
                "message": words.finding(found),
            }
            for found in visible_findings(judged, detailed=detailed)
        ],
    }


def _file(file: CdiSpecFile, *, detailed: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "kind": file.kind,
        "version": file.version,
        "valid": file.valid,
        "claim_uid": file.claim_uid,
        "uid": file.uid,
        "gid": file.gid,
        "mode": file.permissions,
        "size": file.size,
        "modified_at": file.modified_at,
        "sha256": file.sha256,
        "devices": [
            {"name": device["name"], "edits": device["edits"] if detailed else {}} for device in file.devices
        ],
        "problems": [{**found, "message": words.problem(found)} for found in file.problems],
    }
