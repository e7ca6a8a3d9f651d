"""What stands against a change: quotas, what others have booked, and what the cluster says on trial."""

import copy
from datetime import datetime, timedelta

from claims.asks.reading import WHOLE
from claims.asks.values import UnableToSubmit
from claims.bookings.conflicts import Conflict, conflicts, keep_clear, kept_within, words_of
from claims.changes.wanted import TYPED, UnableToChangeRequest, Wanted, place_of
from claims.models import Placement, Request, RequestChange
from claims.quotas import guard as quotas_guard
from claims.requests.making import request_of
from claims.requests.rehearsal import Connect, rehearse


def try_out(change: RequestChange, found: Wanted, *, now: datetime, connect: Connect) -> None:
    """What a new request would be judged by, for a change: quotas, bookings, and the cluster on trial. Raises
    UnableToChangeRequest."""
    request = change.request
    try:
        if found.replaces:
            follower = request_of(found.ask, key=change.key, now=now)
            keep_clear(request=follower, now=now, replaced=replaced_by(change))
            rehearse(follower, connect=connect)
            change.spec = follower.spec
        elif found.more:
            within_limits(request, found.ask.duration, now=now)
    except UnableToSubmit as error:
        names = (*TYPED, WHOLE)
        raise UnableToChangeRequest(
            {(name if name in names else WHOLE): said for name, said in error.errors.items()}
        ) from error


def replaced_by(change: RequestChange) -> Request | None:
    """The request that gives its devices back by itself when the one that takes its place has its own."""
    return place_of(change.request, change.release).get("replaced")


def within_limits(request: Request, duration: timedelta, *, now: datetime) -> None:
    """Quotas and bookings about the time that comes on top. Raises UnableToSubmit. Where it is agreed to it
    is called inside the transaction: a booking made at the same moment is seen."""
    longer = copy.copy(request)
    longer.duration = duration
    for verdict in quotas_guard.verdicts([longer], now=now)[0]:
        if verdict.refuses and verdict.field == "duration":
            raise UnableToSubmit({"duration": [verdict.words]})
    start, end = _on_top(request, duration, now=now)
    if not kept_within(request.cluster, start, end):
        return
    found = booked_on_top(request, duration, now=now)
    if found is not None and found.kept:
        raise UnableToSubmit({"duration": [words_of(found)]})


def booked_on_top(request: Request, duration: timedelta, *, now: datetime) -> Conflict | None:
    """What others have booked of the time that `request` would have in addition if it ran for `duration`, its
    own devices being its own; None = nothing is in the way."""
    start, end = _on_top(request, duration, now=now)
    if request.backend == Request.Backend.PLUGIN or end <= start:
        return None
    placement: Placement | None = Placement(cluster=request.cluster, device_class=request.device_class)
    if request.flavor is not None:
        rows = Placement.objects.filter(flavor=request.flavor, cluster=request.cluster, pool=request.pool)
        placement = rows.select_related("flavor", "cluster").first()
    if placement is None:
        return None
    return conflicts(
        placement=placement,
        count=request.count,
        min_memory=request.min_memory,
        start=start,
        end=end,
        now=now,
        replaced=request,
    )


def _on_top(request: Request, duration: timedelta, *, now: datetime) -> tuple[datetime, datetime]:
    """The span that comes on top; what has not begun is judged like a new request."""
    if request.allocated_at is None or request.expires_at is None:
        return now, now + duration
    return max(now, request.expires_at), request.allocated_at + duration
