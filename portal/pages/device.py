"""The device page: what a device is, who holds it, who held it, and how to ask for one like it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.models import Allocation, Consumer, Request
from inventory import describe, inside
from inventory.browse import STATE_LABELS, UNKNOWN, product_name
from inventory.coverage import coverage_of
from inventory.device_history import changes_of
from inventory.holders import Holder, holders_of, pods_using
from inventory.likeness import classes_of, expression_for
from inventory.mirror.taint_rules import rules_on
from inventory.models import Device, DeviceClass, Node
from inventory.physical import twins_of
from inventory.podresources.holding import plugin_holders_of
from portal import htmx
from portal.access import may_read_everything, person
from portal.accounts.models import Project, User
from portal.pages.device_parts import instances_of, neighbours_of, taints_on
from portal.pages.device_use import use_of_device

PAST_SHOWN = 20
CHANGES_SHOWN = 20


@dataclass(frozen=True)
class HoldDetails:
    """What only the project's members, administrators and auditors see of a hold."""

    claim: str
    consumers: Sequence[str]
    request: Request | None


@dataclass(frozen=True)
class PastHolder:
    """One ended interval of the ledger, as far as the reader may know it."""

    project: Project | None
    started_at: datetime
    ended_at: datetime
    # The piece was known by this name then.
    device_name: str
    # The name was the same, the hardware another (a mode change, a swapped card).
    other_hardware: bool
    details: HoldDetails | None


@require_safe
def device_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """Everything about one device that the reader may know."""
    now, viewer = timezone.now(), person(request)
    device = get_object_or_404(
        Device.objects.select_related("cluster", "pool", "profile", "slice").defer(
            "cluster__kubeconfig_encrypted"
        ),
        pk=pk,
    )
    coverage = coverage_of(device.cluster, device.cluster.streams.all(), now=now)
    neighbours = neighbours_of(device)
    holders = holders_of([device, *neighbours.values()], viewer=viewer, now=now)
    own = holders.get(device.pk, ())
    node = Node.objects.filter(cluster=device.cluster, name=device.node_name).first()
    classes = classes_of(device)
    rules = rules_on(device)
    state = device.state if coverage.in_step else UNKNOWN
    context = {
        "device": device,
        "profile": device.profile,
        "product": product_name(device.profile),
        "cluster": device.cluster,
        "pool": device.pool,
        "node": node,
        "coverage": coverage,
        "state": state,
        "state_label": STATE_LABELS[state],
        "stored_label": STATE_LABELS[device.state],
        "reason": Device.Reason(device.reason).label if device.reason else "",
        "taints": taints_on(device, rules=rules, node=node),
        "twins": twins_of(device),
        "holders": [holder for holder in own if not holder.admin_access],
        "plugin_holders": plugin_holders_of([device], viewer=viewer, now=now).get(device.pk, ()),
        "requests": _requests(device, own),
        "health": inside.health_of_device(
            cluster_id=device.cluster_id,
            name=f"{device.pool.driver}/{device.pool.name}/{device.name}",
            pod_uids=[uid for holder in own if holder.claim for uid in holder.claim.pod_uids],
        ),
        "watchers": [holder for holder in own if holder.admin_access],
        "attributes": describe.attributes(device),
        "capacities": describe.capacities(device, consumed=[holder.consumed for holder in own]),
        "classes": classes,
        "like": expression_for(device.profile),
        "like_query": _like_query(device, classes),
        "instances": instances_of(device, neighbours, holders, coverage),
        "pods": pods_using(
            [holder for found in holders.values() for holder in found], cluster_id=device.cluster_id
        ),
        "use": use_of_device(device, viewer=viewer, now=now),
        "sees_all_use": may_read_everything(viewer),
        "past": _past(device, viewer=viewer),
        "changes": changes_of(device, limit=CHANGES_SHOWN),
        "timeline_query": urlencode(
            {
                "cluster": device.cluster.name,
                "driver": device.pool.driver,
                "pool": device.pool.name,
                "device": device.name,
            }
        ),
        "raw": describe.as_yaml(describe.published(device)),
    }
    return htmx.render(request, "pages/device.html", context)


def _like_query(device: Device, classes: Sequence[DeviceClass]) -> str:
    """The request form, filled in for one like this: its class, what makes out its kind where the class
    admits others, and its memory."""
    if not classes:
        return ""
    narrowest = classes[0]
    wanted = {"cluster": device.cluster.name, "device_class": narrowest.name}
    if getattr(narrowest, "kinds", 1) > 1:
        wanted["expression"] = expression_for(device.profile)
    if memory := device.profile.memory_bytes:
        exact, rest = divmod(memory, 2**20)
        # What drivers publish is seldom a whole number of mebibytes: no more than it has is asked for.
        wanted["min_memory"] = f"{exact // 1024}Gi" if not rest and not exact % 1024 else f"{exact}Mi"
    return urlencode(wanted)


# --- the ledger's part ----------------------------------------------------------------------------


def _requests(device: Device, holders: Sequence[Holder]) -> Mapping[str, Request]:
    """Requests behind the present holds that the reader may see, by claim uid."""
    visible = [holder.claim.uid for holder in holders if holder.claim]
    if not visible:
        return {}
    open_ones = Allocation.objects.filter(
        cluster=device.cluster_id, claim_uid__in=visible, ended_at=None, request__isnull=False
    ).select_related("request__requester")
    return {allocation.claim_uid: allocation.request for allocation in open_ones if allocation.request}


def _past(device: Device, *, viewer: User) -> Sequence[PastHolder]:
    """The latest ended intervals of this name or this piece of hardware, newest first."""
    driver = device.pool.driver
    by_name = Q(driver=driver, pool_name=device.pool.name, device_name=device.name)
    by_piece = Q(driver=driver, hardware_id=device.hardware_id) if device.hardware_id else Q()
    allocations = list(
        Allocation.objects.filter(by_name | by_piece, cluster=device.cluster_id, ended_at__isnull=False)
        .exclude(admin_access=True)
        .select_related("project", "request__requester")
        .order_by("-started_at", "-pk")[:PAST_SHOWN]
    )
    reads_all = may_read_everything(viewer)
    detailed = set(Project.objects.detailed_to(viewer).values_list("pk", flat=True))
    consumers: dict[tuple[str, int], list[str]] = defaultdict(list)
    for consumer in Consumer.objects.filter(
        cluster=device.cluster_id, claim_uid__in={allocation.claim_uid for allocation in allocations}
    ).order_by("joined_at"):
        consumers[consumer.claim_uid, consumer.epoch].append(consumer.name)
    past = []
    for allocation in allocations:
        if allocation.ended_at is None:
            continue
        details = None
        if reads_all or allocation.project_id in detailed:
            details = HoldDetails(
                claim=f"{allocation.namespace}/{allocation.claim_name}",
                consumers=consumers[allocation.claim_uid, allocation.epoch],
                request=allocation.request,
            )
        known = device.hardware_id and allocation.hardware_id
        past.append(
            PastHolder(
                project=allocation.project,
                started_at=allocation.started_at,
                ended_at=allocation.ended_at,
                device_name=allocation.device_name,
                other_hardware=bool(known and allocation.hardware_id != device.hardware_id),
                details=details,
            )
        )
    return past
