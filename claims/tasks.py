"""Celery tasks: each loads by id and makes one domain call."""

import logging
from contextlib import suppress
from typing import Any

from celery import shared_task
from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from claims.bookings import start as bookings_start
from claims.changes import applying as changes
from claims.ledger import keeping, storage
from claims.ledger.archive import ArchiveDamaged
from claims.models import Request
from claims.quotas import cluster as quotas_cluster
from claims.quotas import watch as quotas_watch
from claims.quotas import writing as quotas_writing
from claims.requests import advance, idle, pursuit, reminders, sweeping
from claims.requests.holding import HoldTerms
from claims.waiting import watches
from inventory.models import Cluster
from portal import access
from portal.kube.errors import ClusterError

log = logging.getLogger(__name__)

# A queued message is worthless once the next beat has queued another.
EXPIRES = 60
# What is due once a day may wait a while.
EXPIRES_BY_DAY = 3_600


@shared_task(name="claims.tasks.catch_up", ignore_result=True)
def catch_up(cluster_id: int | None = None) -> None:
    """Fold what was observed into the ledger and bring requests forward; without an id, every cluster in a
    task of its own, so that one that fails does not stop the others."""
    if cluster_id is None:
        for pk in Cluster.objects.values_list("pk", flat=True):
            catch_up.apply_async(kwargs={"cluster_id": pk}, expires=EXPIRES)
        return
    cache.delete(coalesce_key(cluster_id))
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None:
        return
    try:
        storage.apply(cluster=cluster)
        storage.reattribute(cluster=cluster)
    except ArchiveDamaged as fault:
        # The ledger waits for the file, and its audit names it; requests go on.
        log.warning("%s", fault.message)
    advance.advance(cluster=cluster, now=timezone.now())
    changes.release_replaced(cluster=cluster, now=timezone.now())
    due = Request.objects.filter(cluster=cluster).due(timezone.now())
    for pk in due.values_list("pk", flat=True):
        pursue.apply_async(kwargs={"request_id": pk}, expires=EXPIRES)
    quotas_watch.watch(cluster=cluster, now=timezone.now())
    quotas_writing.look(cluster=cluster, now=timezone.now())


@shared_task(name="claims.tasks.audit_ledgers", ignore_result=True)
def audit_ledgers(cluster_id: int | None = None) -> None:
    """Check every invariant of the ledger; without an id, every cluster in a task of its own."""
    if cluster_id is None:
        for pk in Cluster.objects.values_list("pk", flat=True):
            audit_ledgers.apply_async(kwargs={"cluster_id": pk}, expires=EXPIRES_BY_DAY)
        return
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None:
        keeping.check(cluster=cluster, now=timezone.now())


@shared_task(name="claims.tasks.sweep", ignore_result=True)
def sweep(cluster_id: int | None = None) -> None:
    """Remove what requests that are over left behind; without an id, on every cluster in its own task."""
    if access.only_looks():
        return
    if cluster_id is None:
        for pk in Cluster.objects.filter(enabled=True).values_list("pk", flat=True):
            sweep.apply_async(kwargs={"cluster_id": pk}, expires=EXPIRES)
        return
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None:
        # A cluster that does not answer is asked again at the next beat.
        with suppress(ClusterError):
            sweeping.sweep(cluster=cluster, now=timezone.now())


@shared_task(name="claims.tasks.pursue", ignore_result=True)
def pursue(request_id: int) -> None:
    """Do on the cluster what is due for one request."""
    if access.only_looks():
        # It stays due.
        return
    pursuit.pursue(
        request_id=request_id,
        now=timezone.now(),
        hold_image=settings.HOLD_IMAGE,
        hold_terms=HoldTerms(
            pull_secret=settings.HOLD_PULL_SECRET,
            priority_class=settings.HOLD_PRIORITY_CLASS,
            tolerations=settings.HOLD_TOLERATIONS,
        ),
    )


@shared_task(name="claims.tasks.remind", ignore_result=True)
def remind() -> None:
    """Remind people of what ends soon, and of what they hold and do not use; the latter may end it."""
    now = timezone.now()
    reminders.remind(now=now)
    if not access.only_looks():
        idle.look(now=now)


@shared_task(name="claims.tasks.look_for_free", ignore_result=True)
def look_for_free() -> None:
    """Tell those who wait for a device that one is free."""
    watches.look(now=timezone.now())


@shared_task(name="claims.tasks.keep_quotas", ignore_result=True)
def keep_quotas() -> None:
    """Watch the quotas of all projects, and write what clusters are to enforce."""
    now = timezone.now()
    quotas_watch.watch(now=now)
    quotas_cluster.plan(now=now)
    if not access.only_looks():
        for pk in quotas_writing.due(now):
            write_quota.apply_async(kwargs={"object_id": pk}, expires=EXPIRES)


@shared_task(name="claims.tasks.write_quota", ignore_result=True)
def write_quota(object_id: int) -> None:
    """Bring one ResourceQuota of the desk to what is wanted."""
    if not access.only_looks():
        quotas_writing.write(object_id=object_id, now=timezone.now())


@shared_task(name="claims.tasks.start_bookings", ignore_result=True)
def start_bookings() -> None:
    """Start what was booked for now, each booking in a task of its own."""
    if not access.only_looks():
        for pk in bookings_start.due(timezone.now()):
            start_booking.apply_async(kwargs={"booking_id": pk}, expires=EXPIRES)


@shared_task(name="claims.tasks.start_booking", ignore_result=True)
def start_booking(booking_id: int) -> None:
    """Start one booking, or note why it cannot be started yet."""
    bookings_start.start(booking_id=booking_id, now=timezone.now())


def coalesce_key(cluster_id: int) -> str:
    """Cache key that is set while a catch-up of the cluster is queued."""
    return f"claims:catch-up:{cluster_id}"


def queue(task: Any, **kwargs: Any) -> None:
    """Put a task into the queue, to be run at once or not at all."""
    task.apply_async(kwargs=kwargs, expires=EXPIRES)
