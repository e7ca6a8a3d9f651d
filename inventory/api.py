"""REST over the inventory, for reading: devices, nodes, clusters, DeviceClasses. Scope `inventory`.

The same searches, states and rules of visibility as the pages: what a person may not see, their token may not
see.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import Http404, QueryDict
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory.browse import STATE_ORDER, DeviceSearch, FleetFacts
from inventory.class_counts import ClassRow, class_rows
from inventory.coverage import Coverage, coverage_of_all
from inventory.filters import FACETS, DeviceFilter, clean_text
from inventory.holders import Holder
from inventory.mirror.taint_rules import rules_on
from inventory.models import ClassProfile, Cluster, Device, DeviceClass, Node, SyncProblem
from inventory.podresources.holding import plugin_holders_of
from inventory.rows import DeviceRow, NodeRow, device_rows, node_rows
from portal.access import may_read_everything
from portal.accounts.models import ApiToken
from portal.api import ApiListView, ApiView, Problem

# --- what is answered ------------------------------------------------------------------------------


class ProjectRef(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()


class ClaimRef(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    consumers = serializers.ListField(
        child=serializers.CharField(), help_text="Names of what reserves the claim: Pods, mostly."
    )


class HolderOut(serializers.Serializer[Any]):
    project = ProjectRef(allow_null=True, help_text="Null: the namespace belongs to no project.")
    since = serializers.DateTimeField(allow_null=True)
    admin_access = serializers.BooleanField(help_text="The claim looks at the device without holding it.")
    consumed_capacity = serializers.DictField(child=serializers.CharField())
    claim = ClaimRef(
        allow_null=True, help_text="Only for the project's members, administrators and auditors."
    )


class DeviceOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    cluster = serializers.CharField()
    node = serializers.CharField(help_text="Empty for devices that are not bound to one node.")
    driver = serializers.CharField()
    pool = serializers.CharField()
    name = serializers.CharField()
    vendor = serializers.CharField()
    product = serializers.CharField()
    type = serializers.CharField()
    memory_bytes = serializers.IntegerField(allow_null=True)
    hardware_id = serializers.CharField()
    state = serializers.ChoiceField(
        choices=STATE_ORDER, help_text="`unknown` while the cluster is not in step."
    )
    last_known_state = serializers.ChoiceField(choices=Device.State.choices)
    reason = serializers.CharField(help_text="Why it is unavailable; empty otherwise.")
    as_of = serializers.DateTimeField(
        allow_null=True, help_text="Up to when the mirror is known to equal the cluster."
    )
    twin = serializers.ChoiceField(
        choices=["", "counts", "again"],
        help_text=(
            "Whether its hardware is published under another name, too: `counts` where this name stands for "
            "it when hardware is counted, `again` where another one does."
        ),
    )
    holders = HolderOut(many=True)


class PoolOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    generation = serializers.IntegerField()
    slices_expected = serializers.IntegerField()
    slices_seen = serializers.IntegerField()
    complete = serializers.BooleanField()
    problem = serializers.CharField()


class RuleTaintOut(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The rule.")
    key = serializers.CharField()
    value = serializers.CharField()
    effect = serializers.CharField()
    added_at = serializers.DateTimeField(allow_null=True)


class PluginPodOut(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    containers = serializers.ListField(child=serializers.CharField())


class PluginHolderOut(serializers.Serializer[Any]):
    project = ProjectRef(allow_null=True, help_text="Null: the namespace belongs to no project.")
    since = serializers.DateTimeField(help_text="When it was first seen there.")
    unknown_since = serializers.DateTimeField(
        allow_null=True, help_text="Null: its node reports; else nothing is known since then."
    )
    pod = PluginPodOut(
        allow_null=True, help_text="Only for the project's members, administrators and auditors."
    )


class DeviceDetailOut(DeviceOut):
    attributes = serializers.DictField(
        help_text='Fully qualified, typed as in the API: {"gpu.nvidia.com/type": {"string": "gpu"}}.'
    )
    capacity = serializers.DictField()
    taints = serializers.ListField(child=serializers.DictField())
    rule_taints = RuleTaintOut(many=True, help_text="Put on it by DeviceTaintRules.")
    allow_multiple_allocations = serializers.BooleanField()
    pool_state = PoolOut()
    classes = serializers.ListField(child=serializers.CharField())
    first_seen_at = serializers.DateTimeField()
    plugin_holders = PluginHolderOut(
        many=True, help_text="Pods that were seen to have it through a Device Plugin; not part of `state`."
    )


class StreamOut(serializers.Serializer[Any]):
    resource = serializers.CharField()
    api_version = serializers.CharField()
    state = serializers.CharField()
    object_count = serializers.IntegerField()
    heard_at = serializers.DateTimeField(allow_null=True)
    event_at = serializers.DateTimeField(allow_null=True, help_text="When an object last came.")
    lag_us = serializers.IntegerField(
        allow_null=True, help_text="How long it then took to its row, in microseconds."
    )
    listed_at = serializers.DateTimeField(allow_null=True)
    message = serializers.CharField(help_text="What is wrong with it; only for administrators and auditors.")
    problems = serializers.IntegerField(help_text="Objects that could not be read.")


class ClusterOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    region = serializers.CharField()
    server_version = serializers.CharField()
    enabled = serializers.BooleanField()
    state = serializers.ChoiceField(choices=Cluster.State.choices)
    in_step = serializers.BooleanField(help_text="Whether what the desk tells of it is present fact.")
    as_of = serializers.DateTimeField(allow_null=True)
    contacted_at = serializers.DateTimeField(allow_null=True)
    message = serializers.CharField(help_text="Only for administrators and auditors.")
    missing_permissions = serializers.ListField(
        child=serializers.CharField(),
        help_text="Rights that the desk lacks there; only for administrators and auditors.",
    )
    streams = StreamOut(many=True)


class CountedOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    capacity = serializers.IntegerField()
    allocatable = serializers.IntegerField()
    used = serializers.IntegerField(
        allow_null=True, help_text="Asked for by Pods that have not finished; null where those are not seen."
    )
    both_ways = serializers.BooleanField(
        help_text="A DRA driver of the same vendor publishes this node's devices, too."
    )


class NodeOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    ready = serializers.BooleanField()
    cordoned = serializers.BooleanField()
    taints = serializers.ListField(child=serializers.DictField())
    as_of = serializers.DateTimeField(allow_null=True)
    devices = serializers.DictField(child=serializers.IntegerField(), help_text="Devices by state.")
    counted_resources = CountedOut(many=True)


class DeviceClassOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    extended_resource_name = serializers.CharField()
    spec = serializers.DictField()
    labels = serializers.DictField(child=serializers.CharField())
    problem = serializers.CharField(help_text="Why its selectors cannot be evaluated; empty when they can.")
    matched = serializers.IntegerField()
    free = serializers.IntegerField(allow_null=True, help_text="Null while the cluster is not in step.")
    as_of = serializers.DateTimeField(allow_null=True)


# --- devices ---------------------------------------------------------------------------------------

DEVICE_PARAMETERS = [
    OpenApiParameter("q", str, description="Words that the device, its node, hardware id or kind contains."),
    OpenApiParameter(
        "cel", str, description="An expression as of a DeviceClass. One that cannot be read is refused."
    ),
    *(
        OpenApiParameter(
            facet, OpenApiTypes.STR, many=True, description="May be repeated: any of the values."
        )
        for facet in FACETS
    ),
]


NAME_PARAMETERS = [
    OpenApiParameter("q", str, description="Part of the name."),
    OpenApiParameter("cluster", str, description="The cluster's name."),
]


class InventoryListView(ApiListView):
    """A list whose pages are told as on the pages: `tell` turns a page of rows into what is answered."""

    required_scope = ApiToken.Scope.INVENTORY
    ordering = "id"

    def tell(self, page: Sequence[Any]) -> Sequence[Any]:
        raise NotImplementedError

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # noqa: ARG002 - DRF's own
        page = self.paginate_queryset(self.get_queryset()) or []
        return self.get_paginated_response(self.get_serializer(self.tell(list(page)), many=True).data)


@extend_schema_view(get=extend_schema(parameters=DEVICE_PARAMETERS, tags=["inventory"]))
class DeviceListView(InventoryListView):
    """Devices by the same filters as the device list, in a stable order."""

    serializer_class = DeviceOut

    @cached_property
    def search(self) -> DeviceSearch:
        facts = FleetFacts.load(now=timezone.now())
        return DeviceSearch(DeviceFilter.parse(self.request.query_params), facts=facts)

    def get_queryset(self) -> QuerySet[Device]:
        if getattr(self, "swagger_fake_view", False):
            return Device.objects.none()
        meaning = self.search.meaning
        if meaning is not None and meaning.problem:
            raise Problem(meaning.problem, code="invalid_expression", field="cel")
        return self.search.rows().select_related("pool")

    def tell(self, page: Sequence[Device]) -> Sequence[Any]:
        rows = device_rows(
            page, facts=self.search.facts, viewer=self.person, now=timezone.now(), watchers=True
        )
        return [_device(row) for row in rows]


class DeviceDetailView(ApiView):
    """One device with all that its driver publishes of it."""

    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=DeviceDetailOut, tags=["inventory"])
    def get(self, _request: Request, pk: int) -> Response:
        now = timezone.now()
        device = get_object_or_404(Device.objects.select_related("pool", "profile"), pk=pk)
        facts = FleetFacts.load(now=now)
        rows = device_rows([device], facts=facts, viewer=self.person, now=now, watchers=True)
        if not rows:
            raise Http404
        plugins = plugin_holders_of([device], viewer=self.person, now=now).get(device.pk, ())
        told = _device(rows[0]) | _more(device) | {"plugin_holders": plugins}
        return Response(DeviceDetailOut(told).data)


def _device(row: DeviceRow) -> dict[str, Any]:
    device, profile = row.device, row.profile
    return {
        "id": device.pk,
        "cluster": row.cluster.name,
        "node": device.node_name,
        "driver": device.pool.driver,
        "pool": device.pool.name,
        "name": device.name,
        "vendor": profile.vendor,
        "product": row.product,
        "type": profile.kind,
        "memory_bytes": profile.memory_bytes,
        "hardware_id": device.hardware_id,
        "state": row.state,
        "last_known_state": device.state,
        "reason": device.reason,
        "as_of": row.coverage.as_of,
        "twin": row.twin,
        "holders": [_holder(holder) for holder in row.holders],
    }


def _more(device: Device) -> dict[str, Any]:
    matches = ClassProfile.objects.filter(
        Q(device=None) | Q(device=device), profile=device.profile_id, device_class__cluster=device.cluster_id
    )
    return {
        "attributes": {**device.profile.attributes, **device.identity},
        "capacity": device.profile.capacity,
        "taints": device.taints,
        "rule_taints": rules_on(device),
        "allow_multiple_allocations": device.profile.allow_multiple_allocations,
        "pool_state": device.pool,
        "classes": sorted(set(matches.values_list("device_class__name", flat=True))),
        "first_seen_at": device.first_seen_at,
    }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "project": holder.project,
        "since": holder.since,
        "admin_access": holder.admin_access,
        "consumed_capacity": holder.consumed,
        "claim": holder.claim,
    }


# --- clusters --------------------------------------------------------------------------------------


@extend_schema_view(get=extend_schema(tags=["inventory"]))
class ClusterListView(InventoryListView):
    """All clusters, with how far the mirror is in step with each."""

    serializer_class = ClusterOut

    def get_queryset(self) -> QuerySet[Cluster]:
        return Cluster.objects.defer("kubeconfig_encrypted").prefetch_related("streams")

    def tell(self, page: Sequence[Cluster]) -> Sequence[Any]:
        coverage = coverage_of_all(now=timezone.now())
        messages = may_read_everything(self.person)
        problems = _problems(page)
        return [
            _cluster(cluster, coverage[cluster.pk], messages=messages, problems=problems) for cluster in page
        ]


class ClusterDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=ClusterOut, tags=["inventory"])
    def get(self, _request: Request, name: str) -> Response:
        cluster = get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)
        coverage = coverage_of_all(now=timezone.now())[cluster.pk]
        told = _cluster(
            cluster,
            coverage,
            messages=may_read_everything(self.person),
            problems=_problems([cluster]),
        )
        return Response(ClusterOut(told).data)


def _cluster(
    cluster: Cluster, coverage: Coverage, *, messages: bool, problems: Mapping[tuple[int, str], int]
) -> dict[str, Any]:
    return {
        "name": cluster.name,
        "region": cluster.region,
        "server_version": cluster.server_version,
        "enabled": cluster.enabled,
        "state": cluster.state,
        "in_step": coverage.in_step,
        "as_of": coverage.as_of,
        "contacted_at": cluster.contacted_at,
        "message": cluster.message if messages else "",
        "missing_permissions": cluster.missing_permissions if messages else [],
        "streams": [
            {name: getattr(stream, name) for name in _STREAM_COLUMNS}
            | {
                "message": stream.message if messages else "",
                "problems": problems.get((cluster.pk, stream.resource), 0),
            }
            for stream in sorted(cluster.streams.all(), key=lambda stream: stream.resource)
        ],
    }


_STREAM_COLUMNS = (
    *("resource", "api_version", "state", "object_count", "heard_at", "event_at", "lag_us", "listed_at"),
)


def _problems(clusters: Collection[Cluster]) -> Mapping[tuple[int, str], int]:
    """Objects that could not be read, by cluster and resource. One query."""
    rows = SyncProblem.objects.filter(cluster__in=[cluster.pk for cluster in clusters]).order_by()
    counted = rows.values_list("cluster_id", "resource").annotate(Count("pk"))
    return {(cluster, resource): count for cluster, resource, count in counted}


# --- nodes -----------------------------------------------------------------------------------------


@extend_schema_view(get=extend_schema(parameters=NAME_PARAMETERS, tags=["inventory"]))
class NodeListView(InventoryListView):
    """Nodes with their devices by state and their counted (Device Plugin) units."""

    serializer_class = NodeOut

    def get_queryset(self) -> QuerySet[Node]:
        return Node.objects.filter(_named(self.request.GET))

    def tell(self, page: Sequence[Node]) -> Sequence[Any]:
        return [_node(row) for row in node_rows(page, coverage=coverage_of_all(now=timezone.now()))]


class NodeDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=NodeOut, tags=["inventory"])
    def get(self, _request: Request, cluster: str, name: str) -> Response:
        node = get_object_or_404(Node, cluster__name=cluster, name=name)
        rows = node_rows([node], coverage=coverage_of_all(now=timezone.now()))
        return Response(NodeOut(_node(rows[0])).data)


def _node(row: NodeRow) -> dict[str, Any]:
    return {
        "cluster": row.cluster.name,
        "name": row.node.name,
        "ready": row.node.ready,
        "cordoned": row.node.unschedulable,
        "taints": row.node.taints,
        "as_of": row.coverage.as_of,
        "devices": {state: row.devices.get(state, 0) for state in STATE_ORDER},
        "counted_resources": row.counted,
    }


def _named(params: QueryDict) -> Q:
    """The part of a name and the cluster that a list is narrowed to."""
    wanted = Q()
    if text := clean_text(params.get("q", "")):
        wanted &= Q(name__icontains=text)
    if cluster := clean_text(params.get("cluster", "")):
        wanted &= Q(cluster__name=cluster)
    return wanted


# --- classes ---------------------------------------------------------------------------------------


@extend_schema_view(get=extend_schema(parameters=NAME_PARAMETERS, tags=["inventory"]))
class DeviceClassListView(InventoryListView):
    """DeviceClasses of all clusters, with the devices that they match."""

    serializer_class = DeviceClassOut

    def get_queryset(self) -> QuerySet[DeviceClass]:
        return DeviceClass.objects.filter(_named(self.request.GET))

    def tell(self, page: Sequence[DeviceClass]) -> Sequence[Any]:
        return [_class(row) for row in class_rows(page, coverage=coverage_of_all(now=timezone.now()))]


class DeviceClassDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=DeviceClassOut, tags=["inventory"])
    def get(self, _request: Request, cluster: str, name: str) -> Response:
        found = get_object_or_404(DeviceClass, cluster__name=cluster, name=name)
        rows = class_rows([found], coverage=coverage_of_all(now=timezone.now()))
        return Response(DeviceClassOut(_class(rows[0])).data)


def _class(row: ClassRow) -> dict[str, Any]:
    found = row.device_class
    return {
        "cluster": row.cluster.name,
        "name": found.name,
        "extended_resource_name": found.extended_resource_name,
        "spec": found.spec,
        "labels": found.labels,
        "problem": found.problem,
        "matched": row.matched,
        "free": row.free,
        "as_of": row.coverage.as_of,
    }
