"""A desk with something on every page, straight in the database: two clusters (one of them out of reach), a
project with requests in every state, faults, queues, reports of nodes, prices and a past.

`size` multiplies what lists show, for the question whether a page asks more of the database when it has more
to show.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.utils import timezone
from django.utils.translation import gettext_noop

from claims.models import (
    Allocation,
    Booking,
    Consumer,
    Draft,
    Flavor,
    GrowablePool,
    HolderMessage,
    Launch,
    LaunchTemplate,
    LedgerAudit,
    Mute,
    Placement,
    Price,
    PriceBook,
    Quota,
    QuotaObject,
    Request,
    RequestChange,
    SavedRequest,
)
from claims.money.price_drafts import create_draft
from claims.waiting import watches
from inventory.cdi import intake, tokens
from inventory.findings.evaluation import evaluate
from inventory.findings.thresholds import Thresholds
from inventory.models import (
    ClassVersion,
    ClusterQueue,
    CountedUnits,
    Device,
    DeviceProfile,
    DiagnosisTask,
    Job,
    LocalQueue,
    NamespaceBinding,
    ObservationArchive,
    PlatformContract,
    Pod,
    PodDeviceNode,
    PodEvent,
    QueuedWorkload,
    ResourceQuota,
    ResourceSlice,
    Stream,
    SyncProblem,
)
from inventory.models import Cluster as ClusterRow
from inventory.podresources import intake as pod_device_intake
from inventory.podresources import tokens as pod_device_tokens
from portal.accounts.announcements import announce
from portal.accounts.audit import record
from portal.accounts.invitations import invite
from portal.accounts.models import AuditEntry, Membership, Notification, Webhook
from portal.accounts.notifications import outbox, webhooks
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written
from portal.accounts.tokens import issue_token
from tests.browser.moves import make_moves
from tests.browser.taints import make_taints
from tests.cast import Cast
from tests.claims.money import make_money
from tests.inventory_cdi.conftest import report, spec, spec_file
from tests.inventory_pages.factories import (
    bind,
    hold,
    make_class,
    make_cluster,
    make_device,
    make_drift,
    make_node,
    make_pool,
    make_profile,
)
from tests.inventory_podresources.conftest import pod_devices
from tests.inventory_podresources.conftest import report as pod_device_report
from tests.inventory_proposals.builders import RULES_OF_OLD
from tests.inventory_proposals.rows import make_proposal
from tests.inventory_telemetry.rows import make_source

TOTP_SECRET = "JBSWY3DPEHPK3PXP"
XID = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoExecute"}
MIG_MEMORY = {"gpu.nvidia.com/memory": {"value": "10Gi"}}
UNSCHEDULABLE = (
    "0/4 nodes are available: 1 node(s) were unschedulable, 3 cannot allocate all claims. "
    "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)
SELECTOR = (
    'device.driver == "gpu.nvidia.com" && '
    'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'
)


@dataclass(frozen=True)
class World:
    """`things` are what the list of pages calls by name in its addresses."""

    cast: Cast
    things: Mapping[str, Any]


def make_world(cast: Cast, *, size: int = 1) -> World:
    """Fills the database. The cast's time zones differ, so that no page gets by with one."""
    cast.member.time_zone, cast.administrator.time_zone = "Europe/Berlin", "Asia/Shanghai"
    for user in (cast.member, cast.administrator):
        user.save()
    berlin = make_cluster(region="eu-central")
    for resource in ("events", "namespaces", "devicetaintrules", "resourceclaimtemplates"):
        now = timezone.now()
        Stream.objects.create(
            cluster=berlin, resource=resource, state="watching", listed_at=now, heard_at=now
        )
    lakeside = make_cluster(
        "lakeside",
        heard_at=timezone.now() - timedelta(hours=3),
        state=ClusterRow.State.UNREACHABLE,
        message="https://lakeside.example.org:6443 cannot be reached: connection refused",
    )
    bindings = [bind(berlin, "tides", cast.project), bind(berlin, "glaciers", cast.other)]
    fleet = _fleet(berlin, size)
    make_device(lakeside, "gpu-0", node="lake-01")
    make_class(lakeside, "gpu.nvidia.com", profiles=(make_profile(),))
    _complete_slices()
    requests = _requests(cast, berlin, fleet, size)
    _past(cast, berlin, fleet, size)
    _work(berlin)
    _surroundings(cast, berlin, size)
    task = _faults(cast, berlin)
    cdi = _cdi(cast, berlin) | _pod_devices(cast, berlin)
    token, _plain = issue_token(
        user=cast.administrator, name="nightly export", scopes=["chargeback", "inventory"],
        lifetime=timedelta(days=9), now=timezone.now(),
    )  # fmt: skip
    own, _plain = issue_token(
        user=cast.member, name="notebook", scopes=["requests"], lifetime=timedelta(days=60),
        now=timezone.now(),
    )  # fmt: skip
    _invitation, secret = invite(
        project=cast.project, role="member", lifetime=timedelta(days=7), actor=cast.lead, now=timezone.now(),
        email="nora@example.org",
    )  # fmt: skip
    _second_factor(cast)
    announcement = announce(
        values={"level": 2, "text": "Lakeside is down for maintenance until Friday.",
                "text_zh_hans": "Lakeside 维护停机至周五。"},
        actor=cast.administrator, now=timezone.now(),
    )  # fmt: skip
    return World(
        cast=cast,
        things={
            "saved": _saved(cast).key,
            "draft": _draft(cast).key,
            "launch": _launch(cast, requests["request-in-use"]).key,
            **fleet,
            **requests,
            **cdi,
            "invitation": secret,
            "metric-query": make_source(berlin, actor=cast.administrator, now=timezone.now(), size=size).pk,
            "task": task.pk,
            "finding": task.finding_id,
            "token": token.token_key,
            "own-token": own.token_key,
            "binding": bindings[0].pk,
            "class-version": ClassVersion.objects.earliest("pk").pk,
            **_proposals(cast, berlin),
            "entry": AuditEntry.objects.filter(action="request.submit").latest("pk").pk,
            "membership": Membership.objects.get(user=cast.teammate).pk,
            "person": cast.lead.pk,
            "announcement": announcement.pk,
            "placement": _catalogue(cast, berlin),
            "pool": _growable(cast, berlin),
            **make_moves(cast, berlin, size),
            **_quotas(cast, berlin, size),
            **_bookings(cast, berlin, size),
            **_prices(cast, size),
            **make_money(cast, PriceBook.objects.get(), size=size),
            "hook": _news(cast, size).key,
            "message": _talk(cast, requests, size).key,
            **make_taints(cast, berlin, requests["request-in-use"], size),
        },
    )


def keep_in_step() -> None:
    """The clusters that can be reached were heard just now, however long a test takes."""
    now = timezone.now()
    synced = ClusterRow.objects.filter(state=ClusterRow.State.SYNCED)
    Stream.objects.filter(cluster__in=synced).exclude(listed_at=None).update(heard_at=now)
    synced.update(contacted_at=now, lease_expires_at=now + timedelta(minutes=5))


def _fleet(cluster: ClusterRow, size: int) -> dict[str, Any]:
    h100 = make_profile(attributes={"gpu.nvidia.com/driverVersion": {"version": "570.86.10"}})
    mi300x = make_profile("AMD Instinct MI300X OAM", driver="gpu.amd.com", vendor="AMD", memory="192Gi")
    nic = make_profile("ConnectX-7", driver="dra.net", vendor="Mellanox", kind="nic", memory="")
    make_node(
        cluster, "gpu-01", capacity={"nvidia.com/gpu": "2"}, allocatable={"nvidia.com/gpu": "2"},
        kubelet_version="v1.36.2", container_runtime="containerd://2.1.4", kernel_version="6.12.41",
        os_image="Debian GNU/Linux 13 (trixie)", labels={"topology.kubernetes.io/zone": "hall-b"},
    )  # fmt: skip
    make_node(cluster, "gpu-02", unschedulable=True)
    make_node(cluster, "mig-01")
    held, free, ill = (make_device(cluster, f"gpu-{n}", profile=h100) for n in range(3))
    Device.objects.filter(pk=ill.pk).update(
        state="unavailable", reason="device-tainted", health="tainted", taints=[XID]
    )
    for number in range(2 * size):
        make_device(
            cluster, f"gpu-{number}", node="gpu-02", profile=mi300x, state="unavailable",
            reason="node-cordoned",
        )  # fmt: skip
    make_device(cluster, "nic-0", profile=nic)
    for number in range(4 * size - 4):
        make_node(cluster, f"more-{number:02d}")
        make_device(cluster, "gpu-0", node=f"more-{number:02d}", profile=h100)
    hold(
        held, namespace="tides", claim="harmonics", pod="harmonics-worker-0",
        at=timezone.now() - timedelta(hours=5),
    )  # fmt: skip
    whole = _partitioned(cluster, size)
    make_class(cluster, profiles=(h100,), expression=SELECTOR, extended_resource_name="nvidia.com/gpu")
    drifted = make_class(
        cluster, "gpu.amd.com", profiles=(mi300x,), expression='device.driver == "gpu.amd.com"'
    )
    make_drift(drifted)
    make_class(cluster, "broken.example.org", problem="line 1, column 8: unknown field devize")
    for number in range(size):
        CountedUnits.objects.create(
            cluster=cluster, node_name=f"old-{number:02d}", resource="nvidia.com/gpu", vendor="NVIDIA",
            product="Tesla T4", kind="gpu", memory_bytes=16 * 2**30, capacity=4, allocatable=4, used=3,
            free=1,
        )  # fmt: skip
        make_node(cluster, f"old-{number:02d}", capacity={"nvidia.com/gpu": "4"})
    return {"held": held.pk, "free": free.pk, "ill": ill.pk, "whole": whole.pk}


def _complete_slices() -> None:
    """The pool in each slice, as the API server demands it: the engine reads the slices themselves."""
    for piece in ResourceSlice.objects.select_related("pool"):
        piece.manifest["spec"]["pool"] = {
            "name": piece.pool.name, "generation": piece.generation, "resourceSliceCount": 1,
        }  # fmt: skip
        piece.manifest["metadata"]["uid"] = piece.uid
        piece.save()


def _partitioned(cluster: ClusterRow, size: int) -> Device:
    """An H100 cut into MIG instances, of which some are held."""

    def uses(memory: str) -> list[dict[str, Any]]:
        return [{"counterSet": "gpu-0-set", "counters": {"memory": {"value": memory}}}]

    pool = make_pool(cluster, "mig-01", has_counters=True)
    whole = make_device(
        cluster, "gpu-0", node="mig-01", pool=pool, state="unavailable", reason="counters-used",
        published={"name": "gpu-0", "consumesCounters": uses("80Gi")},
    )  # fmt: skip
    mig: DeviceProfile = make_profile("NVIDIA H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    for number in range(3 * size):
        name = f"gpu-0-mig-{number}"
        part = make_device(
            cluster, name, node="mig-01", pool=pool, profile=mig,
            published={"name": name, "consumesCounters": uses("10Gi"), "capacity": MIG_MEMORY},
        )  # fmt: skip
        if number != 1:
            hold(part, namespace="tides", claim=f"notebook-{number}", pod=f"notebook-{number}-0")
    published = ResourceSlice.objects.get(pool=pool)
    counters = [{"name": "gpu-0-set", "counters": {"memory": {"value": "80Gi"}}}]
    published.manifest["spec"]["sharedCounters"] = counters
    published.save()
    return whole


def _requests(cast: Cast, cluster: ClusterRow, fleet: Mapping[str, Any], size: int) -> dict[str, Any]:
    """One request in each state, of the member."""
    now = timezone.now()
    made: dict[str, Request] = {}
    held = Device.objects.select_related("pool").get(pk=fleet["held"])
    claim = held.holds.select_related("claim")[0].claim
    assert claim.allocated_at is not None
    more: dict[str, dict[str, Any]] = {
        "failed": {"message": "DeviceClass b200 was not found", "reason": "refused"},
        "waiting-for-device": {"message": UNSCHEDULABLE, "reason": "not-scheduled"},
        "in-use": {
            "allocated_at": claim.allocated_at, "expires_at": now + timedelta(hours=3),
            "object_name": claim.name, "object_uid": claim.uid, "object_seen": True,
        },
        "ended": {"ended_at": now - timedelta(days=1), "end_reason": "expired", "reason": "expired"},
    }  # fmt: skip
    purposes = ("Harmonic analysis of the spring tide", "Ensemble for the Wadden Sea", "潮汐谐波分析")
    for position, state in enumerate(list(Request.State.values) * size):
        at = now - timedelta(hours=6, minutes=13 * position)
        request = Request.objects.create(
            project=cast.project, requester=cast.member, cluster=cluster, namespace="tides",
            device_class="gpu.nvidia.com", count=1 + position % 2, shape="claim", min_memory="40Gi",
            duration=timedelta(hours=8), purpose=purposes[position % 3], created_at=at, changed_at=at,
            state=state, **{"object_name": f"desk-{uuid.uuid4().hex[:8]}", **_first(more, state)},
        )  # fmt: skip
        made.setdefault(state, request)
        record(now=at, actor=cast.member, action="request.submit", target=request, project=cast.project)
    Allocation.objects.create(
        **_allocation(cluster, held, number=0), started_at=claim.allocated_at, project=cast.project,
        request=made["in-use"], claim_uid=claim.uid, claim_name=claim.name,
    )  # fmt: skip
    _changes(cast, made["in-use"], made["waiting-for-approval"])
    return {f"request-{state}": request.key for state, request in made.items()}


def _changes(cast: Cast, used: Request, waiting: Request) -> None:
    """The member asks for more time of one request; the lead would approve another on a condition."""
    now = timezone.now()
    asked: dict[str, Any] = {
        "reason": "The last epoch takes longer than thought", "created_at": now, "changed_at": now,
        "approval": Flavor.Approval.LEAD,
    }  # fmt: skip
    RequestChange.objects.create(
        request=used,
        person=cast.member,
        current={"duration_hours": 8},
        wanted={"duration_hours": 48},
        **asked,
    )
    less = {"duration_hours": 4}
    RequestChange.objects.create(
        request=waiting, origin="approver", state="offered", person=cast.lead, current={"duration_hours": 8},
        wanted=less, offered=less, offered_as="lead", offered_by=cast.lead, **asked,
    )  # fmt: skip


def _first(more: dict[str, dict[str, Any]], state: str) -> dict[str, Any]:
    """What only one request of a state may have: it belongs to one object."""
    return more.pop(state, {})


def _allocation(cluster: ClusterRow, device: Device, *, number: int) -> dict[str, Any]:
    return {
        "cluster": cluster, "namespace": "tides", "epoch": 1 + number, "driver": device.pool.driver,
        "pool_name": device.pool.name, "device_name": device.name, "node_name": device.node_name,
        "request_name": "gpu", "product": "NVIDIA H100 80GB HBM3", "device_class": "gpu.nvidia.com",
        "hardware_id": device.hardware_id, "start_source": "observed",
    }  # fmt: skip


def _second_factor(cast: Cast) -> None:
    """The lead signs in with codes of an app; finance came through an identity provider, without password."""
    TOTP.activate(cast.lead, TOTP_SECRET)
    RecoveryCodes.activate(cast.lead)
    cast.finance.set_unusable_password()
    cast.finance.save()


def _growable(cast: Cast, cluster: ClusterRow) -> int:
    """A node pool that can grow; its key."""
    made: GrowablePool = GrowablePool.objects.create(
        cluster=cluster, name="burst", labels={"pool": "burst"}, max_nodes=4, device_class="gpu.nvidia.com",
        devices=8, product="NVIDIA H100 80GB HBM3", memory="80Gi", note="A node takes ten minutes to come.",
        changed_at=timezone.now(), changed_by=cast.administrator,
    )  # fmt: skip
    return made.pk


def _proposals(cast: Cast, berlin: ClusterRow) -> dict[str, int]:
    """One that waits, one that has stopped, and one whose class is another by now."""
    common: dict[str, Any] = {"cluster": berlin, "author": cast.administrator, "now": timezone.now()}
    stopped = make_proposal(
        **common, name="new.example.org", state="failed", step="failed", outcome="conflict"
    )
    outdated = make_proposal(**common, name="gpu.amd.com")
    outdated.targets.update(base=RULES_OF_OLD)
    return {
        "proposal": make_proposal(**common, name="gpu.nvidia.com").pk,
        "stopped-proposal": stopped.pk,
        "outdated-proposal": outdated.pk,
    }


def _catalogue(cast: Cast, cluster: ClusterRow) -> int:
    """Two flavors, one of them served in both ways; the key of a placement."""
    now = timezone.now()
    common: dict[str, Any] = {
        "min_duration": timedelta(hours=1), "default_duration": timedelta(hours=8),
        "max_duration": timedelta(days=7), "created_at": now, "changed_at": now,
        "changed_by": cast.administrator,
    }  # fmt: skip
    h100 = Flavor.objects.create(
        slug="h100", name="H100", description="For training that needs much memory.",
        offers="80 GiB of memory\nNVLink within a node", **common,
    )  # fmt: skip
    small = Flavor.objects.create(
        slug="notebook", name="Notebook GPU", description="A slice for trying things out.", position=1,
        visibility="projects", approval="lead", **common,
    )  # fmt: skip
    small.projects.add(cast.project)
    Placement.objects.create(flavor=small, cluster=cluster, extended_resource="nvidia.com/gpu")
    Request.objects.filter(state=Request.State.WAITING_FOR_APPROVAL).update(
        flavor=small, approval=Flavor.Approval.BOTH
    )
    placement: Placement = Placement.objects.create(
        flavor=h100, cluster=cluster, device_class="gpu.nvidia.com", extended_resource="nvidia.com/gpu"
    )
    return placement.pk


def _bookings(cast: Cast, cluster: ClusterRow, size: int) -> dict[str, Any]:
    """Bookings of the member and of strangers: one that is planned, one that waits, one that was missed."""
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    h100, small = Flavor.objects.get(slug="h100"), Flavor.objects.get(slug="notebook")

    def booking(hours: int, **values: Any) -> Booking:
        common: dict[str, Any] = {
            "project": cast.project, "requester": cast.member, "flavor": h100, "cluster": cluster,
            "namespace": "tides", "count": 1, "purpose": "Harmonic analysis of the neap tide",
            "created_at": now - timedelta(hours=1), "changed_at": now - timedelta(hours=1),
        }  # fmt: skip
        starts = now + timedelta(hours=hours)
        made: Booking = Booking.objects.create(
            **common | {"starts_at": starts, "ends_at": starts + timedelta(hours=8)} | values
        )
        return made

    planned = booking(20, min_memory="80Gi")
    waiting = booking(26, flavor=small, state="waiting-for-approval", approval=Flavor.Approval.LEAD)
    missed = booking(-30, state="missed", reason="no-device")
    for number in range(2 * size):
        booking(30 + 10 * number, project=cast.other, requester=cast.stranger, namespace="glaciers")
    return {"booking": planned.key, "booking-waiting": waiting.key, "booking-missed": missed.key}


def _prices(cast: Cast, size: int) -> dict[str, Any]:
    """What a book and a draft of other prices say."""
    book = PriceBook.objects.get()
    draft = create_draft(based_on=book, actor=cast.administrator, now=timezone.now())
    draft.document["name"] = "2027"
    draft.document["rules"] = [
        {
            "label": f"Large memory {number}", "use": "held", "device_class": "", "product": "",
            "profile": "", "resource": "", "expression": 'device.driver == "gpu.nvidia.com"',
            "unit": "capacity", "capacity": "gpu.nvidia.com/memory", "per": "1Gi", "per_hour": "0.035",
        }
        for number in range(size)
    ]  # fmt: skip
    draft.document["discounts"] = [
        {"project": cast.project.slug, "cost_centre": "", "percent": "12.5"} for _number in range(size)
    ]
    draft.save()
    return {"price-book": book.pk, "price-draft": draft.pk}


def _past(cast: Cast, cluster: ClusterRow, fleet: Mapping[str, Any], size: int) -> None:
    """Prices, and who held what over the last month; one that nobody accounts for."""
    book = PriceBook.objects.create(
        name="2026", currency="EUR", valid_from=timezone.now() - timedelta(days=400)
    )
    Price.objects.create(book=book, product="NVIDIA H100 80GB HBM3", per_hour="2.5")
    Price.objects.create(book=book, per_hour="0.75")
    device = Device.objects.select_related("pool").get(pk=fleet["held"])
    for number in range(6 * size):
        started = timezone.now() - timedelta(days=1 + number, hours=number)
        uid = f"past-{number}"
        Allocation.objects.create(
            **_allocation(cluster, device, number=number), claim_name=f"sweep-{number}", claim_uid=uid,
            started_at=started, ended_at=started + timedelta(hours=7, minutes=20 + number),
            end_source="observed", project=None if number % 5 == 4 else cast.project,
        )  # fmt: skip
        Consumer.objects.create(
            cluster=cluster, claim_uid=uid, epoch=1 + number, resource="pods", name=f"sweep-{number}-0",
            uid=f"pod-{uid}", joined_at=started, left_at=started + timedelta(hours=7),
        )  # fmt: skip
    _ledger(cluster, cast)
    NamespaceBinding.objects.create(
        cluster=cluster, namespace="dunes", project=cast.project,
        valid_from=timezone.now() - timedelta(days=300), valid_until=timezone.now() - timedelta(days=90),
    )  # fmt: skip


def _ledger(cluster: ClusterRow, cast: Cast) -> None:
    """Units that a Pod has, an audit with violations, and an archive."""
    now = timezone.now()
    Allocation.objects.create(
        cluster=cluster, kind=Allocation.Kind.UNITS, namespace="tides", claim_name="notebook-0",
        claim_uid="pod-notebook", epoch=1, driver="nvidia.com", pool_name="g1", device_name="gpu",
        request_name="nvidia.com/gpu", extended_resource="nvidia.com/gpu", units=2, replicas=4,
        product="NVIDIA L4", node_name="g1", started_at=now - timedelta(hours=3), start_source="condition",
        start_uncertainty_us=90_000_000, project=cast.project,
    )  # fmt: skip
    overlap = {
        "code": "overlap", "where": "gpu.nvidia.com/g1/gpu-0 tides/sweep uid sweep-uid epoch 1",
        "detail": "also held by dunes/other from 2026-11-02 08:00:00+00:00 to now",
    }  # fmt: skip
    LedgerAudit.objects.create(
        cluster=cluster, checked_at=now - timedelta(hours=6), since=now - timedelta(days=40), devices=12,
        sums={
            "existence": "41472000000000", "allocated": "31104000000000", "idle": "7776000000000",
            "unavailable": "2160000000000", "unknown": "432000000000",
        },
        violations=[overlap], violation_count=1,
    )  # fmt: skip
    ObservationArchive.objects.create(
        cluster=cluster, month="2026-09", part=1, size=48_211_904, sha256="0d0c" * 16, rows=1_204_233,
        file_name="cluster-1/observations-2026-09-001-0d0c0d0c0d0c.parquet", objects_count=240_112,
        schema=1, written_at=now,
    )  # fmt: skip


def _work(cluster: ClusterRow) -> None:
    """The Job whose Pod holds a device, a Pod that waits, and what the scheduler said about it."""
    Job.objects.create(
        cluster=cluster, namespace="tides", name="sweep", uid="job-sweep", resource_version="1",
        parallelism=2, completions=4, active=1, succeeded=2, started_at=timezone.now() - timedelta(hours=5),
    )  # fmt: skip
    Pod.objects.filter(name="harmonics-worker-0").update(
        owner_kind="Job", owner_name="sweep", owner_uid="job-sweep", extended_resources={},
        started_at=timezone.now() - timedelta(hours=5),
    )  # fmt: skip
    waiting = Pod.objects.create(
        cluster=cluster, namespace="tides", name="sweep-4-x7k2p", uid="pod-waiting", resource_version="1",
        phase="Pending", claim_names={"gpu": "sweep-4"}, unschedulable_message=UNSCHEDULABLE,
        owner_kind="Job", owner_name="sweep", owner_uid="job-sweep",
    )  # fmt: skip
    PodEvent.objects.create(
        cluster=cluster, namespace="tides", pod_name=waiting.name, pod_uid=waiting.uid,
        reason="FailedScheduling", message=UNSCHEDULABLE, count=7, last_at=timezone.now(),
    )  # fmt: skip


def _surroundings(cast: Cast, cluster: ClusterRow, size: int) -> None:
    """Quotas, queues, the contract, and an object that could not be mirrored."""
    common = {"cluster": cluster, "uid": "u", "resource_version": "1"}
    quota = {
        "flavor": "h100",
        "resource": "nvidia.com/gpu",
        "nominal": "8",
        "borrowing": "4",
        "lending": None,
    }
    now = timezone.now()
    for number in range(size):
        name = f"research-{number}"
        ClusterQueue.objects.create(
            **common, name=name, quotas=[quota], usage={"h100": {"nvidia.com/gpu": "7"}}, pending=2
        )
        LocalQueue.objects.create(**common, name=f"gpus-{number}", namespace="tides", cluster_queue=name)
        for place in range(2):
            QueuedWorkload.objects.create(
                cluster=cluster, namespace="tides", name=f"sweep-{number}-{place}", resource_version="1",
                uid=f"uid-{number}-{place}", queue_name=f"gpus-{number}", state="pending",
                queued_at=now - timedelta(minutes=45 - place),
                message="couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu",
            )  # fmt: skip
        SyncProblem.objects.create(
            cluster=cluster, resource="resourceclaims", namespace="tides", name=f"odd-{number}",
            path="spec.devices", reason="Expected `array`, got `str`", seen_at=now,
        )  # fmt: skip
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    ResourceQuota.objects.create(
        **common, namespace="tides", name="accelerators", hard={key: "4"}, used={key: "3"}, counted=True
    )
    PlatformContract.objects.create(
        cluster=cluster, kubernetes=">=1.30", kubelet=">=1.37", drivers={"gpu.nvidia.com": ">=570"},
        changed_at=now, changed_by=cast.administrator,
    )  # fmt: skip


def _faults(cast: Cast, cluster: ClusterRow) -> DiagnosisTask:
    """What the rules find in this world, some of it acknowledged; the task of the ill device."""
    now = timezone.now()
    for after in (timedelta(0), timedelta(hours=2)):
        cluster.streams.update(heard_at=now + after)
        type(cluster).objects.filter(pk=cluster.pk).update(contacted_at=now + after)
        fresh = type(cluster).objects.get(pk=cluster.pk)
        evaluate(cluster=fresh, now=now + after, thresholds=Thresholds())
    cluster.streams.update(heard_at=now)
    type(cluster).objects.filter(pk=cluster.pk).update(contacted_at=now)
    task = DiagnosisTask.objects.select_related("finding").filter(finding__object_kind="device")[0]
    task.owner, task.note = cast.administrator, "Rack 7: the riser is loose."
    task.save()
    return task


def _cdi(cast: Cast, cluster: ClusterRow) -> dict[str, Any]:
    """gpu-01 reports its CDI specs, one of which is broken; gpu-02 has a token and is silent."""
    now = timezone.now()
    token, _plain = tokens.issue(cluster=cluster, node_name="gpu-01", actor=cast.administrator, now=now)
    tokens.issue(cluster=cluster, node_name="gpu-02", actor=cast.administrator, now=now)
    files = (
        spec_file("base.json", spec("gpu-0", "gpu-1"), mode=0o666),
        spec_file("broken.yaml", "kind: <b>bold</b>\n"),
    )
    intake.accept(token=token, body=report(*files, sent_at=now), now=now)
    return {"cdi-token": token.pk}


def _pod_devices(cast: Cast, cluster: ClusterRow) -> dict[str, Any]:
    """gpu-01 tells which of its Pods has which device, old-00 is silent, and gpu-02's clock is wrong."""
    now = timezone.now()
    issued = {}
    for name in ("gpu-01", "gpu-02", "old-00"):
        issued[name], _plain = pod_device_tokens.issue(
            cluster=cluster, node_name=name, actor=cast.administrator, now=now
        )
    ago = now - timedelta(hours=2)
    for name, at in (("gpu-01", now), ("old-00", ago)):
        body = pod_device_report(pod_devices("work", "GPU-8a10b6f7"), node=name, sent_at=at)
        pod_device_intake.accept(token=issued[name], body=body, now=at)
    PodDeviceNode.objects.filter(name="gpu-02").update(refused_at=now, refusal="clock_ahead")
    return {"pod-device-token": issued["gpu-01"].pk}


def _talk(cast: Cast, requests: Mapping[str, Any], size: int) -> HolderMessage:
    """A stranger has asked who holds a device, was answered, and is muted; watches of the member."""
    now = timezone.now()
    request = Request.objects.get(key=requests["request-in-use"])
    first = HolderMessage.objects.create(
        request=request, sender=cast.stranger, device="gpu-0 (gpu-01)", text="When will it be free?",
        created_at=now - timedelta(hours=2),
    )  # fmt: skip
    for number in range(size):
        HolderMessage.objects.create(
            request=request, thread=first, sender=cast.member, device=first.device, text="On Friday.",
            created_at=now - timedelta(minutes=number),
        )  # fmt: skip
    watches.watch(person=cast.member, count=2, days=9, now=now, flavor=Flavor.objects.get(slug="h100"))
    for muted in (cast.stranger, cast.finance, cast.auditor)[:size]:
        Mute.objects.create(person=cast.member, muted=muted, created_at=now)
    return first


def _news(cast: Cast, size: int) -> Webhook:
    """Notifications, read and unread, and webhooks: one that is told, one to which nothing comes through."""
    now = timezone.now()
    for number in range(2 * size):
        tell(
            people=[cast.member, cast.lead],
            kind=Kind.EXPIRY if number % 2 else Kind.QUOTA,
            subject=Text(
                # As `claims.requests.reminders` tells it.
                gettext_noop("The time of %(request)s is over in %(left)s, at %(at)s."),
                request="harmonics",
                left=timedelta(hours=1 + number),
                at=now + timedelta(hours=1 + number),
            ),
            body=as_written("Tidal harmonics of the German Bight, second run"),
            url="/projects/tides/",
            project=cast.project,
            key=f"news-{number}",
            now=now - timedelta(hours=number),
        )
    Notification.objects.filter(key="news-1").update(read_at=now)
    for number in range(size):
        webhooks.add_webhook(
            url=f"https://chat.example.org/rooms/{number}", actor=cast.member, now=now, permitted=()
        )
    hook, _secret = webhooks.add_webhook(
        url="https://hooks.example.org/claimdesk",
        actor=cast.lead,
        now=now,
        permitted=(),
        project=cast.project,
    )
    for number in range(2 * size):
        delivery = webhooks.try_out(hook=hook, actor=cast.lead, now=now - timedelta(minutes=number))
        outbox.failed(
            [delivery], now=now, why=as_written("It answered 502"), status=502, final=number % 2 == 1
        )
    Webhook.objects.filter(pk=hook.pk).update(failing_since=now - timedelta(hours=1), failures=4)
    return hook


def _quotas(cast: Cast, cluster: ClusterRow, size: int) -> dict[str, Any]:
    """Of devices that clusters enforce too, of hours that are used up, of money, and one that has ended."""
    now = timezone.now()
    h100 = Flavor.objects.get(slug="h100")

    def quota(kind: str, limit: str, **columns: Any) -> Quota:
        values: dict[str, Any] = {
            "project": cast.project, "action": "block", "valid_from": now - timedelta(days=40),
            "created_at": now - timedelta(days=40), "changed_at": now - timedelta(days=3),
            "changed_by": cast.administrator,
        }  # fmt: skip
        return Quota.objects.create(kind=kind, limit=limit, **values | columns)

    devices = quota("devices", "1000", flavor=h100, enforced=True, note="As agreed for the spring tides")
    over = quota("devices", "0", action="notify", over_since=now - timedelta(hours=2))
    for number in range(size):
        quota("memory", "64Ti", note=f"Hall {number}")
        quota("money", "90000", currency="EUR", action="notify", flavor=h100 if number % 2 else None)
        quota("device-hours", "90000", action="release", project=cast.other)
        quota("devices", "8", valid_until=now - timedelta(days=number + 1))
        QuotaObject.objects.create(
            quota=devices, project=cast.project, cluster=cluster, namespace=f"tides-{number}",
            name="claimdesk-quota-0a1b2c3d",
            wanted={"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "1k"},
            state=QuotaObject.State.DRIFT if number % 2 else QuotaObject.State.WRITTEN,
            message="gpu.nvidia.com.deviceclass.resource.k8s.io/devices: 2k" if number % 2 else "",
        )  # fmt: skip
    return {"quota": devices.key, "quota-over": over.key}


def _draft(cast: Cast) -> Draft:
    """A request that the member has begun."""
    now = timezone.now()
    values = {"count": "2", "flavor": "h100", "purpose": "Ensemble for the Wadden Sea", "project": "tides"}
    made: Draft = Draft.objects.create(owner=cast.member, values=values, created_at=now, changed_at=now)
    return made


def _saved(cast: Cast) -> SavedRequest:
    """One that is shared with the project."""
    now = timezone.now()
    return SavedRequest.objects.create(
        owner=cast.member, project=cast.project, name="Every night", created_at=now, changed_at=now,
        values={"flavor": "h100", "count": "2", "purpose": "Tides of the North Sea"},
    )  # fmt: skip


def _launch(cast: Cast, key: Any) -> Launch:
    """A training run that was started on a request."""
    now = timezone.now()
    template = LaunchTemplate.objects.create(
        slug="train", name="Training run", kind="job", image="registry.example.org/lab/train:1.4",
        description="Trains the tide model on one GPU.", cpu="8", memory="32Gi",
        volumes=[{"path": "/data", "claim": "tides-data"}, {"path": "/scratch", "size": "10Gi"}],
        parameters=[
            {"name": "EPOCHS", "label": "轮数", "default": "10", "pattern": "[0-9]{1,4}"},
            {"name": "SET", "label": "数据集", "choices": ["m03", "m04"], "required": True},
        ],
        created_at=now, changed_at=now, changed_by=cast.administrator,
    )  # fmt: skip
    request = Request.objects.get(key=key)
    return Launch.objects.create(
        request=request, template=template, person=cast.member, parameters={"EPOCHS": "20", "SET": "m03"},
        manifest={"kind": "Job"}, object_name=f"{request.object_name}-0a1b2c3d",
        state=Launch.State.STARTED, created_at=now - timedelta(minutes=8), changed_at=now,
    )  # fmt: skip
