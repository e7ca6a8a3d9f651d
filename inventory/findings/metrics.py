"""What a cluster's Prometheus says that cannot be so: see `inventory.telemetry.binding`."""

from collections.abc import Iterable

from inventory.findings.facts import Facts
from inventory.findings.model import Found
from inventory.models import MetricQuery
from inventory.telemetry.problems import ELSEWHERE, Problem


def from_elsewhere(facts: Facts) -> Iterable[Found]:
    """Samples of devices that come from where these are not, as long as the latest answers have some. They
    last for two rounds before it is told: a piece may just have been moved."""
    rows = MetricQuery.objects.filter(
        source__cluster=facts.cluster, source__enabled=True, enabled=True, problem__code=ELSEWHERE
    )
    for query in rows.order_by("position", "pk"):
        problem = Problem.read(query.problem)
        assert problem is not None, "its code was looked for"
        values = problem.said.values
        yield Found(
            subject=f"query/{query.pk}",
            object_kind="metrics",
            name=query.name,
            code="metrics-elsewhere",
            params={
                "query": query.name,
                "devices": values["n"],
                "device": values["name"],
                "node": values["node"],
                "named": values["told"],
            },
            holds_for=facts.thresholds.reports_missing,
        )
