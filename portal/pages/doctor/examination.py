"""All checks in the order in which causes come before their effects."""

from collections.abc import Iterator
from datetime import datetime

from portal import health
from portal.pages.doctor.cluster_checks import cluster_checks
from portal.pages.doctor.monitoring_checks import monitoring_checks
from portal.pages.doctor.results import Result, unknown
from portal.pages.doctor.review_checks import review_checks
from portal.pages.doctor.service_checks import service_checks
from portal.pages.doctor.settings_checks import settings_checks
from portal.pages.metrics.fleet import queues


def examine(*, now: datetime) -> Iterator[Result]:
    """Look at everything; what needs the database is unknown without it."""
    yield from settings_checks()
    yield from service_checks(now=now, queues=tuple(queues()))
    if health.database_trouble() or health.migrations_trouble():
        yield unknown("clusters", "They cannot be looked at without a database of this release.")
    else:
        yield from review_checks()
        yield from cluster_checks(now=now)
        yield from monitoring_checks(now=now)
