"""Reading what autoscalers say. A source that may not be read, or is not there, is not known, and never an
error; a cluster that does not answer leaves what was read before, with its age."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

import msgspec

from inventory.autoscaling import objects, status
from inventory.autoscaling.groups import Group, Unreadable
from inventory.clusters import client_for
from inventory.models import AutoscalerReport, Cluster
from portal.kube.errors import ClusterError, Forbidden, NotFound
from portal.kube.resources import Resource

Source = AutoscalerReport.Source
State = AutoscalerReport.State
CONFIG_MAPS = Resource("v1", "configmaps", namespaced=True, kind="ConfigMap")
# Served in these versions, the newest first.
MACHINE_DEPLOYMENTS = tuple(
    Resource(f"cluster.x-k8s.io/{version}", "machinedeployments", namespaced=True, kind="MachineDeployment")
    for version in ("v1beta2", "v1beta1")
)
NODE_POOLS = (Resource("karpenter.sh/v1", "nodepools", namespaced=False, kind="NodePool"),)
NAMESPACE, NAME = "kube-system", "cluster-autoscaler-status"


class Reader(Protocol):
    """What is needed of a client."""

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]: ...
    def list_all(self, resource: Resource) -> list[dict[str, Any]]: ...


Said = tuple[list[Group], datetime | None]
Connect = Callable[[Cluster], AbstractContextManager[Reader]]


def read(*, cluster: Cluster, now: datetime, connect: Connect = client_for) -> None:
    """Read all sources of a cluster. Talks to the cluster: not inside a transaction."""
    try:
        with connect(cluster) as client:
            for source, look in _SOURCES.items():
                _keep(cluster, source, lambda look=look: look(client), now=now)  # type: ignore[misc]  # bound early
    except ClusterError:
        # It is told by the cluster's own state.
        return


def _keep(cluster: Cluster, source: str, look: Callable[[], Said], *, now: datetime) -> None:
    groups: list[Group] = []
    written: datetime | None = None
    try:
        groups, written = look()
        state = State.KNOWN
    except NotFound:
        state = State.ABSENT
    except Forbidden:
        state = State.FORBIDDEN
    except Unreadable:
        state = State.UNREADABLE
    AutoscalerReport.objects.update_or_create(
        cluster=cluster,
        source=source,
        defaults={
            "state": state,
            "groups": [msgspec.to_builtins(group) for group in groups],
            "read_at": now,
            "written_at": written,
        },
    )


def _cluster_autoscaler(client: Reader) -> Said:
    return status.read(client.get(CONFIG_MAPS, NAME, namespace=NAMESPACE))


def _cluster_api(client: Reader) -> Said:
    return objects.of_machine_deployments(_listed(client, MACHINE_DEPLOYMENTS)), None


def _karpenter(client: Reader) -> Said:
    return objects.of_node_pools(_listed(client, NODE_POOLS)), None


def _listed(client: Reader, resources: tuple[Resource, ...]) -> list[dict[str, Any]]:
    for older in resources[:-1]:
        try:
            return client.list_all(older)
        except NotFound:
            continue
    return client.list_all(resources[-1])


_SOURCES: Mapping[str, Callable[[Reader], Said]] = {
    Source.CLUSTER_AUTOSCALER: _cluster_autoscaler,
    Source.CLUSTER_API: _cluster_api,
    Source.KARPENTER: _karpenter,
}
