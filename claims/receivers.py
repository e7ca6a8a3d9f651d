"""From signals to the task queue. A queue that cannot be reached stops nobody: beat asks again in seconds."""

from typing import Any

import structlog
from django.core.cache import cache
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from claims import tasks

log = structlog.get_logger(__name__)

# While a catch-up waits in the queue, further observations need no further one.
COALESCE_SECONDS = 5


def on_observed(*, cluster_id: int, **_kwargs: Any) -> None:
    """A follower committed a batch: fold it soon, once for many batches."""
    try:
        if cache.add(tasks.coalesce_key(cluster_id), 1, timeout=COALESCE_SECONDS):
            tasks.queue(tasks.catch_up, cluster_id=cluster_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable", task="catch_up", cluster_id=cluster_id, error=str(error))


def on_work_due(*, request_id: int, **_kwargs: Any) -> None:
    """A request has work on its cluster."""
    try:
        tasks.queue(tasks.pursue, request_id=request_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable", task="pursue", request_id=request_id, error=str(error))
