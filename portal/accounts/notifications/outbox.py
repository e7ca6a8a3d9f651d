"""Delivering what the outbox holds: at least once, with the same message id at every attempt.

A worker takes a delivery by compare-and-set on its lease; one that dies in the middle leaves it to the next
as soon as the lease is over. What a receiver gets twice carries the same id. Between attempts the pauses
grow; after the last one the message is given up, with the reason kept for its owner.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop

from portal.accounts.models import Delivery
from portal.accounts.notifications import turns
from portal.accounts.notifications.kinds import COLLECTED, Channel
from portal.accounts.notifications.texts import Text

State = Delivery.State

# Longer than any attempt takes: see `calling.WHOLE_SECONDS` and EMAIL_TIMEOUT.
LEASE = timedelta(minutes=3)
PAUSES = (
    timedelta(seconds=10),
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
    timedelta(hours=12),
)
ATTEMPTS = len(PAUSES) + 1
# A beat comes again in seconds; what one hands to the workers is bounded.
AT_ONCE = 200


def due(*, now: datetime, limit: int = AT_ONCE) -> list[int]:
    """Deliveries that somebody should take now, at most so many mails and so many calls."""
    return turns.in_turn(_free(now), now=now, limit=limit)


def take(pk: int, *, now: datetime) -> Delivery | None:
    """The delivery, ours until the lease is over; None when another worker has it, it is not due, or its
    address rests."""
    if turns.resting(pk, now=now):
        return None
    if not _free(now).filter(pk=pk).update(leased_until=now + LEASE):
        return None
    return Delivery.objects.select_related(
        "notification__person", "notification__project", "webhook__person", "webhook__project"
    ).get(pk=pk)


def take_with_others(first: Delivery, *, now: datetime) -> list[Delivery]:
    """A mail that we have taken, with the other reminders that wait for the same person and go along. Those
    that an earlier attempt had sent as one stay together."""
    if first.kind not in COLLECTED:
        return [first]
    batch = first.batch or uuid.uuid4()
    others = _unleased(now).filter(channel=Channel.MAIL, person=first.person_id, kind__in=COLLECTED)
    others = others.filter(batch=batch) if first.batch else others.filter(batch=None)
    others.exclude(pk=first.pk).update(leased_until=now + LEASE, batch=batch)
    Delivery.objects.filter(pk=first.pk).update(batch=batch)
    rows = Delivery.objects.filter(batch=batch, state=State.PENDING, leased_until=now + LEASE)
    return list(rows.select_related("notification__person", "notification__project").order_by("pk"))


def succeeded(rows: Sequence[Delivery], *, now: datetime, status: int | None = None) -> None:
    """They arrived."""
    _finish(rows, State.SENT, now=now, status_code=status, error=None)


def skipped(rows: Sequence[Delivery], *, now: datetime, why: Text) -> None:
    """Nobody wants them any more."""
    _finish(rows, State.SKIPPED, now=now, error=why.as_json())


def failed(
    rows: Sequence[Delivery], *, now: datetime, why: Text, status: int | None = None, final: bool = False
) -> bool:
    """They did not arrive: again later, or never. Returns whether they are given up."""
    given_up = final or any(row.attempts + 1 >= ATTEMPTS for row in rows)
    if given_up:
        _finish(rows, State.DEAD, now=now, status_code=status, error=why.as_json())
        return True
    for row in rows:
        Delivery.objects.filter(pk=row.pk, state=State.PENDING).update(
            attempts=row.attempts + 1,
            due_at=now + PAUSES[row.attempts],
            leased_until=None,
            status_code=status,
            error=why.as_json(),
        )
    return False


def again(delivery: Delivery, *, now: datetime) -> bool:
    """Somebody wants another attempt at what was given up or skipped, at once. Returns whether there is one;
    what is on its way is only hurried."""
    fields = {"state": State.PENDING, "due_at": now, "finished_at": None, "error": None}
    stopped = Delivery.objects.filter(pk=delivery.pk, state__in=[State.DEAD, State.SKIPPED])
    if stopped.update(attempts=0, leased_until=None, **fields):
        return True
    waiting = Delivery.objects.filter(pk=delivery.pk, state=State.PENDING, due_at__gt=now)
    return bool(waiting.update(due_at=now))


def gone() -> Text:
    """Why something is skipped whose receiver has gone."""
    return Text(gettext_noop("Whom it was for can no longer be reached this way."))


# --- inside ---------------------------------------------------------------------------------------


def _unleased(now: datetime) -> "QuerySet[Delivery]":
    return Delivery.objects.filter(Q(leased_until=None) | Q(leased_until__lte=now), state=State.PENDING)


def _free(now: datetime) -> "QuerySet[Delivery]":
    return _unleased(now).filter(due_at__lte=now)


def _finish(rows: Sequence[Delivery], state: str, *, now: datetime, **columns: object) -> None:
    for row in rows:
        Delivery.objects.filter(pk=row.pk, state=State.PENDING).update(
            state=state, attempts=row.attempts + 1, due_at=None, leased_until=None, finished_at=now, **columns
        )
