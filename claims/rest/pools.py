"""REST of node pools that can grow, under /api/v1/."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework import exceptions, serializers, status
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response

from claims.catalogue import growable
from claims.catalogue.growable import UnableToChangePool
from claims.models import GrowablePool
from claims.rest.answers import ProblemOut
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView

Scope = ApiToken.Scope
T = TypeVar("T")


class GrowablePoolIn(serializers.Serializer[Any]):
    """What each further node of a pool would bring. Judged by the same rules as the form."""

    cluster = serializers.CharField()
    name = serializers.CharField(max_length=63)
    labels = serializers.DictField(child=serializers.CharField(), help_text="Labels of its nodes.")
    max_nodes = serializers.IntegerField(min_value=1, max_value=growable.MAX_NODES)
    devices = serializers.IntegerField(min_value=1, max_value=growable.MAX_DEVICES, help_text="Of one node.")
    device_class = serializers.CharField(required=False, allow_blank=True)
    extended_resource = serializers.CharField(required=False, allow_blank=True)
    product = serializers.CharField(required=False, allow_blank=True, max_length=128)
    memory = serializers.CharField(
        required=False, allow_blank=True, max_length=32, help_text='Of each device, such as "80Gi".'
    )
    domain = serializers.CharField(
        required=False, allow_blank=True, max_length=63, help_text="Of the devices' attributes."
    )
    note = serializers.CharField(required=False, allow_blank=True, max_length=500)


class GrowablePoolOut(GrowablePoolIn):
    id = serializers.IntegerField(source="pk")
    cluster = serializers.CharField(source="cluster.name")
    changed_at = serializers.DateTimeField()


EXAMPLE = OpenApiExample(
    "A pool of H100 nodes that is scaled to zero",
    value={
        "cluster": "main",
        "name": "h100-burst",
        "labels": {"cloud.example.org/pool": "h100-burst"},
        "max_nodes": 4,
        "devices": 8,
        "device_class": "gpu.nvidia.com",
        "product": "NVIDIA H100 80GB HBM3",
        "memory": "80Gi",
        "domain": "gpu.nvidia.com",
        "note": "A node takes about ten minutes to come.",
    },
    request_only=True,
)
_REFUSED = {400: ProblemOut, 403: ProblemOut, 404: ProblemOut}


class _Pools(ApiView):
    # Changing something needs the scope of administration: `portal.rest_defaults`.
    required_scope = Scope.INVENTORY

    def change(self, change: Callable[[], T]) -> T:
        """Makes the change; what the domain refuses becomes a problem document."""
        try:
            return change()
        except UnableToChangePool as error:
            raise exceptions.ValidationError(error.errors) from error


@extend_schema_view(get=extend_schema(tags=["catalogue"]))
class GrowablePoolListView(ApiListView, _Pools):
    """Node pools that can grow, and what a further node of each would bring; for administrators and
    auditors."""

    serializer_class = GrowablePoolOut
    ordering = ("id",)

    def get_queryset(self) -> QuerySet[GrowablePool]:
        if getattr(self, "swagger_fake_view", False):
            return GrowablePool.objects.none()
        self.reader()
        return GrowablePool.objects.select_related("cluster").order_by("id")

    @extend_schema(
        tags=["catalogue"],
        request=GrowablePoolIn,
        responses={201: GrowablePoolOut, **_REFUSED},
        examples=[EXAMPLE],
    )
    def post(self, _request: ApiRequest) -> Response:
        """Say of a pool that it can grow."""
        self.administrator()
        terms = self.change(lambda: growable.read_pool(self.values()))
        made = self.change(lambda: growable.save(pool=None, terms=terms, **self.who()))
        return Response(GrowablePoolOut(made).data, status=status.HTTP_201_CREATED)


class GrowablePoolDetailView(_Pools):
    @extend_schema(tags=["catalogue"], responses={200: GrowablePoolOut, 403: ProblemOut, 404: ProblemOut})
    def get(self, _request: ApiRequest, pk: int) -> Response:
        """What is said of one pool."""
        self.reader()
        return Response(GrowablePoolOut(self.pool(pk)).data)

    @extend_schema(
        tags=["catalogue"],
        request=GrowablePoolIn,
        responses={200: GrowablePoolOut, **_REFUSED},
        examples=[EXAMPLE],
    )
    def put(self, _request: ApiRequest, pk: int) -> Response:
        """Say it anew: what is left out becomes empty."""
        self.administrator()
        pool = self.pool(pk)
        terms = self.change(lambda: growable.read_pool(self.values()))
        changed = self.change(lambda: growable.save(pool=pool, terms=terms, **self.who()))
        return Response(GrowablePoolOut(changed).data)

    @extend_schema(tags=["catalogue"], responses={204: None, 403: ProblemOut, 404: ProblemOut})
    def delete(self, _request: ApiRequest, pk: int) -> Response:
        """No longer say it."""
        self.administrator()
        growable.remove(pool=self.pool(pk), **self.who())
        return Response(status=status.HTTP_204_NO_CONTENT)

    def pool(self, pk: int) -> GrowablePool:
        return get_object_or_404(GrowablePool.objects.select_related("cluster"), pk=pk)
