"""Consumers that come and go: `reservedFor` is debounced, `allocation` never is.

Controllers take a consumer out of `reservedFor` and put it back within moments. A departure therefore counts
once the consumer has stayed away for a while, or its allocation has ended; it counts from when it was seen.
Meanwhile it is kept on the claim's row, so that it survives a follower.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from inventory.mirror.turn import Kind, Moment, Source, Turn, parse_time
from inventory.models import Claim

# How long a consumer may be away without having left.
PATIENCE = timedelta(seconds=5)


def begin(turn: Turn, row: Claim, consumers: Mapping[str, Mapping[str, str]]) -> None:
    """These consumers are no longer named by the claim."""
    moment = turn.observed()
    for uid, consumer in consumers.items():
        row.leaving = row.leaving | {
            uid: {
                "consumer": dict(consumer),
                "at": moment.at.isoformat(),
                "uncertainty_us": moment.uncertainty // timedelta(microseconds=1),
                "version": row.resource_version,
            }
        }
    _settle(row)


def forget(row: Claim, present: Iterable[str]) -> set[str]:
    """These consumers are (still, or again) named by the claim; those that were leaving have not left."""
    back: set[str] = set(row.leaving) & set(present)
    if back:
        row.leaving = {uid: entry for uid, entry in row.leaving.items() if uid not in back}
        _settle(row)
    return back


def end(turn: Turn, row: Claim, *, before: datetime | None = None) -> None:
    """Note the departures that began `before` (all, if None)."""
    due = {uid: entry for uid, entry in row.leaving.items() if before is None or _at(turn, entry) <= before}
    for _, entry in sorted(due.items()):
        uncertainty = timedelta(microseconds=int(entry.get("uncertainty_us", 0)))
        moment = Moment(_at(turn, entry), Source.OBSERVED, uncertainty)
        note(turn, Kind.CONSUMER_LEFT, row, entry["consumer"], moment, version=entry["version"])
    row.leaving = {uid: entry for uid, entry in row.leaving.items() if uid not in due}
    _settle(row)


def settle(turn: Turn) -> None:
    """Note all departures of the cluster that have lasted."""
    before = turn.now - PATIENCE
    rows = list(Claim.objects.filter(cluster_id=turn.cluster_id, leaving_since__lte=before))
    for row in rows:
        end(turn, row, before=before)
    if rows:
        Claim.objects.bulk_update(rows, ["leaving", "leaving_since"], batch_size=200)


def any_due(cluster_id: int) -> bool:
    """Whether some consumer is leaving."""
    return Claim.objects.filter(cluster_id=cluster_id, leaving_since__isnull=False).exists()


def note(
    turn: Turn, kind: Kind, row: Claim, consumer: Mapping[str, Any], moment: Moment, *, version: str = ""
) -> None:
    """A consumer joined or left the present allocation of a claim."""
    what = "joined" if kind == Kind.CONSUMER_JOINED else "left"
    turn.observe(
        kind,
        # A consumer may leave and come back within one allocation, so the version is part of the fact.
        key=f"claim/{row.uid}/{row.epoch}/{consumer['uid']}/{what}/{version or row.resource_version}",
        moment=moment,
        namespace=row.namespace,
        name=row.name,
        uid=row.uid,
        facts={"epoch": row.epoch, "consumer": dict(consumer)},
    )


def _at(turn: Turn, entry: Mapping[str, Any]) -> datetime:
    return parse_time(entry.get("at")) or turn.now


def _settle(row: Claim) -> None:
    times = [at for entry in row.leaving.values() if (at := parse_time(entry.get("at"))) is not None]
    row.leaving_since = min(times, default=None)
