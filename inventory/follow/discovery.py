"""Which version of each resource a cluster serves, found per resource, since they differ."""

import threading
import time

from portal.kube import resources
from portal.kube.client import Client
from portal.kube.resources import Resource

GROUP = "resource.k8s.io"
# Best first; the model normalises all of them to v1.
PREFERENCE = tuple(f"{GROUP}/{version}" for version in ("v1", "v1beta2", "v1beta1"))
CORE = {resource.plural: resource for resource in (resources.NODES, resources.PODS, resources.EVENTS)}
# A group may come (an upgrade, a gate) while we follow.
MAX_AGE_SECONDS = 60.0


class Discovery:
    """What one cluster serves; shared by its streams, asked again at most once a minute."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._served: dict[str, Resource] = {}
        self._asked_at: float | None = None

    def find(self, plural: str) -> Resource | None:
        """The resource in the best version served, or None. Raises ClusterError."""
        if plural in CORE:
            return CORE[plural]
        with self._lock:
            found = self._served.get(plural)
            stale = self._asked_at is None or time.monotonic() - self._asked_at > MAX_AGE_SECONDS
            if stale or found is None:
                self._served = preferred(self._client)
                self._asked_at = time.monotonic()
            return self._served.get(plural)


def preferred(client: Client) -> dict[str, Resource]:
    """Plural → resource of `resource.k8s.io` in the best version that the cluster serves. Raises
    ClusterError."""
    served = client.served(GROUP)
    found: dict[str, Resource] = {}
    for version in PREFERENCE:
        for plural, resource in served.get(version, {}).items():
            found.setdefault(plural, resource)
    return found
