"""A node pool on its way: the H100 node is as it was and has a plugin, the A100 node is the canary's."""

from datetime import timedelta
from typing import Any

from claims.models import Placement, PoolPlan
from inventory.models import Cluster, DeviceClass, Node, Pod, Stream
from tests.claims import catalogue
from tests.claims.conftest import NOW

LABELS = {"pool": "gpu"}
CANARY_LABELS = {"pool": "gpu-canary"}
RESOURCE = "nvidia.com/gpu"


def plan(cluster: Cluster, **columns: Any) -> PoolPlan:
    """The plan of the pool at its first stage."""
    values: dict[str, Any] = {
        "name": "gpu",
        "labels": LABELS,
        "canary_labels": CANARY_LABELS,
        "extended_resource": RESOURCE,
        "device_class": "gpu",
        "driver": "gpu.nvidia.com",
        "created_at": NOW,
        "changed_at": NOW,
    }
    return PoolPlan.objects.create(cluster=cluster, **values | columns)


def nodes(cluster: Cluster) -> None:
    """Gives the nodes their labels, and the old one its plugin instead of its driver."""
    Node.objects.filter(name="node-h100").update(labels=LABELS | {"nvidia.com/gpu.count": "4"})
    Node.objects.filter(name="node-a100").update(labels=CANARY_LABELS | {"nvidia.com/gpu.count": "2"})
    cluster.devices.filter(node_name="node-h100").delete()
    catalogue.units(cluster)
    for resource in ("resourcequotas", "clusterqueues"):
        Stream.objects.create(
            cluster=cluster, resource=resource, state=Stream.State.WATCHING, listed_at=NOW, heard_at=NOW
        )


def pod(cluster: Cluster, name: str, **columns: Any) -> Pod:
    """A Pod of the old node that asks for one unit."""
    values: dict[str, Any] = {
        "namespace": "protein-folding",
        "uid": f"pod-{name}",
        "resource_version": "1",
        "phase": "Running",
        "node_name": "node-h100",
        "extended_resources": {RESOURCE: 1},
        "created_at": NOW - timedelta(minutes=10),
        "scheduled_at": NOW - timedelta(minutes=9),
    }
    return Pod.objects.create(cluster=cluster, name=name, **values | columns)


def both_ways(cluster: Cluster, slug: str = "gpu", **columns: Any) -> Placement:
    """A flavor that the pool's old nodes serve by the plugin, and could by DRA."""
    values: dict[str, Any] = {
        "device_class": "gpu",
        "extended_resource": RESOURCE,
        "pool": "gpu",
        "node_selector": LABELS,
        "stage": Placement.Stage.PLUGIN,
    }
    return catalogue.placement(catalogue.flavor(slug), cluster, **values | columns)


def serve(cluster: Cluster) -> None:
    """The class serves the resource's name, too."""
    DeviceClass.objects.filter(cluster=cluster, name="gpu").update(extended_resource_name=RESOURCE)
