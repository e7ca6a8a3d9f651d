"""Which Pods have a physical device through a Device Plugin now, as far as the reader may know.

The rule is that of `inventory.holders`: everybody sees that it is held, by which project and since when; the
Pod only members of the project, administrators and auditors. Only Pods that the mirror has on the device's
own node count: a node says nothing of other nodes, and whom nobody else knows is not shown as holding.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from inventory.holders import projects_of
from inventory.models import Device, Pod, PodDevice, PodDeviceNode
from inventory.podresources.intake import due_at
from inventory.podresources.sightings import replica_of
from portal.access import may_read_everything
from portal.accounts.models import Project, User

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class PodHolding:
    """Only for those who may see it."""

    namespace: str
    name: str
    uid: str
    phase: str
    containers: Sequence[str]
    resources: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PluginHolder:
    """One Pod that has the device. `since` is when it was first seen; `unknown_since` None: reports come."""

    project: Project | None
    since: datetime
    unknown_since: datetime | None
    sources: Sequence[str]
    # Which of several that share it, or which part: "3", "MIG 1g.5gb #7".
    shares: Sequence[str]
    pod: PodHolding | None


def plugin_holders_of(
    devices: Collection[Device], *, viewer: User, now: datetime
) -> Mapping[int, Sequence[PluginHolder]]:
    """By the device's primary key, oldest first; a device that no Pod has so is absent. At most four
    queries."""
    by_piece: dict[tuple[int, str, str], Device] = {
        (device.cluster_id, device.hardware_id, device.node_name): device
        for device in devices
        if device.hardware_id
    }
    if not by_piece:
        return {}
    rows = PodDevice.objects.filter(
        hardware_id__in={piece for _cluster, piece, _node in by_piece},
        cluster__in={cluster for cluster, _piece, _node in by_piece},
        last_seen_at=None,
    ).exclude(pod_uid="")
    # What a kubelet says of a Pod counts, and not metrics that name another GPU. It names parts of a GPU by
    # ids of their own, which contradict nothing.
    by_kubelet = PodDevice.objects.filter(
        cluster=OuterRef("cluster"),
        pod_uid=OuterRef("pod_uid"),
        node__source=PodDeviceNode.Source.PODRESOURCES,
        last_seen_at=None,
    )
    rows = rows.exclude(
        Exists(by_kubelet.filter(hardware_id__startswith="GPU-")),
        ~Exists(by_kubelet.filter(hardware_id=OuterRef("hardware_id"))),
        node__source=PodDeviceNode.Source.DCGM,
    )
    found: dict[tuple[int, str], list[PodDevice]] = defaultdict(list)
    for row in rows.select_related("node").order_by("first_seen_at", "pk"):
        device = by_piece.get((row.cluster_id, row.hardware_id, row.node.name))
        if device is not None:
            found[device.pk, row.pod_uid].append(row)
    if not found:
        return {}
    running = Pod.objects.filter(
        uid__in={uid for _device, uid in found}, cluster__in={device.cluster_id for device in devices}
    ).exclude(phase__in=FINISHED)
    pods = {(pod.cluster_id, pod.uid): pod for pod in running}
    projects = projects_of({(pod.cluster_id, pod.namespace) for pod in pods.values()}, at=now)
    reads_all = may_read_everything(viewer)
    detailed = (
        set() if reads_all else set(Project.objects.all().detailed_to(viewer).values_list("pk", flat=True))
    )
    holders: dict[int, list[PluginHolder]] = defaultdict(list)
    for (device_pk, uid), stretches in found.items():
        pod = pods.get((stretches[0].cluster_id, uid))
        if pod is None:
            continue
        project = projects.get((pod.cluster_id, pod.namespace))
        visible = reads_all or (project is not None and project.pk in detailed)
        holders[device_pk].append(_holder(stretches, pod, project, visible=visible, now=now))
    return {device: sorted(told, key=lambda one: one.since) for device, told in holders.items()}


def _holder(
    rows: Sequence[PodDevice], pod: Pod, project: Project | None, *, visible: bool, now: datetime
) -> PluginHolder:
    # Known as long as one source speaks.
    seen = [row.node.seen_at for row in rows if row.node.seen_at]
    silent = all((due := due_at(row.node)) is None or now > due for row in rows)
    return PluginHolder(
        project=project,
        since=min(row.first_seen_at for row in rows),
        unknown_since=max(seen, default=None) if silent else None,
        sources=list(dict.fromkeys(str(row.node.get_source_display()) for row in rows)),
        shares=list(dict.fromkeys(s for row in rows if (s := row.part or replica_of(row.device_id)))),
        pod=PodHolding(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            phase=pod.phase,
            containers=list(dict.fromkeys(row.container for row in rows)),
            resources=list(dict.fromkeys(row.resource for row in rows if row.resource)),
        )
        if visible
        else None,
    )
