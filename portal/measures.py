"""What a process of the desk counts of its own work, for Prometheus: answers of the web server, and tasks.

Where `CLAIMDESK_METRICS_PORT` is set, every process serves its own counts there. `/api/v1/metrics/` tells
what the database knows (see `portal.pages.metrics`), and what its web server counted only where there is no
such port: behind a load balancer each question reaches another one, whose counts would look like restarts.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from celery.signals import task_postrun, task_prerun, worker_ready
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import Counter, Histogram, start_http_server

log = logging.getLogger(__name__)

ANSWERS = Histogram(
    "claimdesk_http_request_seconds",
    "Time that the desk took to answer, by the name of the address and the status.",
    ["method", "view", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
TASKS = Histogram(
    "claimdesk_task_seconds",
    "Time that background tasks took, by task and outcome.",
    ["task", "outcome"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600),
)
RUNNING = Counter("claimdesk_tasks_started", "Background tasks that were begun.", ["task"])

KNOWN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class MeasuringMiddleware:
    """Counts every answer with its duration."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        # Names and not addresses: there is no end to those. Strangers invent methods, too.
        view = (match.view_name if match else "") or "none"
        method = request.method if request.method in KNOWN_METHODS else "other"
        ANSWERS.labels(method, view, response.status_code).observe(time.perf_counter() - begun)
        return response


_begun: dict[str, float] = {}
_lock = threading.Lock()


@task_prerun.connect
def _task_begins(task_id: str, task: Any, **_: Any) -> None:
    with _lock:
        _begun[task_id] = time.perf_counter()
    RUNNING.labels(task.name).inc()


@task_postrun.connect
def _task_ended(task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
    with _lock:
        begun = _begun.pop(task_id, None)
    if begun is not None:
        TASKS.labels(task.name, (state or "unknown").lower()).observe(time.perf_counter() - begun)


@worker_ready.connect
def serve_counts(**_: Any) -> None:
    """Let Prometheus fetch the counts of this process, where the environment names a port for it. Where
    another process of the machine has it already, that one alone is heard: nothing else depends on it."""
    if not settings.METRICS_PORT:
        return
    try:
        start_http_server(settings.METRICS_PORT, addr=settings.METRICS_ADDRESS)
    except OSError as error:
        log.warning(
            "Nobody can fetch what this process counts: %s:%s: %s",
            settings.METRICS_ADDRESS,
            settings.METRICS_PORT,
            error,
        )
