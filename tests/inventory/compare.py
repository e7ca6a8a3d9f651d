"""Whether a mirror equals its cluster, asked of both."""

from collections.abc import Mapping
from typing import Any

from inventory.follow.discovery import discover, preferred
from inventory.mirror.jobs import pods_use_devices
from inventory.mirror.pods import uses_devices
from inventory.models import (
    Claim,
    ClaimTemplate,
    Cluster,
    ClusterQueue,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Job,
    LocalQueue,
    Namespace,
    Node,
    Observation,
    Pod,
    PodGroup,
    QueuedWorkload,
    ResourceFlavor,
    ResourceQuota,
    ResourceSlice,
    RuntimeClass,
    SchedulingWorkload,
)
from portal.kube.client import Client

Identity = tuple[str, str, str, str]


def on_cluster(client: Client) -> dict[str, set[Identity]]:
    """Resource → (namespace, name, uid, resourceVersion) of every object that is mirrored."""
    import msgspec

    resources = discover(client)
    found: dict[str, set[Identity]] = {}
    for stream in MODELS:
        resource = resources.get(stream)
        objects = client.list_all(resource) if resource is not None else []
        relevant = {"pods": uses_devices, "jobs": pods_use_devices}.get(stream)
        if relevant is not None:
            objects = [obj for obj in objects if relevant(msgspec.json.encode(obj))]
        found[stream] = {_identity(obj["metadata"]) for obj in objects}
    return found


def _identity(metadata: Mapping[str, Any]) -> Identity:
    return metadata.get("namespace", ""), metadata["name"], metadata["uid"], metadata["resourceVersion"]


MODELS: dict[str, Any] = {
    "nodes": Node,
    "resourceslices": ResourceSlice,
    "deviceclasses": DeviceClass,
    "resourceclaims": Claim,
    "resourceclaimtemplates": ClaimTemplate,
    "pods": Pod,
    "namespaces": Namespace,
    "devicetaintrules": DeviceTaintRule,
    "runtimeclasses": RuntimeClass,
    "resourcequotas": ResourceQuota,
    "jobs": Job,
    "podgroups.scheduling.k8s.io": PodGroup,
    "workloads.scheduling.k8s.io": SchedulingWorkload,
    "clusterqueues.kueue.x-k8s.io": ClusterQueue,
    "localqueues.kueue.x-k8s.io": LocalQueue,
    "resourceflavors.kueue.x-k8s.io": ResourceFlavor,
    "workloads.kueue.x-k8s.io": QueuedWorkload,
}


def mirrored(cluster: Cluster) -> dict[str, set[Identity]]:
    """The same of the mirror."""
    return {
        plural: {
            (getattr(row, "namespace", ""), row.name, row.uid, row.resource_version)
            for row in model._default_manager.filter(cluster=cluster)
        }
        for plural, model in MODELS.items()
    }


def held_on_cluster(client: Client) -> set[tuple[str, str, str]]:
    """(driver, pool, device) of every device that an allocation holds."""
    return {
        (result["driver"], result["pool"], result["device"])
        for claim in client.list_all(preferred(client)["resourceclaims"])
        for result in ((claim.get("status") or {}).get("allocation") or {})
        .get("devices", {})
        .get("results", [])
        if not result.get("adminAccess")
    }


def held_in_mirror(cluster: Cluster) -> set[tuple[str, str, str]]:
    taken = Device.objects.filter(cluster=cluster, state__in=["held", "partly"])
    return set(taken.values_list("pool__driver", "pool__name", "name"))


def history_faults(cluster: Cluster) -> list[str]:
    """What is wrong with the observations of a cluster: of each epoch of a claim there is one beginning,
    at most one end, and the epochs follow each other without a hole."""
    faults: list[str] = []
    epochs: dict[str, list[int]] = {}
    ended: set[tuple[str, int]] = set()
    for seen in Observation.objects.filter(cluster=cluster, kind__startswith="claim-").order_by("id"):
        epoch = int(seen.facts.get("epoch", 0))
        known = epochs.setdefault(seen.uid, [])
        if seen.kind == "claim-allocated":
            if known and (seen.uid, known[-1]) not in ended:
                faults.append(f"{seen.name}: epoch {epoch} began before epoch {known[-1]} ended")
            if epoch != len(known) + 1:
                faults.append(f"{seen.name}: epoch {epoch} after {known}")
            known.append(epoch)
        elif seen.kind in {"claim-released", "claim-deleted"} and epoch:
            if (seen.uid, epoch) in ended or epoch not in known:
                faults.append(f"{seen.name}: epoch {epoch} ended twice or never began")
            ended.add((seen.uid, epoch))
    still = {(uid, known[-1]) for uid, known in epochs.items() if known} - ended
    present = set(Claim.objects.filter(cluster=cluster, allocated=True).values_list("uid", "epoch"))
    if still != present:
        faults.append(f"open epochs {sorted(still)} are not the allocations {sorted(present)}")
    return faults
