"""How long API servers take to answer, and how they fail: counted in this process, for Prometheus."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Histogram

from portal.kube import errors

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

ANSWERED = Histogram(
    "claimdesk_kube_request_seconds",
    "Time from sending a request to an API server to the end of its answer (of a watch: to its beginning).",
    ["server", "verb", "resource"],
    buckets=BUCKETS,
)
FAILED = Counter(
    "claimdesk_kube_request_failures",
    "Requests to API servers that failed, by the kind of failure.",
    ["server", "verb", "resource", "error"],
)


@contextmanager
def measured(*, server: str, verb: str, path: str) -> Iterator[None]:
    """Count one request; its failure is counted and goes on."""
    resource = resource_of(path)
    verb = "LIST" if verb == "GET" and is_collection(path) else verb
    begun = time.perf_counter()
    try:
        yield
    except errors.ClusterError as error:
        FAILED.labels(server, verb, resource, type(error).__name__).inc()
        raise
    ANSWERED.labels(server, verb, resource).observe(time.perf_counter() - begun)


def resource_of(path: str) -> str:
    """The plural that a path of the API is about, with its subresource; names of objects are no label: there
    are too many of them.

    >>> resource_of("/api/v1/namespaces/team/pods/train-0")
    'pods'
    """
    parts = _of_objects(path)
    if not parts:
        return "discovery"
    return parts[0] if len(parts) < 3 else f"{parts[0]}/{parts[2]}"


def is_collection(path: str) -> bool:
    """Whether a path is of all objects of a resource, and not of one.

    >>> is_collection("/api/v1/namespaces/team/pods"), is_collection("/api/v1/namespaces/team")
    (True, False)
    """
    return len(_of_objects(path)) == 1


def _of_objects(path: str) -> list[str]:
    """Resource, name and subresource, as far as the path has them."""
    parts = [part for part in path.split("/") if part]
    # /api/VERSION/… of the core group, /apis/GROUP/VERSION/… of the others.
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts
