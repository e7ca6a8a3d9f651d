"""`/api/v1/metrics/`: for a Prometheus that shows a token."""

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from rest_framework.request import Request

from portal import access
from portal.api import ApiView, Problem, Scope
from portal.pages.metrics.fleet import FleetMetrics


@extend_schema(exclude=True)
class MetricsView(ApiView):
    """What the database knows, then what this web server counted, unless it has a port of its own for that.
    Of all clusters and projects, therefore for the tokens of those who may read everything."""

    required_scope = Scope.METRICS

    def get(self, request: Request) -> HttpResponse:  # noqa: ARG002 - Django's signature
        if not access.may_read_everything(self.person):
            raise Problem(
                "Metrics tell of all projects: the token must be of an administrator or auditor.",
                code="permission_denied",
                status_code=403,
            )
        fleet = CollectorRegistry(auto_describe=False)
        fleet.register(FleetMetrics(now=timezone.now()))
        told = generate_latest(fleet)
        if not settings.METRICS_PORT:
            told += generate_latest(REGISTRY)
        return HttpResponse(told, content_type=CONTENT_TYPE_LATEST)
