"""Celery tasks of the outbox: each loads by id and makes one domain call."""

from celery import shared_task
from django.utils import timezone

from portal.accounts.notifications import inbox, mails, outbox, targets, webhooks
from portal.accounts.notifications.kinds import Channel

# A queued message is worthless once the next beat has queued another.
EXPIRES = 60


@shared_task(name="accounts.tasks.deliver_due", ignore_result=True)
def deliver_due() -> None:
    """Hand out what is due, each to a task of its own: a slow receiver keeps nobody else waiting."""
    for pk in outbox.due(now=timezone.now()):
        deliver.apply_async(kwargs={"delivery_id": pk}, expires=EXPIRES)


@shared_task(name="accounts.tasks.deliver", ignore_result=True)
def deliver(delivery_id: int) -> None:
    """One attempt at one delivery, unless another worker is at it."""
    now = timezone.now()
    delivery = outbox.take(delivery_id, now=now)
    if delivery is None:
        return
    if delivery.channel == Channel.MAIL:
        mails.deliver(delivery, now=now)
    else:
        webhooks.deliver(delivery, now=now, permitted=targets.permitted_hosts())


@shared_task(name="accounts.tasks.prune_notifications", ignore_result=True)
def prune_notifications() -> None:
    """Drop what is too old to be read."""
    inbox.prune(now=timezone.now())
