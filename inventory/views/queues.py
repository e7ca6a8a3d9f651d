"""Quotas and queues: what is left of them, who waits in which place, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory.filters import clean_text
from inventory.models import Cluster, ClusterQueue, QueuedWorkload, ResourceQuota
from inventory.queues import Share, device_quotas, in_sight_of, shares, workload_rows
from portal import htmx
from portal.access import person

PAGE_SIZE = 50
QUEUES_SHOWN = 100
QUOTAS_SHOWN = 200
State = QueuedWorkload.State


@dataclass(frozen=True)
class QueueRow:
    queue: ClusterQueue
    shares: Sequence[Share]


@require_safe
def queue_list(request: HttpRequest) -> HttpResponse:
    """ClusterQueues, the workloads that one may see, and quotas on devices; of one cluster, or of all."""
    now = timezone.now()
    name = clean_text(request.GET.get("cluster", ""))
    clusters = Cluster.objects.defer("kubeconfig_encrypted").order_by("name")
    chosen = clusters.filter(name=name) if name else clusters
    seen = in_sight_of(person(request), now=now)
    queues = ClusterQueue.objects.filter(cluster__in=chosen).select_related("cluster")
    waiting = QueuedWorkload.objects.filter(seen, cluster__in=chosen).exclude(state=State.FINISHED)
    workloads = waiting.select_related("cluster").order_by("cluster__name", "-priority", "queued_at", "uid")
    page = Paginator(workloads, PAGE_SIZE).get_page(request.GET.get("page"))
    quotas = ResourceQuota.objects.filter(seen, cluster__in=chosen).select_related("cluster")
    context = {
        "clusters": clusters,
        "chosen": name,
        "queues": [
            QueueRow(queue, shares(queue))
            for queue in queues.order_by("cluster__name", "name")[:QUEUES_SHOWN]
        ],
        "page": page,
        "rows": workload_rows(list(page.object_list)),
        "quotas": device_quotas(quotas)[:QUOTAS_SHOWN],
    }
    return htmx.render(request, "inventory/queues.html", context, partial="live")
