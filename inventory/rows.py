"""Devices and nodes as lists tell them to one reader, on pages and over REST alike."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count
from django.utils.translation import gettext as _
from django_stubs_ext import StrOrPromise

from inventory.browse import STATE_LABELS, UNKNOWN, FleetFacts, product_name, told_state
from inventory.counted import CountedResource, counted_resources
from inventory.coverage import Coverage
from inventory.holders import Holder, holders_of
from inventory.models import Cluster, Device, DeviceProfile, Node, Twin
from inventory.products import PARTITION
from portal.accounts.models import User


@dataclass(frozen=True)
class DeviceRow:
    """One device as a list tells it to one reader."""

    device: Device
    profile: DeviceProfile
    product: str
    cluster: Cluster
    coverage: Coverage
    state: str
    state_label: StrOrPromise
    # Why it is unavailable, or, when its cluster is not in step, what it was by then.
    reason: StrOrPromise
    holders: Sequence[Holder]
    # Name of the device that a partition is cut from, where that is published, too.
    part_of: str
    # Whether its hardware is published under another name, too: "" (no), "counts" (this name stands for it
    # where hardware is counted) or "again" (another one does).
    twin: str = ""
    # Counted units stand in the same list; templates ask every row for theirs.
    unit: None = None


@dataclass(frozen=True)
class NodeRow:
    node: Node
    cluster: Cluster
    coverage: Coverage
    # Devices by (told) state, partitions among them.
    devices: Mapping[str, int]
    # The same, whole devices only: partitions are alternatives to what they are cut from. What is published
    # under several names counts once.
    whole: Mapping[str, int]
    # Names of whole devices that count under another one.
    twins: int
    counted: Sequence[CountedResource]

    @property
    def total(self) -> int:
        """Whole devices."""
        return sum(self.whole.values())

    @property
    def partitions(self) -> int:
        return sum(self.devices.values()) - self.total - self.twins


def device_rows(
    devices: Sequence[Device], *, facts: FleetFacts, viewer: User, now: datetime, watchers: bool = False
) -> list[DeviceRow]:
    """What a list tells of these devices; a fixed number of queries.

    `watchers` counts claims with admin access, which look at a device without holding it, among its holders.
    """
    holders = {
        device: [holder for holder in found if watchers or not holder.admin_access]
        for device, found in holders_of(devices, viewer=viewer, now=now).items()
    }
    # A device that appeared after the facts were read waits for the next request.
    known = (d for d in devices if d.profile_id in facts.profiles and d.cluster_id in facts.coverage)
    parents, twins = _parents(devices), _twins(devices)
    return [_row(device, facts, holders, parents, twins) for device in known]


def _twins(devices: Sequence[Device]) -> Mapping[int, str]:
    rows = Twin.objects.filter(device__in=[device.pk for device in devices])
    return {pk: "counts" if counts else "again" for pk, counts in rows.values_list("device_id", "counts")}


def _parents(devices: Sequence[Device]) -> Mapping[tuple[int, str], str]:
    """Names of what partitions among these are cut from, by pool and hardware id."""
    wanted = {(d.pool_id, _parent_id(d)) for d in devices if _parent_id(d)}
    if not wanted:
        return {}
    found = Device.objects.filter(
        pool__in={pool for pool, _ in wanted}, hardware_id__in={i for _, i in wanted}
    )
    return {
        (pool, hardware): name for pool, hardware, name in found.values_list("pool", "hardware_id", "name")
    }


def _parent_id(device: Device) -> str:
    """`inventory.identity` makes the hardware id of a partition as its parent's, "#" and its own name."""
    parent, cut, _name = device.hardware_id.partition("#")
    return parent if cut else ""


def _row(
    device: Device,
    facts: FleetFacts,
    holders: Mapping[int, Sequence[Holder]],
    parents: Mapping[tuple[int, str], str],
    twins: Mapping[int, str],
) -> DeviceRow:
    coverage = facts.coverage[device.cluster_id]
    profile = facts.profiles[device.profile_id]
    state = told_state(device, facts.coverage)
    reason: StrOrPromise = Device.Reason(device.reason).label if device.reason else ""
    if not coverage.in_step:
        reason = _("was %(state)s") % {"state": STATE_LABELS[device.state]}
    return DeviceRow(
        device=device,
        profile=profile,
        product=product_name(profile),
        cluster=coverage.cluster,
        coverage=coverage,
        state=state,
        state_label=STATE_LABELS[state],
        reason=reason,
        holders=holders.get(device.pk, ()),
        part_of=parents.get((device.pool_id, _parent_id(device)), ""),
        twin=twins.get(device.pk, ""),
    )


# Up to here partitions that nobody holds are listed among the others.
IDLE_PARTS_SHOWN = 8


def apart(rows: Sequence[DeviceRow]) -> tuple[list[DeviceRow], list[DeviceRow]]:
    """What to look at first – whole devices and what somebody holds – and many partitions that nobody holds:
    one GPU alone may offer two dozen ways to be cut."""
    idle = [row for row in rows if row.profile.kind == PARTITION and not row.holders]
    if len(idle) <= IDLE_PARTS_SHOWN:
        return list(rows), []
    names = {row.device.pk for row in idle}
    return [row for row in rows if row.device.pk not in names], idle


def node_rows(nodes: Sequence[Node], *, coverage: Mapping[int, Coverage]) -> list[NodeRow]:
    """Nodes with their device counts and counted units; a fixed number of queries."""
    counts: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    whole: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    devices = Device.objects.filter(node_name__in=[node.name for node in nodes]).order_by()
    columns = ("cluster_id", "node_name", "profile__kind", "state")
    for cluster, name, kind, state, count in devices.values_list(*columns).annotate(Count("pk")):
        if (known := coverage.get(cluster)) is not None:
            told = state if known.in_step else UNKNOWN
            counts[cluster, name][told] += count
            if kind != PARTITION:
                whole[cluster, name][told] += count
    again = Twin.objects.filter(counts=False, device__node_name__in=[node.name for node in nodes]).order_by()
    twins: Counter[tuple[int, str]] = Counter()
    told_again = again.values_list("cluster_id", "device__node_name", "device__state").annotate(Count("pk"))
    for cluster, name, state, count in told_again:
        if (known := coverage.get(cluster)) is not None:
            whole[cluster, name][state if known.in_step else UNKNOWN] -= count
            twins[cluster, name] += count
    counted = counted_resources(nodes)
    return [
        NodeRow(
            node=node,
            cluster=coverage[node.cluster_id].cluster,
            coverage=coverage[node.cluster_id],
            devices=counts.get((node.cluster_id, node.name), Counter()),
            whole=whole.get((node.cluster_id, node.name), Counter()),
            twins=twins[node.cluster_id, node.name],
            counted=counted.get(node.pk, ()),
        )
        for node in nodes
        if node.cluster_id in coverage
    ]
