"""Celery's side of following: a task per cluster in bounded shifts, and the beat that makes sure of it."""

import multiprocessing
from multiprocessing.synchronize import Event
from typing import Any

from celery import shared_task, signals
from celery.worker import state as worker_state
from django.conf import settings
from django.utils import timezone

from inventory.autoscaling import tasks as _autoscaling  # noqa: F401 - found by way of this module
from inventory.findings import evaluation, storage, thresholds
from inventory.follow import lease
from inventory.follow.follower import Follower, Outcome
from inventory.taints import emptiness, keeping
from inventory.telemetry import tasks as _telemetry  # noqa: F401 - found by way of this module

# Set when the worker begins to shut down. A prefork worker tells its children nothing before their tasks
# are done, so the parent makes this before it forks.
_shutdown: Event | None = None


@signals.worker_init.connect
def _prepare(**_kwargs: Any) -> None:
    global _shutdown  # noqa: PLW0603 - one per worker process, inherited by its children
    _shutdown = multiprocessing.get_context("fork").Event()


@signals.worker_shutting_down.connect
def _announce(**_kwargs: Any) -> None:
    if _shutdown is not None:
        _shutdown.set()


def worker_is_stopping() -> bool:
    """Whether the worker that runs this task wants to end."""
    return (
        (_shutdown is not None and _shutdown.is_set())
        or bool(worker_state.should_stop)
        or bool(worker_state.should_terminate)
    )


@shared_task
def ensure_followers() -> None:
    """Start a follower for every enabled cluster that has none."""
    for cluster_id in lease.without_follower(now=timezone.now()):
        # Beat asks again soon; what waits longer than that is of no use to anybody.
        follow_cluster.apply_async(args=(cluster_id,), expires=10)


@shared_task
def follow_cluster(cluster_id: int) -> str:
    """Follow one cluster for a shift, then hand over to the next."""
    follower = Follower(
        cluster_id=cluster_id,
        lease_duration=settings.FOLLOWER_LEASE,
        full_list_interval=settings.FULL_LIST_INTERVAL,
    )
    outcome = follower.run(should_stop=worker_is_stopping, shift=settings.FOLLOWER_SHIFT)
    if outcome is Outcome.SHIFT_OVER:
        follow_cluster.apply_async(args=(cluster_id,), expires=60)
    return outcome.name


@shared_task
def evaluate_findings() -> None:
    """Judge every cluster by the rules of `inventory.findings`, and drop what has been over for long."""
    now = timezone.now()
    limits = thresholds.from_minutes(settings.FINDING_MINUTES)
    evaluation.evaluate_all(now=now, thresholds=limits)
    if settings.FINDING_RETENTION:
        storage.prune(before=now - settings.FINDING_RETENTION)


@shared_task
def keep_maintenance() -> None:
    """Begin and end what was planned, remove what is left over, and look who is still there."""
    now = timezone.now()
    keeping.keep(now=now)
    emptiness.watch(now=now)
