"""What the database knows, as metrics: read when Prometheus asks, so that every web server tells the same.

The devices of a cluster that is not in step have the state "unknown": never is one told to be free that may
be held by now. What was never observed has no sample at all, which is not the same as 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum
from prometheus_client.core import (
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from redis import Redis, RedisError

from claims.history.watched import watched
from claims.models import Request
from inventory.browse import UNKNOWN
from inventory.browse_counts import counts_of
from inventory.coverage import Coverage, coverage_of_all
from inventory.models import (
    Claim,
    ClaimDevice,
    DeviceClass,
    DeviceProfile,
    Finding,
    Observation,
    Pod,
    PodEvent,
    ResourceSlice,
    Stream,
    SyncProblem,
)
from portal.dra.quantity import InvalidQuantity, Quantity
from portal.pages.metrics.monitoring import monitoring
from portal.pages.metrics.nodes import node_tokens

# What Pods are told when a device cannot be had, as events name it.
FAILURES = ("FailedScheduling", "FailedPrepareDynamicResources", "FailedResourceClaimCreation")
# Upper bounds of how long claims have waited, in seconds.
WAITS = (10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)


@dataclass(frozen=True)
class FleetMetrics:
    """A collector for `prometheus_client`: everything as of `now`."""

    now: datetime

    def collect(self) -> Iterator[Metric]:
        coverage = coverage_of_all(now=self.now)
        yield from _clusters(coverage)
        yield from _streams(coverage)
        yield from _devices(coverage)
        yield from _claims(coverage, now=self.now)
        yield from _failures(coverage)
        yield from _desk()
        yield from _unobserved(coverage, now=self.now)
        yield from monitoring(coverage)
        yield from node_tokens(coverage, now=self.now)


def _clusters(coverage: Mapping[int, Coverage]) -> Iterator[Metric]:
    info = InfoMetricFamily("claimdesk_cluster", "What is known of a cluster.", labels=["cluster"])
    in_step = GaugeMetricFamily(
        "claimdesk_cluster_in_step",
        "1 where the mirror is known to equal the cluster, else 0.",
        labels=["cluster"],
    )
    as_of = GaugeMetricFamily(
        "claimdesk_cluster_as_of_timestamp_seconds",
        "Up to when the mirror is known to equal the cluster.",
        labels=["cluster"],
    )
    lease = GaugeMetricFamily(
        "claimdesk_follower_lease_expires_timestamp_seconds",
        "When the lease of the cluster's follower ends unless it is renewed.",
        labels=["cluster"],
    )
    skew = GaugeMetricFamily(
        "claimdesk_cluster_clock_skew_seconds", "The cluster's clock minus the desk's.", labels=["cluster"]
    )
    for known in coverage.values():
        cluster = known.cluster
        told = {"state": cluster.state, "server_version": cluster.server_version, "region": cluster.region}
        info.add_metric([cluster.name], told)
        in_step.add_metric([cluster.name], int(known.in_step))
        if known.as_of is not None:
            as_of.add_metric([cluster.name], known.as_of.timestamp())
        if cluster.lease_expires_at is not None:
            lease.add_metric([cluster.name], cluster.lease_expires_at.timestamp())
        if cluster.clock_skew_us is not None:
            skew.add_metric([cluster.name], cluster.clock_skew_us / 1_000_000)
    yield from (info, in_step, as_of, lease, skew)


def _streams(coverage: Mapping[int, Coverage]) -> Iterator[Metric]:
    labels = ["cluster", "resource"]
    objects = GaugeMetricFamily("claimdesk_mirrored_objects", "Objects in the mirror.", labels=labels)
    heard = GaugeMetricFamily(
        "claimdesk_stream_heard_timestamp_seconds",
        "When the API server was last heard of a resource.",
        labels=labels,
    )
    listed = GaugeMetricFamily(
        "claimdesk_stream_listed_timestamp_seconds", "When the last full list was complete.", labels=labels
    )
    lag = GaugeMetricFamily(
        "claimdesk_stream_lag_seconds", "From the last change on the cluster to its row here.", labels=labels
    )
    state = GaugeMetricFamily(
        "claimdesk_stream_state", "1 for the state that a watch is in.", labels=[*labels, "state"]
    )
    for stream in Stream.objects.filter(cluster__in=coverage).order_by("cluster_id", "resource"):
        named = [coverage[stream.cluster_id].cluster.name, stream.resource]
        state.add_metric([*named, stream.state], 1)
        if stream.listed_at is not None:
            listed.add_metric(named, stream.listed_at.timestamp())
            objects.add_metric(named, stream.object_count)
        if stream.heard_at is not None:
            heard.add_metric(named, stream.heard_at.timestamp())
        if stream.lag_us is not None:
            lag.add_metric(named, stream.lag_us / 1_000_000)
    problems = GaugeMetricFamily(
        "claimdesk_sync_problems", "Objects that the mirror could not read.", labels=labels
    )
    rows = SyncProblem.objects.filter(cluster__in=coverage).values_list("cluster_id", "resource")
    for cluster, resource, count in rows.order_by("cluster_id", "resource").annotate(Count("pk")):
        problems.add_metric([coverage[cluster].cluster.name, resource], count)
    yield from (objects, heard, listed, lag, state, problems)


def _devices(coverage: Mapping[int, Coverage]) -> Iterator[Metric]:
    drivers = dict(DeviceProfile.objects.values_list("pk", "driver"))
    states: Counter[tuple[int, str, str]] = Counter()
    healths: Counter[tuple[int, str, str]] = Counter()
    for profile, cluster, state, health, count in counts_of(known.cluster for known in coverage.values()):
        told = coverage[cluster].in_step
        driver = drivers.get(profile, "")
        states[cluster, driver, state if told else UNKNOWN] += count
        healths[cluster, driver, health if told else UNKNOWN] += count
    devices = GaugeMetricFamily(
        "claimdesk_devices", "Published devices by state.", labels=["cluster", "driver", "state"]
    )
    health_of = GaugeMetricFamily(
        "claimdesk_device_health", "Published devices by health.", labels=["cluster", "driver", "health"]
    )
    for family, counts in ((devices, states), (health_of, healths)):
        for (cluster, driver, value), count in sorted(counts.items()):
            family.add_metric([coverage[cluster].cluster.name, driver, value], count)
    yield from (devices, health_of)
    slices = GaugeMetricFamily(
        "claimdesk_resource_slices", "Published ResourceSlices.", labels=["cluster", "driver"]
    )
    rows = ResourceSlice.objects.filter(cluster__in=coverage).values_list("cluster_id", "pool__driver")
    for cluster, driver, count in rows.order_by("cluster_id", "pool__driver").annotate(Count("pk")):
        slices.add_metric([coverage[cluster].cluster.name, driver], count)
    yield slices
    classes = GaugeMetricFamily("claimdesk_device_classes", "DeviceClasses.", labels=["cluster"])
    by_cluster = dict(
        DeviceClass.objects.values_list("cluster_id").order_by("cluster_id").annotate(Count("pk"))
    )
    for pk, known in coverage.items():
        if known.as_of is not None:
            classes.add_metric([known.cluster.name], by_cluster.get(pk, 0))
    yield classes
    yield _consumed(coverage)


def _consumed(coverage: Mapping[int, Coverage]) -> Metric:
    """Only devices that several claims may share have this."""
    nanos: Counter[tuple[int, str, str]] = Counter()
    rows = ClaimDevice.objects.exclude(share_id="").filter(claim__cluster__in=coverage)
    columns = ("claim__cluster_id", "driver", "consumed_capacity")
    for cluster, driver, consumed in rows.values_list(*columns).iterator():
        for name, amount in (consumed or {}).items():
            try:
                nanos[cluster, driver, name] += Quantity.parse(str(amount)).nanos
            except InvalidQuantity:
                continue
    family = GaugeMetricFamily(
        "claimdesk_consumable_capacity_used",
        "Capacity of shared devices that claims consume, in the unit of the capacity.",
        labels=["cluster", "driver", "capacity"],
    )
    for (cluster, driver, name), amount in sorted(nanos.items()):
        family.add_metric([coverage[cluster].cluster.name, driver, name], amount / 1_000_000_000)
    return family


def _claims(coverage: Mapping[int, Coverage], *, now: datetime) -> Iterator[Metric]:
    counts: Counter[tuple[int, str]] = Counter()
    rows = Claim.objects.filter(cluster__in=coverage).order_by()
    for cluster, allocated, count in rows.values_list("cluster_id", "allocated").annotate(Count("pk")):
        counts[cluster, "allocated" if allocated else "pending"] += count
    for cluster, count in rows.exclude(deleted_at=None).values_list("cluster_id").annotate(Count("pk")):
        counts[cluster, "deleting"] += count
    states = GaugeMetricFamily("claimdesk_claims", "ResourceClaims by state.", labels=["cluster", "state"])
    for (cluster, state), count in sorted(counts.items()):
        states.add_metric([coverage[cluster].cluster.name, state], count)
    yield states
    yield _pending(coverage, now=now)


def _pending(coverage: Mapping[int, Coverage], *, now: datetime) -> Metric:
    """How long the claims that have no device yet have waited, and why."""
    reasons: dict[tuple[int, str, str], str] = {}
    waiting = Pod.objects.filter(cluster__in=coverage, node_name="").exclude(claim_names={})
    columns = ("cluster_id", "namespace", "claim_names", "unschedulable_message")
    for cluster, namespace, names, message in waiting.values_list(*columns).iterator():
        for name in names.values():
            key = (cluster, namespace, name)
            if message or key not in reasons:
                reasons[key] = "unschedulable" if message else "not-scheduled"
    ages: dict[tuple[int, str], list[float]] = defaultdict(list)
    pending = Claim.objects.filter(cluster__in=coverage, allocated=False, deleted_at=None)
    pending = pending.exclude(created_at=None)
    columns_of_claim = ("cluster_id", "namespace", "name", "created_at")
    for cluster, namespace, name, created in pending.values_list(*columns_of_claim).iterator():
        reason = reasons.get((cluster, namespace, name), "no-pod")
        ages[cluster, reason].append(max((now - created).total_seconds(), 0.0))
    family = GaugeHistogramMetricFamily(
        "claimdesk_claim_pending_seconds",
        "How long the claims without a device have waited so far, by what they wait for.",
        labels=["cluster", "reason"],
    )
    for (cluster, reason), waits in sorted(ages.items()):
        family.add_metric([coverage[cluster].cluster.name, reason], _buckets(waits), sum(waits))
    return family


def _buckets(values: Sequence[float]) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = [
        (str(float(bound)), sum(value <= bound for value in values)) for bound in WAITS
    ]
    return [*buckets, ("+Inf", len(values))]


def _failures(coverage: Mapping[int, Coverage]) -> Iterator[Metric]:
    failures = GaugeMetricFamily(
        "claimdesk_pod_device_failures",
        "How often the cluster says, in events that it still keeps, that Pods cannot have their devices.",
        labels=["cluster", "reason"],
    )
    events = PodEvent.objects.filter(cluster__in=coverage, reason__in=FAILURES)
    rows = events.values_list("cluster_id", "reason").order_by("cluster_id", "reason")
    for cluster, reason, total in rows.annotate(Sum("count")):
        failures.add_metric([coverage[cluster].cluster.name, reason], total)
    findings = GaugeMetricFamily(
        "claimdesk_findings",
        "Open findings: unreleased allocations, unhealthy devices, and all else that is wrong.",
        labels=["cluster", "kind", "severity"],
    )
    open_ones = Finding.objects.filter(cluster__in=coverage, resolved_at=None).exclude(opened_at=None)
    kinds = open_ones.values_list("cluster_id", "kind", "severity").order_by("cluster_id", "kind", "severity")
    for cluster, kind, severity, count in kinds.annotate(Count("pk")):
        findings.add_metric([coverage[cluster].cluster.name, kind, severity], count)
    yield from (failures, findings)


def _desk() -> Iterator[Metric]:
    requests = GaugeMetricFamily("claimdesk_requests", "Requests by state.", labels=["state"])
    counts: Mapping[str, int] = dict(
        Request.objects.order_by("state").values_list("state").annotate(Count("pk"))
    )
    for state in Request.State.values:
        requests.add_metric([state], counts.get(state, 0))
    yield requests
    depth = queue_depth()
    if depth is not None:
        family = GaugeMetricFamily("claimdesk_queue_depth", "Tasks that wait for a worker.", labels=["queue"])
        for name, waiting in depth.items():
            family.add_metric([name], waiting)
        yield family


def queue_depth() -> Mapping[str, int] | None:
    """How many tasks wait in each queue; None when the broker does not answer."""
    try:
        with Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2) as broker:
            lengths: Any = {name: broker.llen(name) for name in queues()}
    except (RedisError, OSError):
        return None
    return {name: int(length) for name, length in lengths.items()}


def queues() -> list[str]:
    """The queues that workers serve."""
    routed = (route["queue"] for route in settings.CELERY_TASK_ROUTES.values())
    return sorted({settings.CELERY_TASK_DEFAULT_QUEUE, *routed})


def _unobserved(coverage: Mapping[int, Coverage], *, now: datetime) -> Iterator[Metric]:
    # Not a counter: what looked lost is known again when a watch resumes where it ended.
    family = GaugeMetricFamily(
        "claimdesk_unobserved_seconds",
        "Time since a cluster was first followed of which nobody knows what happened on it.",
        labels=["cluster"],
    )
    for known in coverage.values():
        observed = Observation.objects.filter(cluster=known.cluster).order_by("id")
        since = observed.values_list("observed_at", flat=True).first()
        if since is None or (seen := watched(known, since=since, now=now)) is None:
            continue
        end = int(now.timestamp() * 1_000_000)
        blank = sum(stop - start for start, stop in seen.blanks(seen.known_from, end))
        family.add_metric([known.cluster.name], timedelta(microseconds=blank).total_seconds())
    yield family
