"""Celery tasks: asking the Prometheus of each cluster in a task of its own: a slow one holds up none."""

from celery import shared_task
from django.utils import timezone

from inventory.telemetry import reading
from inventory.telemetry.signals import read as was_read

# The next beat asks again.
EXPIRES = 55


@shared_task(name="inventory.telemetry.tasks.read", ignore_result=True)
def read(source_id: int | None = None) -> None:
    """Ask every source that is due, or one."""
    if source_id is None:
        reading.forget_orphans(now=timezone.now())
        for pk in reading.due(now=timezone.now()):
            read.apply_async(kwargs={"source_id": pk}, expires=EXPIRES)
        return
    if reading.read(source_id=source_id, now=timezone.now()):
        was_read.send(sender=None, source_id=source_id)
