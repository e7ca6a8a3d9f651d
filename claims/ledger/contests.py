"""One exclusive device, one holder at a time: what becomes of intervals that overlap.

Two neighbours overlap by a moment where clocks differ, or a time has whole seconds only: then the first one
ends where the next begins, and how much was cut off is kept. Any more than that, and two holders were
observed, which should not be: the later one is marked as contested, both stay, and the audit names them.

What becomes of an interval is a function of it and of the others of its device *as they were folded*. So it
does not matter in which order they come, and only neighbours of what changed need to be looked at.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q

from claims.history.curves import us
from claims.ledger.bounds import OPERATOR
from claims.models import Allocation
from inventory.models import Cluster

# Times in the API have whole seconds, and a clock that differs by less than two is not corrected for.
TOLERANCE = timedelta(seconds=3)
DeviceName = tuple[str, str, str]
NOTHING = timedelta(0)


@dataclass(frozen=True, kw_only=True)
class Held:
    """One exclusive interval as it was folded; `pk` None = it is not stored yet."""

    device: DeviceName
    # Natural key within its cluster, by which contests are decided among equals.
    key: tuple[Any, ...]
    start: datetime
    end: datetime | None
    start_uncertainty: timedelta
    end_uncertainty: timedelta
    bound: str

    @property
    def order(self) -> tuple[Any, ...]:
        return (self.start, self.key)

    def tolerance(self, after: "Held") -> timedelta:
        """By how much it may overlap with the one after it without a contradiction."""
        # In the operator's favour ends are late and starts are early, by what is uncertain.
        mine = self.end_uncertainty if self.bound == OPERATOR else NOTHING
        theirs = after.start_uncertainty if after.bound == OPERATOR else NOTHING
        return TOLERANCE + mine + theirs


@dataclass(frozen=True)
class Verdict:
    """`cut` is taken off the end."""

    cut: timedelta = NOTHING
    contested: bool = False


SOUND = Verdict()


def judge(intervals: Iterable[Held]) -> dict[tuple[Any, ...], Verdict]:
    """The verdicts of all intervals that do not stay as they are, by key."""
    by_device: dict[DeviceName, list[Held]] = defaultdict(list)
    for interval in intervals:
        # What took no time holds nothing.
        if interval.end is None or interval.end > interval.start:
            by_device[interval.device].append(interval)
    verdicts: dict[tuple[Any, ...], Verdict] = {}
    for held in by_device.values():
        held.sort(key=lambda one: one.order)
        contested: set[tuple[Any, ...]] = set()
        cuts: dict[tuple[Any, ...], timedelta] = {}
        for index, one in enumerate(held):
            for after in held[index + 1 :]:
                if one.end is not None and after.start >= one.end:
                    break
                if one.end is not None and one.end - after.start <= one.tolerance(after):
                    cuts[one.key] = max(cuts.get(one.key, NOTHING), one.end - after.start)
                else:
                    contested.add(after.key)
        for key in cuts.keys() | contested:
            verdicts[key] = Verdict(cuts.get(key, NOTHING), key in contested)
    return verdicts


def is_exclusive(row: Allocation) -> bool:
    """Whether it excludes others from its device."""
    return row.kind == Allocation.Kind.CLAIM and not row.share_id and not row.admin_access


def device_of(row: Allocation) -> DeviceName:
    return row.driver, row.pool_name, row.device_name


def as_held(row: Allocation, key: tuple[Any, ...]) -> Held:
    """A row as it was folded: stored or about to be."""
    end = row.ended_at
    return Held(
        device=device_of(row),
        key=key,
        start=row.started_at,
        end=None if end is None else end + timedelta(microseconds=row.end_cut_us),
        start_uncertainty=timedelta(microseconds=row.start_uncertainty_us),
        end_uncertainty=timedelta(microseconds=row.end_uncertainty_us),
        bound=row.bound,
    )


def neighbours(
    *, cluster: Cluster, intervals: Sequence[Held], without: Sequence[str]
) -> Sequence[Allocation]:
    """Stored exclusive rows that overlap with these intervals, but those of the claims `without`."""
    spans = _spans(intervals)
    if not spans:
        return []
    lowest = min(low for low, _high in spans.values())
    highs = [high for _low, high in spans.values()]
    rows = Allocation.objects.filter(
        # Never ended, or ended (before anything was cut off) after the first of these began.
        Q(ended_us=None) | Q(ended_us__gt=us(lowest) - F("end_cut_us")),
        cluster=cluster,
        kind=Allocation.Kind.CLAIM,
        share_id="",
        admin_access=False,
        driver__in={driver for driver, _, _ in spans},
        pool_name__in={pool for _, pool, _ in spans},
        device_name__in={device for _, _, device in spans},
    )
    if None not in highs:
        rows = rows.filter(started_at__lt=max(high for high in highs if high is not None))
    left_out = set(without)
    found = []
    for row in rows.only(*_COLUMNS).iterator(chunk_size=2_000):
        span = spans.get(device_of(row))
        if span is None or row.claim_uid in left_out:
            continue
        low, high = span
        end = None if row.ended_at is None else row.ended_at + timedelta(microseconds=row.end_cut_us)
        if (end is None or end > low) and (high is None or row.started_at < high):
            found.append(row)
    return found


_COLUMNS = (
    *("claim_uid", "epoch", "driver", "pool_name", "device_name", "share_id", "request_name", "kind"),
    *("admin_access", "started_at", "start_uncertainty_us", "ended_at", "end_uncertainty_us", "bound"),
    *("end_cut_us", "contested"),
)


def _spans(intervals: Iterable[Held]) -> Mapping[DeviceName, tuple[datetime, datetime | None]]:
    spans: dict[DeviceName, tuple[datetime, datetime | None]] = {}
    for one in intervals:
        low, high = spans.get(one.device, (one.start, one.end))
        spans[one.device] = (
            min(low, one.start),
            None if high is None or one.end is None else max(high, one.end),
        )
    return spans
