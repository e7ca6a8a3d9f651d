"""REST over what surrounds devices, for reading: counted units, namespaces, taint rules, runtimes, quotas,
Jobs, groups of Pods, Kueue's queues. Scope `inventory`; objects of a namespace only for those of its project.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.db.models import F, QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers

from inventory.api import DEVICE_PARAMETERS, InventoryListView
from inventory.browse import DeviceSearch, FleetFacts
from inventory.filters import DeviceFilter, clean_text
from inventory.models import (
    ClaimTemplate,
    ClusterQueue,
    CountedUnits,
    DeviceTaintRule,
    Job,
    LocalQueue,
    Namespace,
    PodGroup,
    QueuedWorkload,
    ResourceFlavor,
    ResourceQuota,
    RuntimeClass,
    SchedulingWorkload,
)
from inventory.queues import in_sight_of, shares, workload_rows

MIRRORED = ("cluster", "name", "uid")
OWNER = ("owner_kind", "owner_name", "owner_uid")


def _columns(model_class: type[Any], *names: str, title: str = "") -> type[serializers.ModelSerializer[Any]]:
    """A serializer of these columns, `cluster` by its name."""
    meta = type("Meta", (), {"model": model_class, "fields": names, "read_only_fields": names})
    cluster = serializers.SlugRelatedField(slug_field="name", read_only=True)  # type: ignore[var-annotated]  # the stub wants the related model
    title = title or f"{model_class.__name__}Out"
    made: type[serializers.ModelSerializer[Any]] = type(
        title, (serializers.ModelSerializer,), {"Meta": meta, "cluster": cluster}
    )
    return made


COUNTED = _columns(
    CountedUnits,
    *("cluster", "node_name", "resource", "vendor", "product", "kind", "memory_bytes", "sharing", "replicas"),
    *("mig_strategy", "capacity", "allocatable", "used", "free", "unavailable", "both_ways", "counts"),
)
NAMESPACE = _columns(Namespace, *MIRRORED, "labels", "created_at", "deleted_at", "admin_access")
TAINT_RULE = _columns(
    DeviceTaintRule,
    *(*MIRRORED, "selects", "driver", "pool_name", "device_name", "key", "value", "effect", "added_at"),
    "conditions",
)
RUNTIME = _columns(RuntimeClass, *MIRRORED, "handler", "labels", "scheduling", "overhead", "created_at")
QUOTA = _columns(ResourceQuota, *MIRRORED, "namespace", "hard", "used", "counted", "created_at")
JOB = _columns(
    Job,
    *(*MIRRORED, "namespace", *OWNER, "suspended", "parallelism", "completions", "active", "succeeded"),
    *("failed", "started_at", "finished_at", "outcome", "queue_name", "created_at"),
)
GROUP = _columns(
    PodGroup,
    *(*MIRRORED, "namespace", *OWNER, "workload_name", "template_name", "min_count", "claim_names"),
    "conditions",
)
TEMPLATE = _columns(ClaimTemplate, *MIRRORED, "namespace", "spec", "labels", "created_at")
WORKLOAD = _columns(
    SchedulingWorkload,
    *(*MIRRORED, "namespace", *OWNER, "controller_kind", "controller_name", "groups", "created_at"),
)
FLAVOR = _columns(ResourceFlavor, *MIRRORED, "node_labels", "node_taints", "topology", "created_at")
COUNTS = ("active", "message", "stop_policy", "pending", "reserving", "admitted", "usage", "reserved")
LOCAL_QUEUE = _columns(LocalQueue, *MIRRORED, "namespace", "cluster_queue", *COUNTS, "created_at")


class ShareOut(serializers.Serializer[Any]):
    flavor = serializers.CharField()
    resource = serializers.CharField()
    nominal = serializers.CharField()
    used = serializers.CharField()
    reserved = serializers.CharField()
    borrowed = serializers.CharField()
    borrowing_limit = serializers.CharField(allow_null=True)
    lending_limit = serializers.CharField(allow_null=True)


class ClusterQueueOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    cohort = serializers.CharField()
    strategy = serializers.CharField()
    active = serializers.BooleanField()
    message = serializers.CharField(help_text="Why it is not active.")
    stop_policy = serializers.CharField()
    pending = serializers.IntegerField()
    reserving = serializers.IntegerField()
    admitted = serializers.IntegerField()
    shares = ShareOut(many=True)


class QueuedWorkloadOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    queue_name = serializers.CharField()
    cluster_queue = serializers.CharField(help_text="That admitted it, or holds quota for it.")
    priority = serializers.IntegerField()
    state = serializers.ChoiceField(choices=QueuedWorkload.State.choices)
    position = serializers.IntegerField(
        allow_null=True, help_text="Place in the line of its ClusterQueue, from 1; null where it is in none."
    )
    reason = serializers.CharField()
    message = serializers.CharField()
    state_since = serializers.DateTimeField(allow_null=True)
    queued_at = serializers.DateTimeField(allow_null=True)
    owner_kind = serializers.CharField()
    owner_name = serializers.CharField()
    pod_sets = serializers.ListField(child=serializers.DictField())


PARAMETERS = [
    OpenApiParameter("q", str, description="Part of the name."),
    OpenApiParameter("cluster", str, description="The cluster's name."),
]
NAMESPACED_PARAMETERS = [*PARAMETERS, OpenApiParameter("namespace", str, description="The namespace.")]


class Listed(InventoryListView):
    """Rows of one mirrored kind, narrowed by name, cluster and namespace."""

    model: type[Any]
    namespaced = False

    def get_queryset(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.select_related("cluster").defer(
            "cluster__kubeconfig_encrypted"
        )
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        params = self.request.query_params
        for parameter, lookup in (("q", "name__icontains"), ("cluster", "cluster__name")):
            if text := clean_text(params.get(parameter, "")):
                rows = rows.filter(**{lookup: text})
        if not self.namespaced:
            return rows
        if text := clean_text(params.get("namespace", "")):
            rows = rows.filter(namespace=text)
        return rows.filter(in_sight_of(self.person, now=timezone.now()))

    def tell(self, page: Sequence[Any]) -> Sequence[Any]:
        return page


@extend_schema_view(get=extend_schema(parameters=DEVICE_PARAMETERS, tags=["inventory"]))
class CountedUnitsListView(Listed):
    """Units of Device Plugins by the same filters as devices: counted, never named."""

    serializer_class = COUNTED

    @cached_property
    def search(self) -> DeviceSearch:
        return DeviceSearch(
            DeviceFilter.parse(self.request.query_params), facts=FleetFacts.load(now=timezone.now())
        )

    def get_queryset(self) -> QuerySet[Any]:
        if getattr(self, "swagger_fake_view", False):
            return CountedUnits.objects.none()
        rows: QuerySet[Any] = self.search.counted.rows()
        return rows.select_related("cluster").defer("cluster__kubeconfig_encrypted")


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["inventory"]))
class NamespaceListView(Listed):
    """Namespaces of the projects that one sees in detail."""

    serializer_class = NAMESPACE
    model = Namespace

    def get_queryset(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset().annotate(namespace=F("name"))
        return rows.filter(in_sight_of(self.person, now=timezone.now()))


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["inventory"]))
class TaintRuleListView(Listed):
    """DeviceTaintRules: what an administrator has taken out of service."""

    serializer_class = TAINT_RULE
    model = DeviceTaintRule


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["inventory"]))
class RuntimeClassListView(Listed):
    """RuntimeClasses."""

    serializer_class = RUNTIME
    model = RuntimeClass


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["queues"]))
class QuotaListView(Listed):
    """ResourceQuotas, with Kubernetes' own keys for devices."""

    serializer_class = QUOTA
    model = ResourceQuota
    namespaced = True


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["queues"]))
class JobListView(Listed):
    """Jobs whose Pods use devices."""

    serializer_class = JOB
    model = Job
    namespaced = True


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["queues"]))
class PodGroupListView(Listed):
    """PodGroups of scheduling.k8s.io."""

    serializer_class = GROUP
    model = PodGroup
    namespaced = True


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["queues"]))
class SchedulingWorkloadListView(Listed):
    """Workloads of scheduling.k8s.io: the templates of PodGroups."""

    serializer_class = WORKLOAD
    model = SchedulingWorkload
    namespaced = True


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["inventory"]))
class ClaimTemplateListView(Listed):
    """ResourceClaimTemplates; `spec` is that of the claims made from them, as resource.k8s.io/v1."""

    serializer_class = TEMPLATE
    model = ClaimTemplate
    namespaced = True


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["queues"]))
class FlavorListView(Listed):
    """Kueue's ResourceFlavors."""

    serializer_class = FLAVOR
    model = ResourceFlavor


@extend_schema_view(get=extend_schema(parameters=PARAMETERS, tags=["queues"]))
class ClusterQueueListView(Listed):
    """Kueue's ClusterQueues with quota and usage."""

    serializer_class = ClusterQueueOut
    model = ClusterQueue

    def tell(self, page: Sequence[Any]) -> Sequence[Any]:
        names = ("name", "cohort", "strategy", *COUNTS[:6])
        return [
            {name: getattr(queue, name) for name in names}
            | {"cluster": queue.cluster.name, "shares": shares(queue)}
            for queue in page
        ]


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["queues"]))
class LocalQueueListView(Listed):
    """Kueue's LocalQueues."""

    serializer_class = LOCAL_QUEUE
    model = LocalQueue
    namespaced = True


@extend_schema_view(get=extend_schema(parameters=NAMESPACED_PARAMETERS, tags=["queues"]))
class QueuedWorkloadListView(Listed):
    """Kueue's Workloads with their state, reason, and place in the line."""

    serializer_class = QueuedWorkloadOut
    model = QueuedWorkload
    namespaced = True

    def tell(self, page: Sequence[Any]) -> Sequence[Any]:
        names = (
            *("namespace", "name", "uid", "queue_name", "cluster_queue", "priority", "state", "reason"),
            *("message", "state_since", "queued_at", "owner_kind", "owner_name", "pod_sets"),
        )
        return [
            {name: getattr(row.workload, name) for name in names}
            | {"cluster": row.workload.cluster.name, "position": row.position}
            for row in workload_rows(page)
        ]
