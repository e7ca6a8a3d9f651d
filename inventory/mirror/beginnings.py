"""When the allocation of a claim began, and which of its allocations it is."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from inventory.mirror.turn import Kind, Moment, Source, Turn, parse_time
from inventory.models import ArchivedObject, Observation
from portal.dra import model as dra
from portal.sql import chunks

# The cluster's times are whole seconds, ours are not: what is less apart may be in either order.
CLOCK_STEP = timedelta(seconds=2)


def of(
    turn: Turn,
    status: dra.ResourceClaimStatus,
    *,
    created: datetime | None,
    written_at: datetime | None,
    ended: datetime | None,
    scheduled: Mapping[str, datetime],
) -> Moment:
    """The best answer to when the present allocation was made. `created` is when the claim was, `written_at`
    the time of the write of the status, `ended` when the claim's allocation before this one ended,
    `scheduled` when Pods were, by uid."""
    told = _told(turn, status, written_at=written_at, scheduled=scheduled)
    if created is not None:
        # Nothing is allocated before it exists: a copy of a claim may tell of the allocation of the original.
        if told.at < created:
            told = Moment(created, Source.CREATION)
        told = replace(told, uncertainty=min(told.uncertainty, told.at - created))
    if ended is None or told.at > ended - CLOCK_STEP:
        return told
    # An allocation that had ended is there again, as a backup of the cluster knew it: it did not last
    # meanwhile, and nobody can say when it came back.
    now = turn.observed()
    return Moment(now.at, now.source, max(now.at - ended, now.uncertainty))


def _told(
    turn: Turn,
    status: dra.ResourceClaimStatus,
    *,
    written_at: datetime | None,
    scheduled: Mapping[str, datetime],
) -> Moment:
    """When the present allocation was made, as the cluster tells."""
    stamp = parse_time(status.allocation.allocation_timestamp) if status.allocation else None
    if stamp is not None:
        return Moment(stamp, Source.ALLOCATION)
    observed = turn.observed()
    earliest = observed.at - observed.uncertainty
    if written_at is not None:
        # The entry's time is that of its last write: a later one (another consumer) may have moved it.
        return Moment(written_at, Source.MANAGED_FIELDS, _width(turn, written_at, earliest))
    times = [at for c in status.reserved_for if (at := scheduled.get(c.uid)) is not None]
    if times:
        return Moment(min(times), Source.POD, _width(turn, min(times), earliest))
    return observed


def _width(turn: Turn, at: datetime, earliest: datetime) -> timedelta:
    return max(at - earliest, timedelta(0)) if turn.since is not None else timedelta(0)


def epochs(turn: Turn, uids: set[str]) -> dict[str, int]:
    """The last epoch ever observed of claims that have no row."""
    found: dict[str, int] = {}
    for some in chunks(uids):
        seen = Observation.objects.filter(
            cluster_id=turn.cluster_id, kind=Kind.CLAIM_ALLOCATED, uid__in=some
        ).values_list("uid", "facts")
        archived = ArchivedObject.objects.filter(archive__cluster=turn.cluster_id, uid__in=some)
        epochs = [(uid, int(facts.get("epoch", 0))) for uid, facts in seen]
        for uid, epoch in (*epochs, *archived.values_list("uid", "epoch")):
            found[uid] = max(found.get(uid, 0), epoch)
    return found


def ended(turn: Turn, uids: set[str]) -> dict[str, datetime]:
    """When the last allocation ended, as it was observed, of claims that had one and have none; by the end
    of its month at the latest where all that is archived."""
    found: dict[str, datetime] = {}
    kinds = (Kind.CLAIM_RELEASED, Kind.CLAIM_DELETED)
    for some in chunks(uids):
        ends = Observation.objects.filter(cluster_id=turn.cluster_id, kind__in=kinds, uid__in=some)
        for uid, at in ends.values_list("uid", "at"):
            found[uid] = max(found.get(uid, at), at)
        archived = ArchivedObject.objects.filter(archive__cluster=turn.cluster_id, epoch__gt=0)
        last = archived.filter(uid__in=[uid for uid in some if uid not in found]).order_by("archive__month")
        for uid, month in last.values_list("uid", "archive__month"):
            found[uid] = _after(month)
    return found


def _after(month: str) -> datetime:
    """The first instant after a month in UTC, such as "2026-09"."""
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
