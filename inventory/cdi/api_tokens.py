"""REST over the tokens of nodes, for administrators: which there are, a new one, the end of one. Scope
`administration`. The text of a token is in the answer to its creation and nowhere else.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.cdi import tokens
from inventory.filters import clean_text
from inventory.models import Cluster
from inventory.node_api import NodeToken
from inventory.node_tokens import NodeTokens
from portal.access import demand_administrator
from portal.accounts.audit import source_ip
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

MAX_DAYS = tokens.MAX_LIFETIME.days
STATES = ("active", "expired", "revoked")


class NodeTokenOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    cluster = serializers.CharField()
    node = serializers.CharField()
    prefix = serializers.CharField(
        help_text="The first characters of its text: how people tell tokens apart."
    )
    state = serializers.ChoiceField(choices=STATES)
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField(allow_null=True, help_text="Null: a command on the portal's host.")
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="When it was sent last, also after its end: then it was refused."
    )


class NewNodeTokenOut(NodeTokenOut):
    token = serializers.CharField(help_text="Its text, this once.")


class NodeTokenIn(serializers.Serializer[Any]):
    cluster = serializers.CharField(help_text="The cluster's name.")
    node = serializers.CharField(help_text="The node's name; the mirror need not know it yet.")
    days = serializers.IntegerField(
        required=False, default=tokens.DEFAULT_LIFETIME.days, min_value=1, max_value=MAX_DAYS
    )


class _Guarded(ApiView):
    required_scope = ApiToken.Scope.ADMINISTRATION
    # Of which sort of report.
    tokens: NodeTokens[Any, Any] = tokens.TOKENS

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        demand_administrator(self.person)


PARAMETERS = [
    OpenApiParameter("cluster", str, description="The cluster's name."),
    OpenApiParameter("node", str, description="The node's name."),
    OpenApiParameter("state", str, enum=STATES),
]


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["cdi"]))
class NodeTokenListView(_Guarded, ApiListView):
    """Tokens of nodes, the latest first."""

    serializer_class = NodeTokenOut
    ordering = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Any]:
        rows = _rows(self.tokens)
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        params = self.request.query_params
        for parameter, column in (("cluster", "node__cluster__name"), ("node", "node__name")):
            if text := clean_text(params.get(parameter, "")):
                rows = rows.filter(**{column: text})
        now = timezone.now()
        wanted: dict[str, dict[str, Any]] = {
            "active": {"revoked_at": None, "expires_at__gt": now},
            "expired": {"revoked_at": None, "expires_at__lte": now},
            "revoked": {"revoked_at__isnull": False},
        }
        return rows.filter(**wanted.get(params.get("state", ""), {}))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's own
        page: Sequence[NodeToken] = self.paginate_queryset(self.get_queryset()) or []
        now = timezone.now()
        told = [_told(token, now=now) for token in page]
        return self.get_paginated_response(self.get_serializer(told, many=True).data)

    @sensitive_variables("plain")
    @extend_schema(request=NodeTokenIn, responses={201: NewNodeTokenOut}, tags=["cdi"])
    def post(self, request: Request) -> Response:
        """Issue a token for one node."""
        serializer = NodeTokenIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        cluster = Cluster.objects.defer("kubeconfig_encrypted").filter(name=asked["cluster"]).first()
        if cluster is None:
            raise serializers.ValidationError({"cluster": _("There is no such cluster.")})
        now = timezone.now()
        try:
            token, plain = self.tokens.issue(
                cluster=cluster,
                node_name=asked["node"],
                lifetime=timedelta(days=asked["days"]),
                actor=self.person,
                now=now,
                source_ip=source_ip(request),
            )
        except tokens.UnableToIssueNodeToken as unable:
            field = {"lifetime": "days"}.get(unable.field, unable.field) or "non_field_errors"
            raise serializers.ValidationError({field: unable.message}) from unable
        told = _told(token, now=now) | {"token": plain}
        return Response(NewNodeTokenOut(told).data, status=201, headers={"Cache-Control": "no-store"})


class NodeTokenView(_Guarded):
    @extend_schema(responses=NodeTokenOut, tags=["cdi"])
    def get(self, _request: Request, pk: int) -> Response:
        """One token of a node, without its text."""
        return Response(NodeTokenOut(_told(self._token(pk), now=timezone.now())).data)

    @extend_schema(responses={204: None}, tags=["cdi"])
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke it: the next report with it is refused. It stays in the list."""
        token, ip = self._token(pk), source_ip(request)
        self.tokens.revoke(token=token, actor=self.person, now=timezone.now(), source_ip=ip)
        return Response(status=204)

    def _token(self, pk: int) -> Any:
        return get_object_or_404(_rows(self.tokens), pk=pk)


def _rows(sort: NodeTokens[Any, Any]) -> QuerySet[Any]:
    rows: QuerySet[Any] = sort.tokens._default_manager.select_related("node__cluster", "created_by")
    return rows.defer("node__cluster__kubeconfig_encrypted")


def _told(token: NodeToken, *, now: datetime) -> dict[str, Any]:
    names = ("id", "prefix", "created_at", "expires_at", "revoked_at", "last_used_at")
    state = "revoked" if token.revoked_at else "expired" if token.expires_at <= now else "active"
    return {name: getattr(token, name) for name in names} | {
        "cluster": token.node.cluster.name,
        "node": token.node.name,
        "created_by": token.created_by.username if token.created_by else None,
        "state": state,
    }
