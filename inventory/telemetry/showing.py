"""What was read last, as pages and programs show it: by driver, with its age, or "no data"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from django.utils import translation
from django_stubs_ext import StrOrPromise

from inventory.models import Cluster, MetricQuery, MetricSource
from inventory.telemetry.defaults import DEFAULTS
from inventory.telemetry.problems import Problem

# Older than this, what was read last does not tell of the present.
STALE = timedelta(minutes=20)


def title_of(query: MetricQuery) -> str:
    """Its name; that of a default query in the language of who reads, unless somebody gave it another."""
    return str(_titles().get(query.name, query.name))


@cache
def _titles() -> Mapping[str, StrOrPromise]:
    with translation.override("en"):
        return {str(default.name): default.name for default in DEFAULTS}


@dataclass(frozen=True)
class Figure:
    """One number: `about` are its labels besides the driver's, as "method_name=NodePrepareResources"."""

    about: str
    value: float
    unit: str


@dataclass(frozen=True)
class Answer:
    """What one query brought. Without figures there is no data, or a `problem` says why there is none."""

    query: MetricQuery
    figures: Sequence[Figure]
    problem: Problem | None
    stale: bool

    @property
    def left_out(self) -> int:
        """How many samples more it brought than are kept."""
        return max(self.query.samples - MetricQuery.MOST, 0)


@dataclass(frozen=True)
class OfDriver:
    """All that is said of one driver; of none of them ("") is said of the cluster as a whole."""

    driver: str
    answers: Sequence[Answer]


@dataclass(frozen=True)
class Monitoring:
    """Everything about a cluster's source. `problem` is of the source: then everything is as old as
    `source.answered_at`."""

    source: MetricSource
    drivers: Sequence[OfDriver]
    # Queries that brought no data, or failed.
    silent: Sequence[Answer]
    use: Sequence[Answer]
    problem: Problem | None


def monitoring_of(cluster: Cluster, *, now: datetime) -> Monitoring | None:
    """None where no source is configured. Two queries."""
    source = MetricSource.objects.defer("token_encrypted", "ca").filter(cluster=cluster).first()
    if source is None:
        return None
    queries = list(source.queries.filter(enabled=True).order_by("position", "pk"))
    by_driver: dict[str, list[Answer]] = {}
    silent, use = [], []
    for query in queries:
        problem = Problem.read(query.problem)
        stale = query.answered_at is None or query.answered_at < now - STALE
        if query.kind != MetricQuery.Kind.DRIVERS:
            use.append(Answer(query, (), problem, stale))
            continue
        figures: dict[str, list[Figure]] = {}
        for row in query.values:
            about = ", ".join(f"{name}={text}" for name, text in row["labels"].items())
            figures.setdefault(row["driver"], []).append(Figure(about, row["value"], query.unit))
        if not figures or problem is not None:
            silent.append(Answer(query, (), problem, stale))
        for driver, found in figures.items():
            by_driver.setdefault(driver, []).append(Answer(query, found, problem, stale))
    return Monitoring(
        source=source,
        # What is of no driver comes last.
        drivers=[OfDriver(name, by_driver[name]) for name in sorted(by_driver, key=lambda n: (not n, n))],
        silent=silent,
        use=use,
        problem=Problem.read(source.problem),
    )
