"""History: who held which device from when to when; as a page and as CSV."""

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_safe

from claims.history.intervals import HistoryFilter, HistoryRow, allocations, seen_by
from claims.history.spans import each, newest_first
from claims.history.timeline import DEVICE, LANES_BY, NODE, PROJECT
from claims.history.unseen import unseen
from claims.models import Allocation
from claims.requests.listing import HISTORY
from inventory.models import Cluster, DeviceProfile
from portal import csvs, htmx, lists
from portal.access import person
from portal.accounts.models import Project

PAGE_SIZE = 50
# However long the desk has run: the order turned round leads to the beginning.
MOST_COUNTED = 10_000
EXPORT_CHUNK = 2_000
LANE_LABELS = (
    (DEVICE, pgettext_lazy("one row for each", "device")),
    (NODE, gettext_lazy("node")),
    (PROJECT, gettext_lazy("project")),
)

COLUMNS = (
    "started_at", "ended_at", "start_uncertainty_seconds", "end_uncertainty_seconds", "seconds", "cluster",
    "node", "driver", "pool", "device", "share_id", "hardware_id", "product", "device_class",
    "extended_resource", "units", "replicas", "admin_access", "contested", "project", "namespace", "claim",
    "pods", "pod_stays", "person", "request", "use_mean_percent", "use_highest_percent",
    "use_measured_seconds", "physical_devices", "physical_devices_told_by", "pod_containers",
)  # fmt: skip


@require_safe
def history(request: HttpRequest) -> HttpResponseBase:
    """Intervals of the ledger, newest first; every choice is in the address."""
    if (back := HISTORY.remembered(request)) is not None:
        return back
    now, viewer = timezone.now(), person(request)
    wanted = HistoryFilter.parse(request.GET)
    state = HISTORY.read(request)
    by = request.GET.get("by", DEVICE)
    parts = newest_first(allocations(wanted, viewer=viewer), start=wanted.start)
    page = state.page(parts, size=PAGE_SIZE, at_most=MOST_COUNTED)
    context = {
        # How the timeline is laid out; of one project or device, by what tells its lanes apart.
        "by": by if by in LANES_BY else DEVICE,
        "lanes_by": LANE_LABELS,
        "page": page,
        "kept": [pair for pair in state.pairs() if pair[0] in ("sort", "columns")],
        "rows": list(seen_by(page.object_list, viewer=viewer, now=now)),
        "wanted": wanted,
        "projects": Project.objects.order_by("name"),
        "kinds": Allocation.Kind.choices,
        "unseen": unseen(start=wanted.start, end=wanted.end, cluster=wanted.cluster, now=now),
        "clusters": Cluster.objects.order_by("name").values_list("name", flat=True),
        "products": DeviceProfile.objects.exclude(product="")
        .order_by("product")
        .values_list("product", flat=True)
        .distinct(),
        "export_url": f"{reverse('history-export')}?{wanted.query()}",
    }
    return lists.answer(request, "claims/history.html", context, state=state)


@require_safe
def history_export(request: HttpRequest) -> HttpResponseBase:
    """All intervals that the filter admits as CSV, streamed."""
    now, viewer = timezone.now(), person(request)
    wanted = HistoryFilter.parse(request.GET)
    if wanted.errors:
        # A file of everything would pass for what was asked for; the page says what could not be read.
        return htmx.redirect(request, f"{reverse('history')}?{request.GET.urlencode()}")
    parts = newest_first(allocations(wanted, viewer=viewer), start=wanted.start)
    rows = each(parts, chunk_size=EXPORT_CHUNK)
    told = (_line(row) for row in seen_by(rows, viewer=viewer, now=now))
    return csvs.download(f"history-{now:%Y%m%dT%H%MZ}.csv", COLUMNS, told)


def _line(row: HistoryRow) -> list[str]:
    allocation = row.allocation
    return [
        allocation.started_at.isoformat(),
        allocation.ended_at.isoformat() if allocation.ended_at else "",
        f"{allocation.start_uncertainty_us / 1_000_000:g}",
        f"{allocation.end_uncertainty_us / 1_000_000:g}",
        f"{row.duration.total_seconds():f}",
        allocation.cluster.name,
        allocation.node_name,
        allocation.driver,
        allocation.pool_name,
        allocation.device_name,
        allocation.share_id,
        allocation.hardware_id,
        allocation.product,
        allocation.device_class,
        allocation.extended_resource,
        str(allocation.units),
        str(allocation.replicas),
        "true" if allocation.admin_access else "false",
        "true" if allocation.contested else "false",
        row.project.slug if row.project else "",
        row.namespace,
        row.claim,
        "; ".join(row.consumers),
        "; ".join(
            f"{stay.joined.isoformat()}/{stay.left.isoformat() if stay.left else ''}" for stay in row.stays
        ),
        row.person,
        row.request_key,
        f"{row.use.mean:.2f}" if row.use else "",
        f"{row.use.highest:.2f}" if row.use else "",
        f"{row.use.measured.total_seconds():.0f}" if row.use else "",
        "; ".join(f"{named.device_id} {named.part}".strip() for named in row.physical),
        "; ".join(dict.fromkeys(named.source for named in row.physical)),
        "; ".join(", ".join(stay.containers or ()) for stay in row.stays),
    ]
