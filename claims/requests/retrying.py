"""Work on a cluster that could not be done yet: when it is tried again, and what its page says meanwhile."""

from datetime import datetime, timedelta

from claims.models import Request
from portal.kube import errors

FIRST_RETRY = timedelta(seconds=5)
LAST_RETRY = timedelta(minutes=5)
# How soon to look again after asking for a deletion that has to finish first.
AGAIN = timedelta(seconds=2)


def backoff(attempts: int) -> timedelta:
    """How long to wait after the given number of failures: 5 s, 10 s, 20 s, … at most five minutes."""
    factor: int = 2 ** min(attempts, 10)
    return min(FIRST_RETRY * factor, LAST_RETRY)


def try_later(request: Request, error: errors.ClusterError, *, now: datetime) -> None:
    """The cluster did not answer as it should: say so, and try again after a while."""
    wait = backoff(request.attempts)
    if error.retry_after:
        wait = max(wait, timedelta(seconds=error.retry_after))
    Request.objects.filter(pk=request.pk, state=request.state).update(
        reason=Request.Reason.RETRYING, message=error.message
    )
    due_again(request, at=now + wait)


def look_again(request: Request, *, now: datetime) -> None:
    """What was asked for takes its time: look again soon, then less and less often."""
    due_again(request, at=now + min(AGAIN + backoff(request.attempts) - FIRST_RETRY, LAST_RETRY))


def due_again(request: Request, *, at: datetime) -> None:
    """There is work for the request at that time, if it is still in the same state."""
    Request.objects.filter(pk=request.pk, state=request.state).update(
        due_at=at, attempts=request.attempts + 1
    )
