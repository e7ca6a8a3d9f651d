"""REST of “tell me when one is free”, under /api/v1/."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.models import Flavor, Watch
from claims.rest.answers import ProblemOut
from claims.waiting import watches
from inventory.models import Cluster, DeviceClass
from portal.accounts.audit import source_ip
from portal.api import ApiListView, ApiView, Scope


class WatchIn(serializers.Serializer[Any]):
    flavor = serializers.SlugField(
        required=False, max_length=63, help_text="Short name of a flavor; or a cluster and a class."
    )
    cluster = serializers.SlugField(required=False, max_length=63)
    device_class = serializers.CharField(required=False, max_length=253)
    count = serializers.IntegerField(min_value=1, max_value=watches.MOST_COUNT, default=1)
    days = serializers.IntegerField(min_value=1, max_value=watches.MOST_DAYS, default=watches.DAYS)


class WatchOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    flavor = serializers.CharField(source="flavor.slug", allow_null=True, default=None)
    cluster = serializers.CharField(source="cluster.name", allow_null=True, default=None)
    device_class = serializers.CharField()
    count = serializers.IntegerField()
    until = serializers.DateTimeField()
    created_at = serializers.DateTimeField()


EXAMPLE = OpenApiExample(
    "Two H100 on any cluster, within a week",
    value={"flavor": "h100-80g", "count": 2, "days": 7},
    request_only=True,
)


@extend_schema_view(get=extend_schema(tags=["notifications"]))
class WatchListView(ApiListView):
    """What the caller waits for: told once, when so many are free."""

    required_scope = Scope.REQUESTS
    serializer_class = WatchOut
    ordering: ClassVar[Sequence[str]] = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Watch]:
        if getattr(self, "swagger_fake_view", False):
            return Watch.objects.none()
        return watches.watches_of(self.person, now=timezone.now())

    @extend_schema(
        tags=["notifications"],
        request=WatchIn,
        responses={201: WatchOut, 400: ProblemOut},
        examples=[EXAMPLE],
    )
    def post(self, request: ApiRequest) -> Response:
        """Wait for so many of a flavor at one place, or of a class on a cluster. Who waits for the same
        already changes that."""
        body = WatchIn(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        try:
            made = watches.watch(
                person=self.person,
                count=given["count"],
                days=given["days"],
                now=timezone.now(),
                source_ip=source_ip(request._request),
                **self._target(given),
            )
        except watches.UnableToWatch as unable:
            raise exceptions.ValidationError({unable.field or "non_field_errors": [unable.message]}) from None
        return Response(WatchOut(made).data, status=201)

    def _target(self, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("flavor"):
            flavors = Flavor.objects.visible_to(self.person).offered()
            if (flavor := flavors.filter(slug=given["flavor"]).first()) is None:
                raise exceptions.ValidationError({"flavor": [_("There is no such flavor.")]})
            return {"flavor": flavor}
        cluster = Cluster.objects.filter(name=given.get("cluster", "")).first()
        if cluster is None:
            raise exceptions.ValidationError({"cluster": [_("There is no such cluster.")]})
        name = given.get("device_class", "")
        if not DeviceClass.objects.filter(cluster=cluster, name=name).exists():
            raise exceptions.ValidationError({"device_class": [_("There is no such class on this cluster.")]})
        return {"cluster": cluster, "device_class": name}


class WatchDetailView(ApiView):
    required_scope = Scope.REQUESTS

    @extend_schema(tags=["notifications"], responses={204: None, 404: ProblemOut})
    def delete(self, request: ApiRequest, pk: int) -> Response:
        """Wait no longer."""
        found = get_object_or_404(Watch.objects.select_related("person"), pk=pk, person=self.person)
        watches.cancel(watch=found, now=timezone.now(), source_ip=source_ip(request._request))
        return Response(status=204)
