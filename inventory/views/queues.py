"""Quotas and queues: what is left of them, who waits in which place, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory import inner_tables as inner
from inventory.filters import clean_text
from inventory.models import Cluster, ClusterQueue, QueuedWorkload, ResourceQuota
from inventory.queues import Share, device_quotas, in_sight_of, shares, workload_rows
from portal import csvs, htmx, tables
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
def queue_list(request: HttpRequest) -> HttpResponseBase:
    """ClusterQueues, the workloads that one may see, and quotas on devices; of one cluster, or of all."""
    if (back := tables.remembered(request, inner.OF_QUEUES)) is not None:
        return back
    now = timezone.now()
    name = clean_text(request.GET.get("cluster", ""))
    clusters = Cluster.objects.defer("kubeconfig_encrypted").order_by("name")
    chosen = clusters.filter(name=name) if name else clusters
    seen = in_sight_of(person(request), now=now)
    queues = ClusterQueue.objects.filter(cluster__in=chosen).select_related("cluster")
    waiting = QueuedWorkload.objects.filter(seen, cluster__in=chosen).exclude(state=State.FINISHED)
    workloads = waiting.select_related("cluster").order_by("cluster__name", "-priority", "queued_at", "uid")
    quotas = ResourceQuota.objects.filter(seen, cluster__in=chosen).select_related("cluster")
    if wanted := tables.csv_wanted(request):
        return _csv(wanted, queues=queues, workloads=workloads, quotas=quotas)
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
        "tables": tables.read(request, inner.OF_QUEUES),
    }
    return htmx.render(request, "inventory/queues.html", context, partial="live")


def _csv(
    wanted: str,
    *,
    queues: QuerySet[ClusterQueue],
    workloads: QuerySet[QueuedWorkload],
    quotas: QuerySet[ResourceQuota],
) -> HttpResponseBase:
    """One of the tables, whole."""
    if wanted == inner.QUEUES.name:
        found = queues.order_by("cluster__name", "name")
        return csvs.download("queues.csv", inner.QUEUE_HEADER, inner.queue_lines(found))
    if wanted == inner.WORKLOADS.name:
        lines = inner.workload_lines(workload_rows(list(workloads)))
        return csvs.download("queued-workloads.csv", inner.WORKLOAD_HEADER, lines)
    if wanted == inner.QUOTAS.name:
        return csvs.download(
            "device-quotas.csv", inner.QUOTA_HEADER, inner.quota_lines(device_quotas(quotas))
        )
    raise Http404
