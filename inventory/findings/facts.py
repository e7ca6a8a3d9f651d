"""What rules read of one cluster: each kind of row at most once per evaluation, in a number of queries that
does not depend on how large the cluster is."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from django.db.models import Case, Count, DateTimeField, Exists, OuterRef, Q, TextField, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from inventory import owners
from inventory.coverage import NO_CONTACT, SILENCE
from inventory.findings.thresholds import Thresholds
from inventory.models import (
    Claim,
    ClaimDevice,
    Cluster,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Job,
    Namespace,
    NamespaceBinding,
    Node,
    PlatformChange,
    PlatformContract,
    Pod,
    PodEvent,
    PodGroup,
    Pool,
    QueuedWorkload,
    ResourceSlice,
    Stream,
    Twin,
)
from inventory.owners import Owner

REACHED = frozenset({Cluster.State.SYNCED, Cluster.State.SYNCING})
HEARD = frozenset({Stream.State.WATCHING, Stream.State.LISTING})
FINISHED = ("Succeeded", "Failed")
UNHEALTHY = "Unhealthy"
PREPARE_FAILED = "FailedPrepareDynamicResources"
# Devices that two claims hold are defects; whoever has more of them than this has one defect.
MAX_OVERLAPS = 1000


class PoolRow(NamedTuple):
    driver: str
    name: str
    complete: bool
    slices_seen: int
    slices_expected: int
    problem: str


class NodeRow(NamedTuple):
    name: str
    ready: bool
    labels: Mapping[str, str]
    capacity: Mapping[str, Any]


class ClaimRow(NamedTuple):
    namespace: str
    name: str
    uid: str
    allocated: bool
    deleted_at: datetime | None
    # As in the API: [{"resource", "name", "uid"}].
    consumers: Sequence[Mapping[str, Any]]


class PodRow(NamedTuple):
    uid: str
    namespace: str
    name: str
    phase: str
    node: str
    # None also where it has a node: it waits no longer.
    created_at: datetime | None
    deleted_at: datetime | None
    # The scheduler's words while it does not find a node.
    message: str
    owner_kind: str
    owner_name: str
    owner_uid: str
    pod_group: str
    claim_names: Mapping[str, str]
    extended: Mapping[str, int]


class GroupRow(NamedTuple):
    """A PodGroup: how many of its Pods have to fit at once (None: each by itself), and the claims that they
    share."""

    min_count: int | None
    claims: Mapping[str, str]


class EventRow(NamedTuple):
    pod_uid: str
    namespace: str
    pod_name: str
    message: str
    last_at: datetime


class DeviceRow(NamedTuple):
    pk: int
    driver: str
    pool: str
    name: str
    node: str
    hardware_id: str
    # As in the API: [{"key", "value", "effect", "timeAdded"}].
    taints: Sequence[Mapping[str, Any]]


class TaintRuleRow(NamedTuple):
    name: str
    key: str
    value: str
    effect: str
    added_at: datetime | None


class HoldRow(NamedTuple):
    driver: str
    pool: str
    device: str
    device_id: int | None
    namespace: str
    claim: str


# A large cluster has a hundred thousand JSON values, and Django takes most of an evaluation to read them.
_read_mapping = msgspec.json.Decoder(dict[str, Any]).decode
_read_list = msgspec.json.Decoder(list[Any]).decode
_NOTHING: Mapping[str, Any] = {}


def _text(column: str) -> Cast:
    """A JSON column as it is stored."""
    return Cast(column, TextField())


def _mapping(text: str) -> Mapping[str, Any]:
    return _NOTHING if text == "{}" else _read_mapping(text)


def _list(text: str | None) -> Sequence[Any]:
    return _read_list(text) if text else ()


class Facts:
    """One cluster as the mirror has it now. Rules ask only for what their `needs` say is in step."""

    def __init__(
        self, *, cluster: Cluster, streams: Iterable[Stream], now: datetime, thresholds: Thresholds
    ) -> None:
        self.cluster = cluster
        self.now = now
        self.thresholds = thresholds
        self._streams = {stream.resource: stream for stream in streams}

    # --- what is observed ---------------------------------------------------------------------------

    def sees(self, resource: str) -> bool:
        """Whether rows of this resource are what the cluster has now."""
        cluster, stream = self.cluster, self._streams.get(resource)
        if not cluster.enabled or cluster.state not in REACHED:
            return False
        if cluster.contacted_at is None or cluster.contacted_at < self.now - NO_CONTACT:
            return False
        seen = self.seen_until(resource)
        in_time = seen is not None and seen >= self.now - SILENCE
        return in_time and stream is not None and stream.state in HEARD

    def serves(self, resource: str) -> bool:
        """False where the cluster has no such resource at all."""
        stream = self._streams.get(resource)
        return stream is None or stream.state != Stream.State.NOT_SERVED

    def seen_until(self, resource: str) -> datetime | None:
        """Up to when the rows of a resource are known to be what the cluster had; None: never."""
        stream = self._streams.get(resource)
        if stream is None or stream.listed_at is None:
            return None
        return max(filter(None, (stream.heard_at, stream.listed_at)))

    # --- hardware -----------------------------------------------------------------------------------

    @cached_property
    def unfit_pools(self) -> list[PoolRow]:
        """Pools that the scheduler would not use."""
        unfit = Pool.objects.filter(cluster=self.cluster).exclude(complete=True, problem="")
        return [PoolRow(*row) for row in unfit.values_list(*PoolRow._fields)]

    @cached_property
    def empty_pools(self) -> list[PoolRow]:
        """Complete pools without a device."""
        empty = Pool.objects.filter(cluster=self.cluster, complete=True).exclude(
            Exists(Device.objects.filter(pool=OuterRef("pk")))
        )
        return [PoolRow(*row) for row in empty.values_list(*PoolRow._fields)]

    @cached_property
    def nodes(self) -> dict[str, NodeRow]:
        columns = ("name", "ready", _text("labels"), _text("capacity"))
        rows = Node.objects.filter(cluster=self.cluster).values_list(*columns)
        return {
            name: NodeRow(name, ready, _mapping(labels), _mapping(capacity))
            for name, ready, labels, capacity in rows
        }

    @cached_property
    def drivers_of_nodes(self) -> Mapping[str, Mapping[str, int]]:
        """Node → driver → number of slices that speak of this node."""
        found: dict[str, dict[str, int]] = defaultdict(dict)
        bound = ResourceSlice.objects.filter(cluster=self.cluster).exclude(node_name="").order_by()
        for node, driver, count in bound.values_list("node_name", "pool__driver").annotate(n=Count("pk")):
            found[node][driver] = count
        # Slices of several nodes, whose devices name them one by one.
        shared = Device.objects.filter(cluster=self.cluster, slice__node_name="").exclude(node_name="")
        rows = shared.order_by().values_list("node_name", "pool__driver")
        for node, driver, count in rows.annotate(n=Count("slice", distinct=True)):
            found[node][driver] = found[node].get(driver, 0) + count
        return found

    @cached_property
    def published_by_several(self) -> list[tuple[str, tuple[str, ...], int]]:
        """Node, drivers, and how many pieces of its hardware they all publish."""
        rows = Twin.objects.filter(cluster=self.cluster).exclude(device__node_name="").order_by()
        drivers: dict[tuple[str, int], set[str]] = defaultdict(set)
        for node, piece, driver in rows.values_list("device__node_name", "piece", "device__pool__driver"):
            drivers[node, piece].add(driver)
        counts = Counter(
            (node, tuple(sorted(found))) for (node, _piece), found in drivers.items() if len(found) > 1
        )
        return [(node, found, count) for (node, found), count in sorted(counts.items())]

    @cached_property
    def tainted_devices(self) -> list[DeviceRow]:
        tainted = Device.objects.filter(cluster=self.cluster).exclude(taints=[]).order_by("pk")
        columns = ("pk", "pool__driver", "pool__name", "name", "node_name", "hardware_id", "taints")
        return [DeviceRow(*row) for row in tainted.values_list(*columns)]

    @cached_property
    def unhealthy_devices(self) -> Mapping[str, Sequence[tuple[str, str, str]]]:
        """Device ("driver/pool/name") → namespace, name and node of the Pods whose kubelet calls it so."""
        pods = Pod.objects.filter(cluster=self.cluster).exclude(device_health=[]).exclude(phase__in=FINISHED)
        found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        rows = pods.order_by("namespace", "name").values_list(
            "namespace", "name", "node_name", "device_health"
        )
        for namespace, name, node, devices in rows:
            for device in {d.get("device", "") for d in devices if d.get("health") == UNHEALTHY} - {""}:
                found[device].append((namespace, name, node))
        return found

    @cached_property
    def taint_rules(self) -> list[TaintRuleRow]:
        rules = DeviceTaintRule.objects.filter(cluster=self.cluster).order_by("name")
        return [TaintRuleRow(*row) for row in rules.values_list(*TaintRuleRow._fields)]

    # --- workloads ----------------------------------------------------------------------------------

    @cached_property
    def claims(self) -> list[ClaimRow]:
        rows = Claim.objects.filter(cluster=self.cluster).values_list(
            "namespace", "name", "uid", "allocated", "deleted_at", KeyTextTransform("reservedFor", "status")
        )
        return [ClaimRow._make((*row, _list(text))) for *row, text in rows]

    @cached_property
    def pods(self) -> dict[str, PodRow]:
        waiting_since = Case(When(node_name="", then="created_at"), output_field=DateTimeField())
        rows = Pod.objects.filter(cluster=self.cluster).values_list(
            *("uid", "namespace", "name", "phase", "node_name", waiting_since, "deleted_at"),
            *("unschedulable_message", "owner_kind", "owner_name", "owner_uid", "pod_group"),
            *(_text("claim_names"), _text("extended_resources")),
        )
        return {
            row[0]: PodRow._make((*row, _mapping(claims), _mapping(extended)))
            for *row, claims, extended in rows
        }

    @cached_property
    def groups(self) -> Mapping[tuple[str, str], GroupRow]:
        """PodGroups by namespace and name."""
        rows = PodGroup.objects.filter(cluster=self.cluster)
        return {
            (namespace, name): GroupRow(min_count, claims)
            for namespace, name, min_count, claims in rows.values_list(
                "namespace", "name", "min_count", "claim_names"
            )
        }

    def work_of(self, pod: PodRow) -> tuple[str, str, str]:
        """Namespace, kind and name of the work that a Pod is a part of; see `owners.work_of`."""
        kind, name = owners.work_of(
            Owner("Pod", pod.name, pod.uid),
            Owner(pod.owner_kind, pod.owner_name, pod.owner_uid),
            pod.pod_group,
            owners=self._job_owners,
            queued=self._queued,
        )
        return pod.namespace, kind, name

    @cached_property
    def _job_owners(self) -> Mapping[str, Owner]:
        rows = Job.objects.filter(cluster=self.cluster).exclude(owner_uid="")
        return {
            uid: Owner(*made)
            for uid, *made in rows.values_list("uid", "owner_kind", "owner_name", "owner_uid")
        }

    @cached_property
    def _queued(self) -> Mapping[str, str]:
        """What was submitted (by uid) → the Workload that stands in Kueue's queue for it."""
        rows = QueuedWorkload.objects.filter(cluster=self.cluster).exclude(owner_uid="")
        return dict(rows.order_by("created_at", "pk").values_list("owner_uid", "name"))

    @cached_property
    def failed_preparations(self) -> list[EventRow]:
        """The latest of each Pod, within the window."""
        since = self.now - self.thresholds.prepare_window
        rows = PodEvent.objects.filter(cluster=self.cluster, reason=PREPARE_FAILED, last_at__gte=since)
        return [EventRow(*row) for row in rows.values_list(*EventRow._fields)]

    @cached_property
    def overlaps(self) -> list[HoldRow]:
        """Every hold of devices that several claims hold though one of them has the whole device."""
        holds = ClaimDevice.objects.filter(
            claim__cluster=self.cluster, claim__allocated=True, admin_access=False
        )
        keys = ("driver", "pool_name", "device_name")
        doubled = (
            holds.order_by()
            .values_list(*keys)
            .annotate(claims=Count("claim", distinct=True), whole=Count("pk", filter=Q(share_id="")))
            .filter(claims__gt=1, whole__gt=0)[:MAX_OVERLAPS]
        )
        devices = {row[:3] for row in doubled}
        if not devices:
            return []
        rows = holds.filter(
            pool_name__in={pool for _driver, pool, _name in devices},
            device_name__in={name for _driver, _pool, name in devices},
        ).values_list(*keys, "device_id", "claim__namespace", "claim__name")
        return [HoldRow(*row) for row in rows if row[:3] in devices]

    @cached_property
    def twin_overlaps(self) -> Mapping[int, Sequence[HoldRow]]:
        """Pieces of hardware that are held under several of their names, once at least as a whole."""
        holds = ClaimDevice.objects.filter(
            claim__cluster=self.cluster, claim__allocated=True, admin_access=False, device__twin__isnull=False
        )
        doubled = (
            holds.order_by()
            .values_list("device__twin__piece", flat=True)
            .annotate(names=Count("device", distinct=True), whole=Count("pk", filter=Q(share_id="")))
            .filter(names__gt=1, whole__gt=0)[:MAX_OVERLAPS]
        )
        pieces = list(doubled)
        found: dict[int, list[HoldRow]] = defaultdict(list)
        columns = ("driver", "pool_name", "device_name", "device_id", "claim__namespace", "claim__name")
        rows = holds.filter(device__twin__piece__in=pieces) if pieces else holds.none()
        for piece, *hold in rows.values_list("device__twin__piece", *columns):
            found[piece].append(HoldRow(*hold))
        return found

    @cached_property
    def namespaces_holding(self) -> Mapping[str, int]:
        """Namespace → number of its claims that hold devices. Administrative access holds nothing."""
        rows = ClaimDevice.objects.filter(
            claim__cluster=self.cluster, claim__allocated=True, admin_access=False
        ).order_by()
        return dict(rows.values_list("claim__namespace").annotate(n=Count("claim", distinct=True)))

    @cached_property
    def admin_namespaces(self) -> list[tuple[str, datetime | None]]:
        """Namespaces that admit administrative access, and since when they exist."""
        rows = Namespace.objects.filter(cluster=self.cluster, admin_access=True).order_by("name")
        return list(rows.values_list("name", "created_at"))

    @cached_property
    def bound_namespaces(self) -> Collection[str]:
        bindings = NamespaceBinding.objects.filter(
            Q(valid_until=None) | Q(valid_until__gt=self.now),
            cluster=self.cluster,
            valid_from__lte=self.now,
        )
        return set(bindings.values_list("namespace", flat=True))

    # --- the platform -------------------------------------------------------------------------------

    @cached_property
    def contract(self) -> PlatformContract | None:
        return PlatformContract.objects.filter(cluster=self.cluster).first()

    @cached_property
    def latest_versions(self) -> Mapping[str, Sequence[str]]:
        """Part of the platform → its versions as last observed."""
        rows = PlatformChange.objects.filter(cluster=self.cluster).order_by("seen_at", "pk")
        return dict(rows.values_list("part", "after"))

    @cached_property
    def recent_changes(self) -> list[PlatformChange]:
        """Changes within the window, the latest last; what was seen for the first time is none."""
        since = self.now - self.thresholds.change_window
        rows = PlatformChange.objects.filter(cluster=self.cluster, seen_at__gte=since)
        return list(rows.filter(before__isnull=False).order_by("seen_at", "pk"))

    @cached_property
    def class_names(self) -> Collection[str]:
        return set(DeviceClass.objects.filter(cluster=self.cluster).values_list("name", flat=True))

    @cached_property
    def classes_of_group(self) -> Mapping[str, Sequence[str]]:
        """Class → the other clusters of the same contract group that have it and are in step."""
        if self.contract is None or not self.contract.group:
            return {}
        streams = Stream.objects.filter(
            resource="deviceclasses",
            state__in=HEARD,
            heard_at__gte=self.now - SILENCE,
            cluster__enabled=True,
            cluster__state__in=REACHED,
            cluster__contract__group=self.contract.group,
        ).exclude(cluster=self.cluster)
        others = DeviceClass.objects.filter(cluster__in=streams.values("cluster"))
        found: dict[str, list[str]] = defaultdict(list)
        for name, cluster in others.order_by("cluster__name").values_list("name", "cluster__name"):
            found[name].append(cluster)
        return found
