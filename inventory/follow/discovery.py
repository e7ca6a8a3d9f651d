"""Which version of each resource a cluster serves, found per resource, since they differ."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from portal.kube import resources
from portal.kube.client import Client
from portal.kube.resources import Resource

GROUP = "resource.k8s.io"
# Best first; the model normalises all of them to v1.
PREFERENCE = tuple(f"{GROUP}/{version}" for version in ("v1", "v1beta2", "v1beta1"))
# What every cluster serves in one version.
CORE = {
    resource.plural: resource
    for resource in (
        *(resources.NODES, resources.PODS, resources.EVENTS, resources.NAMESPACES),
        *(resources.RUNTIME_CLASSES, resources.RESOURCE_QUOTAS, resources.JOBS),
    )
}
# A group may come (an upgrade, a gate) while we follow.
MAX_AGE_SECONDS = 60.0
# What was not served a moment ago is not served now either.
MIN_AGE_SECONDS = 10.0


@dataclass(frozen=True)
class Group:
    """An API group: which of its versions we read, best first, and which of its resources."""

    name: str
    versions: tuple[str, ...]
    plurals: frozenset[str]


def _group(name: str, *versions: str, of: frozenset[str]) -> Group:
    return Group(name, tuple(f"{name}/{version}" for version in versions), of)


GROUPS = (
    Group(
        GROUP,
        PREFERENCE,
        frozenset({"resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"}),
    ),
    # Its own: the other resources of v1alpha3 are not those that we know.
    Group(GROUP, (*PREFERENCE, f"{GROUP}/v1alpha3"), frozenset({"devicetaintrules"})),
    _group(
        "kueue.x-k8s.io",
        *("v1beta2", "v1beta1"),
        of=frozenset(
            resource.stream
            for resource in (
                *(resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES),
                *(resources.RESOURCE_FLAVORS, resources.QUEUED_WORKLOADS),
            )
        ),
    ),
    _group(
        "scheduling.k8s.io",
        *("v1", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
        of=frozenset({resources.POD_GROUPS.stream, resources.SCHEDULING_WORKLOADS.stream}),
    ),
)


class Discovery:
    """What one cluster serves; shared by its streams. A group that cannot be asked about stops only those
    who want something of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._served: dict[str, Mapping[str, Mapping[str, Resource]]] = {}
        self._asked_at: dict[str, float] = {}

    def find(self, stream: str) -> Resource | None:
        """The resource of a stream in the best version served, or None. Raises ClusterError."""
        if stream in CORE:
            return CORE[stream]
        group = next(group for group in GROUPS if stream in group.plurals)
        with self._lock:
            age = time.monotonic() - self._asked_at.get(group.name, float("-inf"))
            known = best(group, self._served.get(group.name, {})).get(stream)
            if age > MAX_AGE_SECONDS or (known is None and age > MIN_AGE_SECONDS):
                self._served[group.name] = self._client.served(group.name)
                self._asked_at[group.name] = time.monotonic()
            return best(group, self._served[group.name]).get(stream)


def best(group: Group, served: Mapping[str, Mapping[str, Resource]]) -> dict[str, Resource]:
    """Stream → resource, of what a group serves in its versions."""
    found: dict[str, Resource] = {}
    for version in group.versions:
        for resource in served.get(version, {}).values():
            if resource.stream in group.plurals:
                found.setdefault(resource.stream, resource)
    return found


def preferred(client: Client) -> dict[str, Resource]:
    """Plural → resource of `resource.k8s.io` in the best version that the cluster serves. Raises
    ClusterError."""
    served = client.served(GROUP)
    found: dict[str, Resource] = {}
    for group in GROUPS:
        if group.name == GROUP:
            found |= best(group, served)
    return found


def discover(client: Client) -> dict[str, Resource]:
    """Stream → resource, of all that is followed and served. Raises ClusterError."""
    found = dict(CORE)
    served: dict[str, Mapping[str, Mapping[str, Resource]]] = {}
    for group in GROUPS:
        if group.name not in served:
            served[group.name] = client.served(group.name)
        found |= best(group, served[group.name])
    return found
