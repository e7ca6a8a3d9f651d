"""Quotas and queues: what is left of them, who waits in which place, and why."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory.filters import clean_text
from inventory.models import Cluster, ClusterQueue, QueuedWorkload, ResourceQuota
from inventory.queues import Share, in_sight_of, shares, workload_rows
from portal import htmx
from portal.access import person

PAGE_SIZE = 50
QUEUES_SHOWN = 100
QUOTAS_SHOWN = 200
# Of a namespace's quota, what is about devices: Kubernetes' own keys, and extended resources.
DEVICE_KEYS = ("deviceclass.resource.k8s.io", "deviceclass.resource.kubernetes.io")
State = QueuedWorkload.State


@dataclass(frozen=True)
class QueueRow:
    queue: ClusterQueue
    shares: Sequence[Share]


@dataclass(frozen=True)
class QuotaRow:
    """One key of one quota that is about devices."""

    quota: ResourceQuota
    key: str
    hard: str
    used: str


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
        "quotas": _quota_rows(quotas),
    }
    return htmx.render(request, "inventory/queues.html", context, partial="live")


def _quota_rows(quotas: "QuerySet[ResourceQuota]") -> list[QuotaRow]:
    rows: dict[str, list[QuotaRow]] = defaultdict(list)
    for quota in quotas.order_by("cluster__name", "namespace", "name"):
        for key, hard in sorted(quota.hard.items()):
            if _is_about_devices(key):
                row = QuotaRow(quota, key, hard, quota.used.get(key, ""))
                rows[f"{quota.cluster_id}/{quota.namespace}"].append(row)
    return [row for found in rows.values() for row in found][:QUOTAS_SHOWN]


def _is_about_devices(key: str) -> bool:
    if any(part in key for part in DEVICE_KEYS):
        return True
    domain, slash, _name = key.removeprefix("requests.").partition("/")
    # As against "count/jobs.batch" and "<class>.storageclass.storage.k8s.io/requests.storage".
    return bool(slash) and key.startswith("requests.") and "." in domain
