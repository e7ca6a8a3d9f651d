"""How asking each cluster's Prometheus goes, as metrics; what a worker counts of it is told by the worker."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from inventory.coverage import Coverage
from inventory.models import MetricQuery, MetricSource


def monitoring(coverage: Mapping[int, Coverage]) -> Iterator[Metric]:
    """Two queries; nothing of clusters without a source."""
    answered = GaugeMetricFamily(
        "claimdesk_monitoring_answered_timestamp_seconds",
        "When the Prometheus of a cluster answered last.",
        labels=["cluster"],
    )
    failures = GaugeMetricFamily(
        "claimdesk_monitoring_failures", "How often in a row it did not.", labels=["cluster"]
    )
    failing = GaugeMetricFamily(
        "claimdesk_monitoring_query_errors",
        "Queries that failed when they were asked last, by cause.",
        labels=["cluster", "cause"],
    )
    names: dict[int, str] = {}
    for source in MetricSource.objects.filter(cluster__in=coverage, enabled=True).order_by("cluster_id"):
        name = names[source.pk] = coverage[source.cluster_id].cluster.name
        failures.add_metric([name], source.failures)
        if source.answered_at is not None:
            answered.add_metric([name], source.answered_at.timestamp())
    counts: dict[tuple[str, str], int] = {}
    rows = MetricQuery.objects.filter(source__in=names, enabled=True, problem__isnull=False)
    for source_id, code in rows.order_by("source_id").values_list("source_id", "problem__code"):
        key = (names[source_id], str(code))
        counts[key] = counts.get(key, 0) + 1
    for (name, cause), count in sorted(counts.items()):
        failing.add_metric([name, cause], count)
    yield from (answered, failures, failing)
