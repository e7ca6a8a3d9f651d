"""Which physical devices Pods had, as was seen: for history and pages, never for bills."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Exists, OuterRef

from inventory.models import Device, PodDevice, PodDeviceNode
from inventory.podresources.intake import due_at
from inventory.podresources.sightings import replica_of

Source = PodDeviceNode.Source
# A Pod: cluster and uid.
PodKey = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class NamedDevice:
    """One device of one container, over all stretches in which it was seen there.

    It was seen from `seen_from` to `seen_until`, except in the `gaps`, in which nobody looked. `seen_until`
    None: the latest report has it (which may be long ago: `is_silent`). `gone_at` is when it was found to
    be gone, `earliest_at` when it was not there yet; None: nobody looked.
    """

    cluster_id: int
    node: str
    pod_uid: str
    container: str
    resource: str
    device_id: str
    part: str
    hardware_id: str
    numa: Sequence[int]
    source: str
    earliest_at: datetime | None
    seen_from: datetime
    seen_until: datetime | None
    # Of when the latest report of its node tells, and when the next one is overdue.
    reported_at: datetime
    due_at: datetime | None
    gone_at: datetime | None
    gaps: Sequence[tuple[datetime, datetime]] = ()
    # The page of the device, where a driver publishes it, too.
    device_pk: int | None = None

    @property
    def replica(self) -> str:
        """Which of several that share the device, "" for a whole one."""
        return replica_of(self.device_id)

    @property
    def name(self) -> str:
        """What names the piece: without the number of the replica."""
        replica = self.replica
        return self.device_id.removesuffix(f"::{replica}") if replica else self.device_id

    @property
    def source_label(self) -> str:
        return str(Source(self.source).label)

    @property
    def last_at(self) -> datetime:
        """Until when it was seen."""
        return self.seen_until or self.reported_at


def devices_of_pods(
    *, cluster_id: int, pod_uids: Collection[str], linked: bool = True
) -> Mapping[str, Sequence[NamedDevice]]:
    """By uid of the Pod; Pods that nothing was reported of are absent. At most two queries."""
    found = devices_of({(cluster_id, uid) for uid in pod_uids}, linked=linked)
    return {uid: named for (_cluster, uid), named in found.items()}


def devices_of(pods: Collection[PodKey], *, linked: bool = True) -> Mapping[PodKey, Sequence[NamedDevice]]:
    """The same for Pods of several clusters. `linked` False spares the query for devices' pages."""
    wanted = {pod for pod in pods if pod[1]}
    if not wanted:
        return {}
    rows = PodDevice.objects.filter(
        pod_uid__in={uid for _cluster, uid in wanted}, cluster__in={cluster for cluster, _uid in wanted}
    )
    found: dict[PodKey, list[PodDevice]] = defaultdict(list)
    for row in rows.select_related("node").order_by("first_seen_at", "pk"):
        if (key := (row.cluster_id, row.pod_uid)) in wanted:
            found[key].append(row)
    told = {key: _merged(_preferred(stretches)) for key, stretches in found.items()}
    return _linked(told) if linked and told else told


def _preferred(rows: Sequence[PodDevice]) -> Sequence[PodDevice]:
    """What the kubelet says, where it says anything of the Pod: metrics only repeat it, with less."""
    best = [row for row in rows if row.node.source == Source.PODRESOURCES]
    return best or rows


def _merged(rows: Sequence[PodDevice]) -> list[NamedDevice]:
    """Stretches of one device of one container as one, in the order of their first sight."""
    merged: dict[tuple[str, ...], NamedDevice] = {}
    for row in rows:
        key = (row.node.name, row.container, row.resource, row.device_id, row.part)
        one = _named(row)
        if (before := merged.get(key)) is not None:
            one = replace(
                one,
                earliest_at=before.earliest_at,
                seen_from=before.seen_from,
                gaps=(*before.gaps, (before.last_at, one.seen_from)),
            )
        merged[key] = one
    return sorted(merged.values(), key=lambda one: (one.seen_from, one.container, one.device_id, one.part))


def _named(row: PodDevice) -> NamedDevice:
    return NamedDevice(
        cluster_id=row.cluster_id,
        node=row.node.name,
        pod_uid=row.pod_uid,
        container=row.container,
        resource=row.resource,
        device_id=row.device_id,
        part=row.part,
        hardware_id=row.hardware_id,
        numa=tuple(row.numa),
        source=row.node.source,
        earliest_at=row.earliest_at,
        seen_from=row.first_seen_at,
        seen_until=row.last_seen_at,
        reported_at=row.node.seen_at or row.first_seen_at,
        due_at=due_at(row.node),
        gone_at=row.gone_at,
    )


def _linked(told: Mapping[PodKey, Sequence[NamedDevice]]) -> Mapping[PodKey, Sequence[NamedDevice]]:
    """With the devices that drivers publish under the same hardware id on the same node: what a node says of
    devices of other nodes leads nowhere."""
    pieces = {one.hardware_id for named in told.values() for one in named}
    rows = Device.objects.filter(hardware_id__in=pieces, cluster__in={cluster for cluster, _uid in told})
    pages = {
        (cluster, node, piece): pk
        for cluster, node, piece, pk in rows.values_list("cluster_id", "node_name", "hardware_id", "pk")
    }
    return {
        key: [replace(one, device_pk=pages.get((one.cluster_id, one.node, one.hardware_id))) for one in named]
        for key, named in told.items()
    }


def of_resource(named: Sequence[NamedDevice], resource: str) -> Sequence[NamedDevice]:
    """Those of one extended resource. Labels of metrics do not tell the resource: they are of NVIDIA's."""
    domain = resource.partition("/")[0]
    return [one for one in named if one.resource == resource or (not one.resource and domain == "nvidia.com")]


def until(named: NamedDevice, ended_at: datetime | None) -> datetime | None:
    """Until when it was seen, for a holding that has ended: a kubelet may name Pods that have finished."""
    if ended_at is None:
        return named.seen_until
    return max(named.seen_from, min(named.last_at, ended_at))


def is_silent(named: NamedDevice, *, now: datetime) -> bool:
    """Whether the latest report has it, and is so old that nothing is known since."""
    return named.seen_until is None and (named.due_at is None or now > named.due_at)


def pods_that_had(hardware_id: str, *, most: int) -> Sequence[PodKey]:
    """Pods that were seen to have a piece of hardware, the latest first; for searching by it. Of a piece that
    a driver publishes on a node only this node is believed: another could name any id."""
    placed = Device.objects.filter(cluster=OuterRef("cluster"), hardware_id=hardware_id).exclude(node_name="")
    rows = (
        PodDevice.objects.filter(
            Exists(placed.filter(node_name=OuterRef("node__name"))) | ~Exists(placed), hardware_id=hardware_id
        )
        .exclude(pod_uid="")
        .order_by("-first_seen_at")
    )
    return list(dict.fromkeys(rows.values_list("cluster_id", "pod_uid")[:most]))
