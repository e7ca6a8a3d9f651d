"""REST over the versions of DeviceClasses: reading them, back to one, agreeing with a change made elsewhere.

Scope `administration`. Versions name who changed what and why: they are for administrators and auditors.
"""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory import class_history as history
from inventory import classes
from inventory.api_clusters import Administered
from inventory.class_effect import effect_of
from inventory.models import ClassVersion, Cluster, DeviceClass
from portal.access import may_read_everything
from portal.accounts import audit
from portal.accounts.models import ApiToken
from portal.api import ApiListView, Problem


class ClassVersionOut(serializers.ModelSerializer[ClassVersion]):
    cluster = serializers.SlugRelatedField(slug_field="name", read_only=True)  # type: ignore[var-annotated]  # the stub wants the related model
    actor = serializers.SlugRelatedField(  # type: ignore[var-annotated]  # as above
        slug_field="username", read_only=True, allow_null=True, help_text="Null where it was not the desk."
    )
    # Declared, for of a field of JSON the description would say that null is two things.
    labels = serializers.DictField(child=serializers.CharField(), read_only=True, allow_null=True)
    annotations = serializers.DictField(child=serializers.CharField(), read_only=True, allow_null=True)

    class Meta:
        model = ClassVersion
        fields = (
            "id",
            "cluster",
            "name",
            "at",
            "source",
            "deleted",
            "spec",
            "labels",
            "annotations",
            "actor",
            "reason",
            "proposal",
        )
        read_only_fields = fields


class RestoreIn(serializers.Serializer[Any]):
    resource_version = serializers.CharField(
        max_length=63,
        allow_blank=True,
        help_text="Of the class that is replaced; another by now is a conflict. Empty: there is no class.",
    )
    reason = serializers.CharField(
        max_length=history.MAX_REASON, required=False, default="", allow_blank=True
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only rehearse it on the cluster.")


class ProductCountOut(serializers.Serializer[Any]):
    product = serializers.CharField()
    devices = serializers.IntegerField()


class RestoreOut(serializers.Serializer[Any]):
    done = serializers.BooleanField(help_text="False after a rehearsal.")
    before = serializers.IntegerField(help_text="Devices that match now.")
    after = serializers.IntegerField(help_text="Devices that match then.")
    gained = ProductCountOut(many=True)
    lost = ProductCountOut(many=True)
    keeping = serializers.IntegerField(help_text="Claims that keep a device which matches no longer.")
    problem = serializers.CharField(help_text="Why the expressions cannot be evaluated; empty when they can.")


class AdoptIn(serializers.Serializer[Any]):
    reason = serializers.CharField(
        max_length=history.MAX_REASON, required=False, default="", allow_blank=True
    )


class AdoptOut(serializers.Serializer[Any]):
    adopted = serializers.BooleanField()


@extend_schema_view(get=extend_schema(tags=["inventory"]))
class ClassVersionListView(ApiListView):
    """The versions of a class, newest first."""

    required_scope = ApiToken.Scope.ADMINISTRATION
    serializer_class = ClassVersionOut
    ordering = "-id"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not may_read_everything(self.person):
            raise PermissionDenied(_("Only administrators and auditors may see this."))

    def get_queryset(self) -> QuerySet[ClassVersion]:
        if getattr(self, "swagger_fake_view", False):
            return ClassVersion.objects.none()
        cluster = get_object_or_404(Cluster, name=self.kwargs["cluster"])
        rows = ClassVersion.objects.filter(cluster=cluster, name=self.kwargs["name"])
        return rows.select_related("cluster", "actor").defer("cluster__kubeconfig_encrypted")


class ClassRestoreView(Administered):
    post_talks_to_cluster = True

    @extend_schema(
        request=RestoreIn,
        responses=RestoreOut,
        tags=["inventory"],
        examples=[
            OpenApiExample(
                "rehearsal",
                value={"resource_version": "48211", "reason": "", "dry_run": True},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, cluster: str, name: str, version: int) -> Response:
        """Make a class what it was in this version, and tell what that changes."""
        serializer = RestoreIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        found = get_object_or_404(Cluster, name=cluster)
        wanted = get_object_or_404(ClassVersion, cluster=found, name=name, pk=version)
        current = DeviceClass.objects.filter(cluster=found, name=name).first()
        effect = effect_of(
            cluster=found, name=name, before=current.spec if current else None, after=wanted.spec
        )
        try:
            classes.restore_class(
                cluster=found,
                name=name,
                spec=wanted.spec,
                labels=wanted.labels,
                annotations=wanted.annotations,
                seen_version=asked["resource_version"],
                actor=self.person,
                now=timezone.now(),
                reason=asked["reason"],
                source_ip=audit.source_ip(request),
                rehearse_only=asked["dry_run"],
            )
        except classes.UnableToChangeClass as refused:
            raise Problem(refused.message, code="class_refused", status_code=409) from refused
        told = {
            "done": not asked["dry_run"],
            "before": effect.before,
            "after": effect.after,
            "gained": [{"product": k.product, "devices": k.count} for k in effect.gained.kinds],
            "lost": [{"product": k.product, "devices": k.count} for k in effect.lost.kinds],
            "keeping": effect.keeping.count,
            "problem": effect.problem,
        }
        return Response(RestoreOut(told).data)


class ClassAdoptView(Administered):
    @extend_schema(request=AdoptIn, responses=AdoptOut, tags=["inventory"])
    def post(self, request: Request, cluster: str, name: str, version: int) -> Response:
        """Agree with what the class became without the desk; `version` is the one that was looked at."""
        serializer = AdoptIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        found = get_object_or_404(Cluster, name=cluster)
        try:
            history.adopt(
                cluster=found,
                name=name,
                version=version,
                actor=self.person,
                now=timezone.now(),
                reason=serializer.validated_data["reason"],
                source_ip=audit.source_ip(request),
            )
        except history.UnableToAdopt as refused:
            raise Problem(refused.message, code="nothing_to_adopt", status_code=409) from refused
        return Response(AdoptOut({"adopted": True}).data)
