"""Celery tasks of launches, and the receiver that queues them."""

import logging
from typing import Any

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from claims.launches import launching as launches
from claims.tasks import EXPIRES, queue
from inventory.models import Cluster
from portal import access

log = logging.getLogger(__name__)


@shared_task(name="claims.launches.tasks.tend", ignore_result=True)
def tend() -> None:
    """Queue what is due of launches, each in a task of its own."""
    now = timezone.now()
    for cluster in Cluster.objects.filter(enabled=True).only("pk"):
        for pk in launches.due(cluster, now=now):
            pursue_launch.apply_async(kwargs={"launch_id": pk}, expires=EXPIRES)


@shared_task(name="claims.launches.tasks.pursue_launch", ignore_result=True)
def pursue_launch(launch_id: int) -> None:
    """Do on the cluster what is due for one launch."""
    if access.only_looks():
        # It stays due.
        return
    launches.pursue(launch_id=launch_id, now=timezone.now())


def on_launch_due(*, launch_id: int, **_kwargs: Any) -> None:
    """Something was started or is to be stopped. A queue that cannot be reached stops nobody: beat asks."""
    try:
        queue(pursue_launch, launch_id=launch_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: pursue launch %s: %s", launch_id, error)
