"""Celery tasks of drills, and the receiver that queues them."""

import logging
from contextlib import suppress
from typing import Any

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from claims.drill import running, sweeping
from claims.tasks import EXPIRES, queue
from inventory.models import Cluster
from portal import access
from portal.kube.errors import ClusterError

log = logging.getLogger(__name__)


@shared_task(name="claims.drill.tasks.tend", ignore_result=True)
def tend() -> None:
    """Queue the drills that have work to do, each in a task of its own."""
    if access.only_looks():
        # They stay due.
        return
    for pk in running.due(now=timezone.now()):
        pursue_drill.apply_async(kwargs={"drill_id": pk}, expires=EXPIRES)


@shared_task(name="claims.drill.tasks.pursue_drill", ignore_result=True)
def pursue_drill(drill_id: int) -> None:
    """Take one drill further."""
    if not access.only_looks():
        running.pursue(drill_id=drill_id, now=timezone.now())


@shared_task(name="claims.drill.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Remove what drills that are over left behind, on every cluster that answers."""
    if access.only_looks():
        return
    for cluster in Cluster.objects.filter(enabled=True).order_by("pk"):
        with suppress(ClusterError):
            sweeping.sweep(cluster=cluster, now=timezone.now())


def on_drill_due(*, drill_id: int, **_kwargs: Any) -> None:
    """A drill was started or answered. A queue that cannot be reached stops nobody: beat asks."""
    try:
        queue(pursue_drill, drill_id=drill_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: pursue drill %s: %s", drill_id, error)
