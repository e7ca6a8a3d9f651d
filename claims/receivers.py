"""From signals to the task queue. A queue that cannot be reached stops nobody: beat asks again in seconds."""

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.core.cache import cache
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from claims import tasks
from claims.requests import drift_findings
from claims.utilisation import tasks as use_tasks
from inventory.models import Finding, MetricSource

log = logging.getLogger(__name__)

# While a catch-up waits in the queue, further observations need no further one.
COALESCE_SECONDS = 5


def on_observed(*, cluster_id: int, **_kwargs: Any) -> None:
    """A follower committed a batch: fold it soon, once for many batches."""
    try:
        if cache.add(tasks.coalesce_key(cluster_id), 1, timeout=COALESCE_SECONDS):
            tasks.queue(tasks.catch_up, cluster_id=cluster_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: catch_up of cluster %s: %s", cluster_id, error)


def on_work_due(*, request_id: int, **_kwargs: Any) -> None:
    """A request has work on its cluster."""
    try:
        tasks.queue(tasks.pursue, request_id=request_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: pursue request %s: %s", request_id, error)


def on_findings_opened(*, opened: Collection[Finding], now: datetime, **_kwargs: Any) -> None:
    """Within the transaction that opened them: who asked for what others changed hears of it."""
    drift_findings.tell_concerned(opened=opened, now=now)


def on_metrics_read(*, source_id: int, **_kwargs: Any) -> None:
    """A cluster's Prometheus was read: what people hold is added up."""
    cluster_id = MetricSource.objects.filter(pk=source_id).values_list("cluster_id", flat=True).first()
    if cluster_id is not None:
        try:
            use_tasks.fold.apply_async(kwargs={"cluster_id": cluster_id}, expires=use_tasks.EXPIRES)
        except (OperationalError, RedisError, OSError) as error:
            log.warning("queue unreachable: use of cluster %s: %s", cluster_id, error)


def on_quotas_due(**_kwargs: Any) -> None:
    """A quota was made, changed or ended."""
    try:
        tasks.queue(tasks.keep_quotas)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: keep quotas: %s", error)
