"""Nodes: the list, and one node with its devices, counted units and Pods."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from inventory.browse import FleetFacts
from inventory.coverage import Coverage, coverage_of_all
from inventory.holders import projects_of
from inventory.models import Device, Node, Pod, ResourceSlice
from inventory.rows import apart, device_rows, node_rows
from portal import csvs, htmx, lists
from portal.access import may_read_everything, person
from portal.accounts.models import Project, User
from portal.lists import Choice, Column, Listing

DEVICES_SHOWN = 200
PODS_SHOWN = 200
SLICES_SHOWN = 100


@dataclass(frozen=True)
class PodRow:
    """A Pod that uses devices, for those who may see it."""

    pod: Pod
    project: Project | None


LISTING = Listing(
    "nodes",
    columns=(
        Column("name", _("Node"), order=("name", "cluster__name"), fixed=True),
        Column("condition", _("Condition")),
        Column("devices", _("Devices"), css="cd-number"),
        Column("use", _("In use")),
        Column("counted", _("Device Plugin units")),
        Column("kubelet", _("Kubelet"), order=("kubelet_version",), shown=False),
        Column("runtime", _("Container runtime"), order=("container_runtime",), shown=False),
        Column("kernel", _("Kernel"), order=("kernel_version",), shown=False),
        Column("os", _("Operating system"), order=("os_image",), shown=False),
        Column("age", _("Age"), order=("-created_at",), css="cd-nowrap", shown=False, nullable=True),
        Column("cluster", _("Cluster"), order=("cluster__name", "name")),
    ),
    facets=(
        Choice(
            "condition",
            _("Condition"),
            conditions={
                "ready": Q(ready=True, unschedulable=False),
                "cordoned": Q(unschedulable=True),
                "not-ready": Q(ready=False),
                "tainted": ~Q(taints=[]),
                "counted": ~Q(capacity={}),
            },
            labels={
                "ready": _("ready for Pods"),
                "cordoned": _("cordoned"),
                "not-ready": _("not ready"),
                "tainted": _("tainted"),
                "counted": _("with Device Plugin units"),
            },
        ),
        Choice("kubelet", _("Kubelet"), column="kubelet_version"),
        Choice("cluster", _("Cluster"), column="cluster__name"),
    ),
    search=("name",),
    sort="name",
)
CSV_HEADER = (
    *("cluster", "node", "ready", "cordoned", "taints", "free", "partly", "held", "unavailable", "unknown"),
    *("partitions", "counted_units", "kubelet", "container_runtime", "kernel", "os", "created_at"),
)
CSV_CHUNK = 500


@require_safe
def node_list(request: HttpRequest) -> HttpResponseBase:
    """Nodes that have devices or counted units, or might have them, by name."""
    coverage = coverage_of_all(now=timezone.now())
    listing = LISTING if len(coverage) > 1 else LISTING.without("cluster")
    if (chosen := listing.remembered(request)) is not None:
        return chosen
    state = listing.read(request)
    nodes = state.narrowed(Node.objects.all())
    if state.wants_csv:
        return csvs.download("nodes.csv", CSV_HEADER, _lines(state.ordered(nodes), coverage))
    page = state.page(nodes)
    context = {
        "page": page,
        "rows": node_rows(list(page.object_list), coverage=coverage),
        "facets": state.facets(Node.objects.all()),
        "behind": [c for c in coverage.values() if not c.in_step],
    }
    return lists.answer(request, "inventory/node_list.html", context, state=state)


def _lines(nodes: "QuerySet[Node]", coverage: Mapping[int, Coverage]) -> Iterator[tuple[Any, ...]]:
    rows = nodes.iterator(chunk_size=CSV_CHUNK)
    while chunk := list(islice(rows, CSV_CHUNK)):
        for row in node_rows(chunk, coverage=coverage):
            node, whole = row.node, row.whole
            yield (
                *(row.cluster.name, node.name, node.ready, node.unschedulable),
                "; ".join(f"{t.get('key')}={t.get('value', '')}:{t.get('effect')}" for t in node.taints),
                *(whole.get(state, 0) for state in ("free", "partly", "held", "unavailable", "unknown")),
                *(row.partitions, "; ".join(f"{unit.name}={unit.allocatable}" for unit in row.counted)),
                *(node.kubelet_version, node.container_runtime, node.kernel_version, node.os_image),
                node.created_at.isoformat() if node.created_at else "",
            )


@require_safe
def node_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """One node: may it take Pods, what does it have, who uses it."""
    now, viewer = timezone.now(), person(request)
    node = get_object_or_404(Node, cluster__name=cluster, name=name)
    facts = FleetFacts.load(now=now)
    devices = (
        Device.objects.filter(cluster=node.cluster_id, node_name=name)
        .select_related("pool")
        .defer("identity")
        .order_by("pool__driver", "pool__name", "slice__name", "position")
    )
    shown = list(devices[: DEVICES_SHOWN + 1])
    listed, idle = apart(device_rows(shown[:DEVICES_SHOWN], facts=facts, viewer=viewer, now=now))
    pods, hidden = _pods(node, viewer=viewer)
    context = {
        "row": node_rows([node], coverage=facts.coverage)[0],
        "node": node,
        "cluster_name": cluster,
        "devices": listed,
        "idle_parts": idle,
        "more_devices": len(shown) > DEVICES_SHOWN,
        "pods": pods,
        "hidden_pods": hidden,
        "labels": sorted(node.labels.items()),
        "slices": ResourceSlice.objects.filter(cluster=node.cluster_id, node_name=name)
        .select_related("pool")
        .annotate(device_count=Count("devices"))
        .defer("manifest")
        .order_by("pool__driver", "pool__name", "-generation", "name")[:SLICES_SHOWN],
        "timeline_query": urlencode({"cluster": cluster, "node": name}),
    }
    return htmx.render(request, "inventory/node_detail.html", context)


def _pods(node: Node, *, viewer: User) -> tuple[list[PodRow], int]:
    """Unfinished Pods of the node that the reader may see, and the number of the others."""
    pods: QuerySet[Pod] = (
        Pod.objects.filter(cluster=node.cluster_id, node_name=node.name)
        .exclude(phase__in=("Succeeded", "Failed"))
        .order_by("namespace", "name")
    )
    found = list(pods[:PODS_SHOWN])
    owners = projects_of({(pod.cluster_id, pod.namespace) for pod in found}, at=timezone.now())
    reads_all = may_read_everything(viewer)
    detailed = set(Project.objects.detailed_to(viewer).values_list("pk", flat=True))
    rows = []
    for pod in found:
        project = owners.get((pod.cluster_id, pod.namespace))
        if reads_all or (project is not None and project.pk in detailed):
            rows.append(PodRow(pod, project))
    return rows, len(found) - len(rows)
