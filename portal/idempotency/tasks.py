"""The task that forgets keys after their time."""

from celery import shared_task
from django.utils import timezone

from portal.idempotency import keeping


@shared_task(name="portal.idempotency.tasks.prune", ignore_result=True)
def prune() -> None:
    """Forget keys that no longer hold."""
    keeping.prune(now=timezone.now())
