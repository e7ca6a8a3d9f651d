"""The Prometheus of every cluster that has one: whether it answers, and its queries tell something."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from inventory.models import MetricQuery, MetricSource
from inventory.telemetry.problems import Problem
from portal.pages.doctor.results import Result, bad, good, warning

# A slot, a round, and some patience.
SILENT = timedelta(minutes=15)


def monitoring_checks(*, now: datetime) -> Iterator[Result]:
    """By what the workers found when they asked last; asks nobody."""
    rows = MetricSource.objects.filter(enabled=True, cluster__enabled=True).select_related("cluster")
    for source in rows.defer("cluster__kubeconfig_encrypted", "token_encrypted").order_by("cluster__name"):
        name = f"metrics of {source.cluster.name}"
        problem = Problem.read(source.problem)
        if problem is not None:
            yield bad(name, f"{source.url}: {problem.said}", str(problem.cure))
        elif source.answered_at is None or source.answered_at < now - SILENT:
            yield bad(
                name,
                f"{source.url} is not asked.",
                "Run a worker of the queue “default”, and beat: they ask every five minutes.",
            )
        else:
            yield from _queries(source, name)


def _queries(source: MetricSource, name: str) -> Iterator[Result]:
    queries = list(source.queries.filter(enabled=True).order_by("position"))
    failing = [query for query in queries if query.problem is not None]
    for query in failing:
        problem = Problem.read(query.problem)
        if problem is not None:
            yield warning(name, f"Query “{query.name}”: {problem.said}", str(problem.cure))
    use = [query for query in queries if query.kind == MetricQuery.Kind.USE]
    if use and not failing and not any(query.matched for query in use):
        yield warning(
            name,
            "It answers, but does not say how busy any device is.",
            "Is an exporter for the devices scraped? Clusters → its page → Monitoring shows the queries.",
        )
    elif not failing:
        yield good(name, f"{source.url} answers.")
