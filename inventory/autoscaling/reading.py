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
from portal.kube.resources import (
    CONFIG_MAPS,
    MACHINE_DEPLOYMENTS,
    NODE_POOLS,
    OLDER_MACHINE_DEPLOYMENTS,
    Resource,
)

Source = AutoscalerReport.Source
State = AutoscalerReport.State
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
    try:
        found = client.list_all(MACHINE_DEPLOYMENTS)
    except NotFound:
        found = client.list_all(OLDER_MACHINE_DEPLOYMENTS)
    return objects.of_machine_deployments(found), None


def _karpenter(client: Reader) -> Said:
    return objects.of_node_pools(client.list_all(NODE_POOLS)), None


_SOURCES: Mapping[str, Callable[[Reader], Said]] = {
    Source.CLUSTER_AUTOSCALER: _cluster_autoscaler,
    Source.CLUSTER_API: _cluster_api,
    Source.KARPENTER: _karpenter,
}
