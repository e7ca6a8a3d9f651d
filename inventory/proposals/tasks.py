"""Celery's side of the roll-out: one task per proposal, woken by its approval and by beat."""

import logging
import uuid
from typing import Any

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from inventory.proposals import roll_out
from portal import access

log = logging.getLogger(__name__)
# Beat asks again by then.
EXPIRES = 15


@shared_task(name="inventory.proposals.tasks.roll_out_due", ignore_result=True)
def roll_out_due() -> None:
    """Start a runner for every proposal that has none: new ones, and those whose runner died."""
    if access.only_looks():
        return
    for pk in roll_out.due(now=timezone.now()).values_list("pk", flat=True):
        roll_out_proposal.apply_async(kwargs={"proposal_id": pk}, expires=EXPIRES)


@shared_task(name="inventory.proposals.tasks.roll_out_proposal", ignore_result=True)
def roll_out_proposal(proposal_id: int) -> None:
    """Roll a proposal out, step by step, unless somebody else does."""
    runner = str(uuid.uuid4())
    while roll_out.advance(proposal_id=proposal_id, runner=runner, now=timezone.now()):
        pass


def on_approved(*, proposal_id: int, **_kwargs: Any) -> None:
    """Begin now rather than with the next beat. A queue that cannot be reached stops nobody."""
    try:
        roll_out_proposal.apply_async(kwargs={"proposal_id": proposal_id})
    except (OperationalError, RedisError, OSError) as error:
        log.warning("queue unreachable: roll out proposal %s: %s", proposal_id, error)
