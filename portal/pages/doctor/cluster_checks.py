"""Every cluster that the desk follows: whether it can be reached, what it lets us do, and who follows it."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from inventory import bindings, clusters
from inventory.coverage import coverage_of
from inventory.models import Cluster
from portal.kube import errors
from portal.pages.doctor.results import Result, bad, good, warning

SKEW = timedelta(seconds=5)


def cluster_checks(*, now: datetime) -> Iterator[Result]:
    """Asks each enabled cluster. Changes nothing: what the follower remembers is the follower's."""
    found = list(Cluster.objects.order_by("name"))
    if not found:
        yield warning(
            "clusters", "None is followed.", "Run: python manage.py cluster add NAME --kubeconfig PATH"
        )
    for cluster in found:
        if cluster.enabled:
            yield from _cluster(cluster, now=now)
        else:
            yield warning(f"cluster {cluster.name}", "It is switched off at the desk.", "")


def _cluster(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    name = f"cluster {cluster.name}"
    try:
        with clusters.client_for(cluster) as client:
            told = clusters.introduce(client, namespaces=bindings.namespaces_on(cluster, at=now))
    except errors.BadCredentials as error:
        yield bad(
            name,
            error.message,
            "Give the cluster its kubeconfig again (Clusters → its page → Change), or put the key that it "
            "was encrypted with back into CLAIMDESK_CREDENTIAL_KEYS.",
        )
        return
    except errors.Unauthorized as error:
        yield bad(
            name,
            f"It refuses our credentials: {error.message}",
            "Make a new token for the account (deploy/cluster/base/account.yaml says how) and store it.",
        )
        return
    except errors.ClusterError as error:
        yield bad(name, error.message, "Is it up, and do network and proxy let this machine through to it?")
        return
    if "resourceslices" not in told.served:
        yield warning(
            name,
            f"{told.version} serves no resource.k8s.io: only Device Plugins are seen.",
            "DRA needs Kubernetes 1.34 or newer.",
        )
    if told.missing:
        yield bad(
            name,
            f"The account may not {', '.join(told.missing)}.",
            "Run there: kubectl apply -k deploy/cluster/base, and for each namespace of a project: "
            "kubectl --namespace NAME apply -k deploy/cluster/namespace",
        )
    else:
        yield good(name, f"{told.version} at {told.url}; the account may do all that the desk needs.")
    yield from _following(cluster, now=now)


def _following(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    name = f"mirror of {cluster.name}"
    skew = timedelta(microseconds=cluster.clock_skew_us or 0)
    if abs(skew) > SKEW:
        direction = "ahead of" if skew > timedelta(0) else "behind"
        yield bad(
            f"clock of {cluster.name}",
            f"It is {abs(skew).total_seconds():.0f} s {direction} this machine's.",
            "Let both follow the same time server: times of allocations come from the cluster.",
        )
    coverage = coverage_of(cluster, cluster.streams.all(), now=now)
    if coverage.in_step:
        yield good(name, "In step.")
    elif cluster.lease_expires_at is None or cluster.lease_expires_at < now:
        yield bad(
            name,
            "Nobody follows it.",
            "Run a worker of the queue “follow” with more threads than there are clusters, and beat.",
        )
    else:
        yield warning(name, f"Not in step: {coverage.why}.", "The cluster's page tells more.")
    problems = cluster.problems.count()
    if problems:
        yield warning(
            name, f"{problems} objects cannot be read.", "The cluster's page names them and what is wrong."
        )
