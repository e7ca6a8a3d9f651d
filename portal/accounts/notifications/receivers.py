"""From the signal to the task queue. A queue that cannot be reached stops nobody: beat asks again soon."""

import logging
from typing import Any

from django.dispatch import receiver
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from portal.accounts.notifications.signals import deliveries_due

log = logging.getLogger(__name__)


@receiver(deliveries_due)
def on_deliveries_due(**_kwargs: Any) -> None:
    """Deliver now rather than with the next beat."""
    from portal.accounts import tasks

    try:
        tasks.deliver_due.apply_async(expires=tasks.EXPIRES)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: deliveries wait for the next beat: %s", error)
