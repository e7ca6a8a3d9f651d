"""Nodes: the list, and one node with its devices, counted units and Pods."""

from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory.browse import FleetFacts
from inventory.coverage import coverage_of_all
from inventory.filters import clean_text
from inventory.holders import projects_of
from inventory.models import Device, Node, Pod
from inventory.rows import device_rows, node_rows
from portal import htmx
from portal.access import may_read_everything, person
from portal.accounts.models import Project, User

PAGE_SIZE = 50
DEVICES_SHOWN = 200
PODS_SHOWN = 200


@dataclass(frozen=True)
class PodRow:
    """A Pod that uses devices, for those who may see it."""

    pod: Pod
    project: Project | None


@require_safe
def node_list(request: HttpRequest) -> HttpResponse:
    """Nodes that have devices or counted units, or might have them, by name."""
    coverage = coverage_of_all(now=timezone.now())
    text = clean_text(request.GET.get("q", ""))
    chosen = clean_text(request.GET.get("cluster", ""))
    condition = request.GET.get("condition", "")
    nodes = Node.objects.filter(_wanted(text, chosen, condition)).order_by("name", "pk")
    page = Paginator(nodes, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": node_rows(list(page.object_list), coverage=coverage),
        "text": text,
        "cluster": chosen,
        "condition": condition,
        "narrows": bool(text or chosen or condition),
        "clusters": [c.cluster.name for c in coverage.values()],
        "behind": [c for c in coverage.values() if not c.in_step],
    }
    return htmx.render(request, "inventory/node_list.html", context, partial="nodes")


def _wanted(text: str, cluster: str, condition: str) -> Q:
    wanted = Q(name__icontains=text) if text else Q()
    if cluster:
        wanted &= Q(cluster__name=cluster)
    conditions = {
        "ready": Q(ready=True, unschedulable=False),
        "not-ready": Q(ready=False),
        "cordoned": Q(unschedulable=True),
        "counted": ~Q(capacity={}),
    }
    return wanted & conditions.get(condition, Q())


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
    pods, hidden = _pods(node, viewer=viewer)
    context = {
        "row": node_rows([node], coverage=facts.coverage)[0],
        "node": node,
        "cluster_name": cluster,
        "devices": device_rows(shown[:DEVICES_SHOWN], facts=facts, viewer=viewer, now=now),
        "more_devices": len(shown) > DEVICES_SHOWN,
        "pods": pods,
        "hidden_pods": hidden,
        "labels": sorted(node.labels.items()),
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
