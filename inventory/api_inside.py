"""REST over what runs inside namespaces, for reading: Pods, claims, pieces of work, namespaces. Scope
`inventory`; only for the people of a namespace's project, administrators and auditors, else 404.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inventory import inside, works
from inventory.api_surroundings import NAMESPACED_PARAMETERS, Listed
from inventory.filters import clean_text
from inventory.models import Claim, ClaimDevice, Cluster, Pod
from inventory.namespaces import NamespaceSeen, namespace_seen
from inventory.podresources.answers import NamedDeviceOut, as_json
from inventory.podresources.naming import devices_of_pods
from portal.accounts.models import ApiToken
from portal.api import ApiView


class ClaimUseOut(serializers.Serializer[Any]):
    entry = serializers.CharField(help_text="Its name in the Pod's spec.")
    claim = serializers.CharField(help_text="Empty while the claim is not made.")
    exists = serializers.BooleanField()
    allocated = serializers.BooleanField()


class HealthOut(serializers.Serializer[Any]):
    container = serializers.CharField()
    resource = serializers.CharField(help_text="`claim:NAME`, or an extended resource.")
    device = serializers.CharField(help_text="`DRIVER/POOL/NAME`, or what a Device Plugin calls it.")
    health = serializers.CharField(help_text="`Healthy`, `Unhealthy` or `Unknown`.")
    message = serializers.CharField()


class PodEventOut(serializers.Serializer[Any]):
    pod = serializers.CharField()
    reason = serializers.CharField()
    words = serializers.CharField(help_text="What it means, in the caller's language; empty if unusual.")
    message = serializers.CharField()
    count = serializers.IntegerField()
    last_at = serializers.DateTimeField()


class ObservedPodOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    phase = serializers.CharField()
    node = serializers.CharField()
    created_at = serializers.DateTimeField(allow_null=True)
    scheduled_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="Since when it is being deleted.")
    owner_kind = serializers.CharField()
    owner_name = serializers.CharField()
    pod_group = serializers.CharField()
    unschedulable_message = serializers.CharField(help_text="The scheduler's words while it waits.")
    claims = ClaimUseOut(many=True)
    extended_resources = serializers.DictField(child=serializers.IntegerField())
    device_health = HealthOut(many=True)


class ObservedPodDetailOut(ObservedPodOut):
    events = PodEventOut(many=True, help_text="The latest of each reason.")
    physical_devices = NamedDeviceOut(
        many=True, help_text="Which devices of Device Plugins its containers were seen to have, by whom."
    )


class ResultOut(serializers.Serializer[Any]):
    request = serializers.CharField()
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField()
    device_id = serializers.IntegerField(allow_null=True, help_text="Null: it is not published (any more).")
    share_id = serializers.CharField()
    admin_access = serializers.BooleanField()
    consumed_capacity = serializers.DictField(child=serializers.CharField())
    conditions = serializers.ListField(child=serializers.DictField())
    network_data = serializers.DictField()


class ConsumerOut(serializers.Serializer[Any]):
    resource = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    exists = serializers.BooleanField(allow_null=True, help_text="Null where the desk cannot say.")


class ObservedClaimOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    allocated = serializers.BooleanField()
    epoch = serializers.IntegerField(help_text="Which of its allocations it is; 0 before the first.")
    allocated_at = serializers.DateTimeField(allow_null=True)
    node = serializers.CharField()
    created_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(allow_null=True, help_text="Since when it is being deleted.")
    devices = ResultOut(many=True)


class ObservedClaimDetailOut(ObservedClaimOut):
    spec = serializers.DictField(help_text="Normalised to resource.k8s.io/v1.")
    consumers = ConsumerOut(many=True)
    events = PodEventOut(many=True, help_text="Of the Pods that name it: the latest of each reason.")


class WorkOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    namespace = serializers.CharField()
    kind = serializers.CharField()
    name = serializers.CharField()
    claims_wanted = serializers.IntegerField()
    claims_allocated = serializers.IntegerField()
    pods = serializers.IntegerField()
    pods_placed = serializers.IntegerField()
    min_count = serializers.IntegerField(allow_null=True, help_text="How many Pods have to fit at once.")
    queue = serializers.CharField()
    queue_state = serializers.CharField()
    queue_position = serializers.IntegerField(allow_null=True)
    members = ObservedPodOut(many=True, help_text="At most 500.")


class BindingOut(serializers.Serializer[Any]):
    project = serializers.CharField(source="project.slug")
    valid_from = serializers.DateTimeField()
    valid_until = serializers.DateTimeField(allow_null=True)


class QuotaKeyOut(serializers.Serializer[Any]):
    quota = serializers.CharField(source="quota.name")
    key = serializers.CharField()
    hard = serializers.CharField()
    used = serializers.CharField()


class NamespaceDetailOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    name = serializers.CharField()
    exists = serializers.BooleanField(help_text="Whether the mirror has it now.")
    project = serializers.CharField(allow_null=True)
    bindings = BindingOut(many=True, help_text="All there were, the latest first.")
    admin_access = serializers.BooleanField(allow_null=True)
    quotas = QuotaKeyOut(many=True, help_text="Only what is about devices.")
    claims = serializers.IntegerField()
    claims_allocated = serializers.IntegerField()
    pods = serializers.IntegerField(help_text="Unfinished ones that use devices.")


# --- Pods ------------------------------------------------------------------------------------------

POD_PARAMETERS = [*NAMESPACED_PARAMETERS, OpenApiParameter("node", str), OpenApiParameter("phase", str)]


@extend_schema_view(get=extend_schema(parameters=POD_PARAMETERS, tags=["inventory"]))
class PodListView(Listed):
    """Pods that use devices."""

    serializer_class = ObservedPodOut
    model = Pod
    namespaced = True

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        for parameter, column in (("node", "node_name"), ("phase", "phase")):
            if text := clean_text(self.request.GET.get(parameter, "")):
                rows = rows.filter(**{column: text})
        return rows

    def tell(self, page: Sequence[Pod]) -> Sequence[Any]:
        return [_pod(seen, seen.pod.cluster.name) for seen in inside.pods_seen(page)]


class PodDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=ObservedPodDetailOut, tags=["inventory"])
    def get(self, _request: Request, cluster: str, namespace: str, name: str) -> Response:
        """One Pod with what went wrong with it."""
        pod = inside.seen_or_404(
            Pod.objects.all(), viewer=self.person, now=timezone.now(), cluster__name=cluster,
            namespace=namespace, name=name,
        )  # fmt: skip
        (seen,) = inside.pods_seen([pod])
        named = devices_of_pods(cluster_id=pod.cluster_id, pod_uids=[pod.uid]).get(pod.uid, ())
        physical = [as_json(one, ended_at=pod.finished_at) for one in named]
        told = _pod(seen, cluster) | {"events": inside.events_of([pod]), "physical_devices": physical}
        return Response(ObservedPodDetailOut(told).data)


def _pod(seen: inside.PodSeen, cluster: str) -> dict[str, Any]:
    pod = seen.pod
    names = (
        *("namespace", "name", "uid", "phase", "created_at", "scheduled_at", "started_at", "finished_at"),
        *("deleted_at", "owner_kind", "owner_name", "pod_group", "unschedulable_message"),
        *("extended_resources", "device_health"),
    )
    claims = [
        {"entry": use.entry, "claim": use.name, "exists": use.claim is not None, "allocated": use.allocated}
        for use in seen.uses
    ]
    told = {name: getattr(pod, name) for name in names}
    return told | {"cluster": cluster, "node": pod.node_name, "claims": claims}


# --- claims ----------------------------------------------------------------------------------------


@extend_schema_view(
    get=extend_schema(
        parameters=[*NAMESPACED_PARAMETERS, OpenApiParameter("allocated", bool)], tags=["inventory"]
    )
)
class ClaimListView(Listed):
    """ResourceClaims as the clusters have them."""

    serializer_class = ObservedClaimOut
    model = Claim
    namespaced = True

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        wanted = {"true": True, "false": False}.get(self.request.GET.get("allocated", ""))
        return rows if wanted is None else rows.filter(allocated=wanted)

    def tell(self, page: Sequence[Claim]) -> Sequence[Any]:
        results = inside.results_of(page)
        return [_claim(claim, claim.cluster.name, results.get(claim.pk, ())) for claim in page]


class ClaimDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=ObservedClaimDetailOut, tags=["inventory"])
    def get(self, _request: Request, cluster: str, namespace: str, name: str) -> Response:
        """One ResourceClaim: what it asks for, what it got, who reserves it."""
        claim = inside.seen_or_404(
            Claim.objects.all(), viewer=self.person, now=timezone.now(), cluster__name=cluster,
            namespace=namespace, name=name,
        )  # fmt: skip
        told = _claim(claim, cluster, inside.results_of([claim]).get(claim.pk, ())) | {
            "spec": claim.spec,
            "consumers": [_consumer(consumer) for consumer in inside.consumers_of(claim)],
            "events": inside.events_of(inside.pods_naming(claim)),
        }
        return Response(ObservedClaimDetailOut(told).data)


def _claim(claim: Claim, cluster: str, results: Sequence[ClaimDevice]) -> dict[str, Any]:
    names = ("namespace", "name", "uid", "allocated", "epoch", "allocated_at", "created_at", "deleted_at")
    told = {name: getattr(claim, name) for name in names}
    return told | {
        "cluster": cluster,
        "node": claim.node_name,
        "devices": [
            {
                "request": result.request,
                "driver": result.driver,
                "pool": result.pool_name,
                "device": result.device_name,
                "device_id": result.device_id,
                "share_id": result.share_id,
                "admin_access": result.admin_access,
                "consumed_capacity": result.consumed_capacity,
                "conditions": result.conditions,
                "network_data": result.network_data,
            }
            for result in results
        ],
    }


def _consumer(consumer: inside.ConsumerSeen) -> Mapping[str, Any]:
    is_pod = consumer.resource == "pods"
    return {
        "resource": consumer.resource,
        "name": consumer.name,
        "uid": consumer.uid,
        "exists": consumer.pod is not None if is_pod else None,
    }


# --- work and namespaces ---------------------------------------------------------------------------


class WorkloadDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=WorkOut, tags=["inventory"])
    def get(self, _request: Request, cluster: str, namespace: str, kind: str, name: str) -> Response:
        """A Job, PodGroup, Workload, or whatever owns Pods: how much of what it needs it has."""
        found = _cluster(cluster)
        _namespace(self, found, namespace)
        work = works.find(cluster=found, namespace=namespace, kind=kind, name=name)
        if work is None:
            raise Http404
        queued = work.queued
        told = {
            "cluster": cluster,
            "namespace": namespace,
            "kind": kind,
            "name": name,
            "claims_wanted": work.wanted,
            "claims_allocated": work.held,
            "pods": work.size,
            "pods_placed": work.placed,
            "min_count": work.min_count,
            "queue": queued.workload.queue_name if queued else "",
            "queue_state": queued.workload.state if queued else "",
            "queue_position": queued.position if queued else None,
            "members": [_pod(seen, cluster) for seen in work.members],
        }
        return Response(WorkOut(told).data)


class NamespaceDetailView(ApiView):
    required_scope = ApiToken.Scope.INVENTORY

    @extend_schema(responses=NamespaceDetailOut, tags=["inventory"])
    def get(self, _request: Request, cluster: str, name: str) -> Response:
        """Whose a namespace is and was, what it may use and what it uses."""
        seen = _namespace(self, _cluster(cluster), name)
        told = {
            "cluster": cluster,
            "name": name,
            "exists": seen.row is not None,
            "project": seen.binding.project.slug if seen.binding else None,
            "bindings": seen.bindings,
            "admin_access": seen.row.admin_access if seen.row else None,
            "quotas": seen.quotas,
            "claims": seen.claim_count,
            "claims_allocated": seen.allocated_count,
            "pods": seen.pod_count,
        }
        return Response(NamespaceDetailOut(told).data)


def _cluster(name: str) -> Cluster:
    return get_object_or_404(Cluster.objects.defer("kubeconfig_encrypted"), name=name)


def _namespace(view: ApiView, cluster: Cluster, name: str) -> NamespaceSeen:
    seen = namespace_seen(cluster=cluster, name=name, viewer=view.person, now=timezone.now())
    if seen is None:
        raise Http404
    return seen
