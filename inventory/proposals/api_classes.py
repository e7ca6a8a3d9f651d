"""REST over classes, for writing: at once where the rule lets them, and the effect of a change beforehand.

Where changes are reviewed (CLAIMDESK_CLASS_REVIEW), writing is refused with the code `review_required`, and a
proposal is the way.
"""

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory import class_effect, classes
from inventory.api import DeviceClassDetailView, DeviceClassListView
from inventory.api_clusters import Administered
from inventory.class_history import MAX_REASON
from inventory.models import Cluster, DeviceClass
from inventory.proposals import drawing, reading, rules
from portal.accounts import audit
from portal.api import Problem
from portal.texts import searched

_EXAMPLE = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]}


class ClassChangeIn(serializers.Serializer[Any]):
    spec = serializers.JSONField(help_text="As in resource.k8s.io/v1.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, default="", allow_blank=True)
    dry_run = serializers.BooleanField(default=False, help_text="Only rehearse it on the cluster.")


class ClassCreateIn(ClassChangeIn):
    cluster = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=253)


class ClassUpdateIn(ClassChangeIn):
    resource_version = serializers.CharField(
        max_length=63, help_text="Of the class that was looked at; another by now is a conflict."
    )


class ClassChangeOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    done = serializers.BooleanField(help_text="False after a rehearsal.")
    effect = serializers.JSONField()


class EffectIn(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=253)
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=63), min_length=1, max_length=drawing.MAX_TARGETS
    )
    spec = serializers.JSONField(allow_null=True, help_text="Null: the class is deleted.")


class ClusterEffectOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    exists = serializers.BooleanField(help_text="Whether the cluster has the class now.")
    effect = serializers.JSONField()


class ClassListView(DeviceClassListView):
    """DeviceClasses of all clusters, with the devices that they match."""

    post_talks_to_cluster = True

    @extend_schema(
        request=ClassCreateIn,
        responses={200: ClassChangeOut, 201: ClassChangeOut},
        tags=["inventory"],
        examples=[
            OpenApiExample(
                "create",
                value={"cluster": "berlin", "name": "a100-80g", "spec": _EXAMPLE, "reason": "New cards"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Create a class at once, after its rehearsal. Administrators only."""
        self.administrator()
        serializer = ClassCreateIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        cluster = get_object_or_404(Cluster, name=asked["cluster"])
        spec = _spec(asked["name"], asked["spec"])
        effect = _effect(cluster, asked["name"], spec)
        try:
            classes.create_class(
                cluster=cluster,
                name=asked["name"],
                wanted=classes.Wanted.of_spec(spec),
                actor=self.person,
                now=timezone.now(),
                reason=asked["reason"],
                source_ip=audit.source_ip(request),
                rehearse_only=asked["dry_run"],
            )
        except classes.UnableToChangeClass as refused:
            raise _problem(refused) from refused
        return _answer(cluster, asked, effect, status=200 if asked["dry_run"] else 201)


class ClassDetailView(DeviceClassDetailView):
    @extend_schema(
        request=ClassUpdateIn,
        responses=ClassChangeOut,
        tags=["inventory"],
        examples=[
            OpenApiExample(
                "change",
                value={"spec": _EXAMPLE, "resource_version": "48211", "reason": "All of them"},
                request_only=True,
            )
        ],
    )
    def put(self, request: Request, cluster: str, name: str) -> Response:
        """Change a class at once, after its rehearsal; a change by somebody else meanwhile is a conflict.
        Administrators only."""
        self.administrator()
        found = get_object_or_404(
            DeviceClass.objects.select_related("cluster"), cluster__name=cluster, name=name
        )
        serializer = ClassUpdateIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        spec = _spec(name, asked["spec"])
        effect = _effect(found.cluster, name, spec)
        try:
            classes.update_class(
                cluster=found.cluster,
                name=name,
                wanted=classes.Wanted.of_spec(spec),
                actor=self.person,
                now=timezone.now(),
                seen_version=asked["resource_version"],
                reason=asked["reason"],
                source_ip=audit.source_ip(request),
                rehearse_only=asked["dry_run"],
            )
        except classes.UnableToChangeClass as refused:
            raise _problem(refused) from refused
        return _answer(found.cluster, {**asked, "name": name}, effect)

    @extend_schema(
        parameters=[
            OpenApiParameter("confirmed", str, description="The name again, where the class is used."),
            OpenApiParameter("reason", str),
        ],
        responses={204: None},
        tags=["inventory"],
    )
    def delete(self, request: Request, cluster: str, name: str) -> Response:
        """Delete a class at once. One that is used only with its name as `confirmed`; the refusal names the
        users. Administrators only."""
        self.administrator()
        found = get_object_or_404(
            DeviceClass.objects.select_related("cluster"), cluster__name=cluster, name=name
        )
        users = drawing.users_named(found)
        if users and request.GET.get("confirmed") != name:
            said = _("It is used. Give its name as `confirmed` to delete it all the same.")
            raise Problem(said, code="in_use", status_code=409, users=users[:500])
        try:
            classes.delete_class(
                cluster=found.cluster,
                name=name,
                actor=self.person,
                now=timezone.now(),
                reason=searched(request.GET.get("reason", ""), limit=MAX_REASON),
                source_ip=audit.source_ip(request),
            )
        except classes.UnableToChangeClass as refused:
            raise _problem(refused) from refused
        return Response(status=204)


class ClassEffectView(Administered):
    @extend_schema(request=EffectIn, responses=ClusterEffectOut(many=True), tags=["inventory"])
    def post(self, request: Request) -> Response:
        """What another spec of a class would change on each cluster; nothing is changed."""
        serializer = EffectIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        spec = None if asked["spec"] is None else _spec(asked["name"], asked["spec"])
        told = []
        for name in dict.fromkeys(asked["clusters"]):
            cluster = get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
            exists = DeviceClass.objects.filter(cluster=cluster, name=asked["name"]).exists()
            effect = _effect(cluster, asked["name"], spec)
            told.append({"cluster": name, "exists": exists, "effect": effect})
        return Response(ClusterEffectOut(told, many=True).data)


# --- inside -------------------------------------------------------------------------------------------


def _found(cluster: str, name: str) -> DeviceClass:
    rows = DeviceClass.objects.select_related("cluster")
    return get_object_or_404(rows, cluster__name=cluster, name=name)


def _spec(name: str, value: object) -> dict[str, Any]:
    try:
        drawing.check_name(name)
        return reading.read_spec(name, value)
    except drawing.UnableToPropose as refused:
        raise Problem(refused.message, code="class_refused", field=refused.field) from refused


def _effect(cluster: Cluster, name: str, spec: dict[str, Any] | None) -> dict[str, Any]:
    before = drawing.present_spec(cluster, name)
    return class_effect.as_json(class_effect.effect_of(cluster=cluster, name=name, before=before, after=spec))


def _problem(refused: classes.UnableToChangeClass) -> Problem:
    """What is wrong with a field is told there; the rest is a conflict."""
    if not refused.field:
        code = "class_refused" if rules.permits_direct() else "review_required"
        return Problem(refused.message, code=code, status_code=409)
    field = {"expressions": "spec", "extended_resource_name": "spec", "config": "spec"}.get(refused.field)
    status = 409 if refused.field == "name" else 422
    return Problem(refused.message, code="class_refused", field=field or refused.field, status_code=status)


def _answer(cluster: Cluster, asked: Any, effect: Any, *, status: int = 200) -> Response:
    told = {
        "cluster": cluster.name,
        "name": asked["name"],
        "done": not asked["dry_run"],
        "effect": effect,
    }
    return Response(ClassChangeOut(told).data, status=status)
