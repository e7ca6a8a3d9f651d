"""REST over what may be done with a cluster, and over what of it could not be read.

Changes are for administrators, with the scope `administration`. Of a project's objects that could not be
read, only those who read everything are told which.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory import bindings, clusters
from inventory.api import InventoryListView
from inventory.filters import clean_text
from inventory.models import Cluster, SyncProblem
from portal.access import demand_administrator, may_read_everything
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiView, Problem
from portal.kube.errors import ClusterError

# --- what may be done ------------------------------------------------------------------------------


class SyncOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    requested_at = serializers.DateTimeField(help_text="Lists that began later are complete and new.")


class CheckOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    server_version = serializers.CharField()
    served = serializers.DictField(
        child=serializers.CharField(), help_text="Resource → the version in which it is read."
    )
    missing_permissions = serializers.ListField(child=serializers.CharField())


class SwitchIn(serializers.Serializer[Any]):
    enabled = serializers.BooleanField()


class SwitchOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    enabled = serializers.BooleanField()


class Administered(ApiView):
    """Only for administrators."""

    required_scope = ApiToken.Scope.ADMINISTRATION

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        demand_administrator(self.person)


class ClusterSyncView(Administered):
    @extend_schema(request=None, responses={202: SyncOut}, tags=["inventory"])
    def post(self, request: Request, name: str) -> Response:
        """Have the cluster's follower list everything again."""
        cluster = _cluster(name)
        if not cluster.enabled:
            raise Problem(
                _("It is not followed: follow it again first."), code="not_followed", status_code=409
            )
        now = timezone.now()
        clusters.request_sync(cluster=cluster, now=now, actor=self.person, source_ip=audit.source_ip(request))
        return Response(SyncOut({"cluster": cluster.name, "requested_at": now}).data, status=202)


class ClusterCheckView(Administered):
    post_talks_to_cluster = True

    @extend_schema(request=None, responses=CheckOut, tags=["inventory"])
    def post(self, _request: Request, name: str) -> Response:
        """Contact the cluster now, and tell what it serves and which rights the desk lacks there."""
        cluster = get_object_or_404(Cluster, name=name)
        try:
            if cluster.enabled:
                found = clusters.connect(cluster=cluster, now=timezone.now())
            else:
                # Only asked: a cluster that is not followed stays so.
                with clusters.client_for(cluster) as client:
                    namespaces = bindings.namespaces_on(cluster, at=timezone.now())
                    found = clusters.introduce(client, namespaces=namespaces)
        except ClusterError as error:
            if cluster.enabled:
                clusters.note_failure(cluster_id=cluster.pk, error=error)
            raise Problem(error.message, code="cluster_failed", status_code=502) from error
        told = {
            "cluster": cluster.name,
            "server_version": found.version,
            "served": found.served,
            "missing_permissions": found.missing,
        }
        return Response(CheckOut(told).data)


class ClusterSwitchView(Administered):
    @extend_schema(request=SwitchIn, responses=SwitchOut, tags=["inventory"])
    def put(self, request: Request, name: str) -> Response:
        """Follow the cluster, or stop following it; what is known of it stays."""
        serializer = SwitchIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        cluster = _cluster(name)
        enabled = serializer.validated_data["enabled"]
        clusters.set_enabled(
            cluster=cluster,
            enabled=enabled,
            now=timezone.now(),
            actor=self.person,
            source_ip=audit.source_ip(request),
        )
        return Response(SwitchOut({"cluster": cluster.name, "enabled": enabled}).data)


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)


# --- what could not be read ------------------------------------------------------------------------


class SyncProblemOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    resource = serializers.CharField()
    namespace = serializers.CharField(help_text="Empty, as name, path and reason, where one may not see it.")
    name = serializers.CharField()
    path = serializers.CharField(help_text="The field at fault.")
    reason = serializers.CharField()
    seen_at = serializers.DateTimeField()


@extend_schema_view(
    get=extend_schema(
        parameters=[OpenApiParameter("cluster", str), OpenApiParameter("resource", str)], tags=["inventory"]
    )
)
class SyncProblemListView(InventoryListView):
    """Objects that could not be mirrored. Everything else is."""

    serializer_class = SyncProblemOut

    def get_queryset(self) -> QuerySet[SyncProblem]:
        rows = SyncProblem.objects.select_related("cluster").defer("cluster__kubeconfig_encrypted")
        for parameter, column in (("cluster", "cluster__name"), ("resource", "resource")):
            if text := clean_text(self.request.GET.get(parameter, "")):
                rows = rows.filter(**{column: text})
        return rows

    def tell(self, page: Sequence[SyncProblem]) -> Sequence[Any]:
        reads_all = may_read_everything(self.person)
        return [_problem(problem, seen=reads_all or not problem.namespace) for problem in page]


def _problem(problem: SyncProblem, *, seen: bool) -> dict[str, Any]:
    names = ("namespace", "name", "path", "reason")
    return {name: getattr(problem, name) if seen else "" for name in names} | {
        "cluster": problem.cluster.name,
        "resource": problem.resource,
        "seen_at": problem.seen_at,
    }
