"""The fold: observations of claims in, intervals out. Pure and independent of order and of duplicates.

An interval belongs to (claim uid, epoch): a claim lives through several allocations. All observations of one
epoch are reduced to one start and one end, each the *smallest* by a total order, so that neither the order
of arrival nor a repeated or a contradicting later observation changes the outcome.

Which bound counts (the default of `DESIGN.md` §4, in the tenant's favour): an observation at `at` with
`uncertainty` happened within [at - uncertainty, at]. A start counts from its later bound, an end from its
earlier one, never before the start.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

ALLOCATED = "claim-allocated"
ENDS = ("claim-released", "claim-deleted")
JOINED = "consumer-joined"
LEFT = "consumer-left"
# Completes what the allocation says of one device; never contradicts it.
DETAILED = "allocation-detailed"
KINDS = (ALLOCATED, *ENDS, JOINED, LEFT, DETAILED)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One observation of a claim, as stored."""

    key: str
    kind: str
    at: datetime
    source: str
    uncertainty_us: int = 0
    observed_at: datetime
    namespace: str
    name: str
    uid: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        return int(self.facts.get("epoch", 0))


@dataclass(frozen=True, kw_only=True, order=True)
class DeviceKey:
    """What tells apart the intervals of one (claim, epoch)."""

    driver: str
    pool: str
    device: str
    share_id: str
    request: str


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One device (or share of it) held by one claim for [start, end); `end` None = still held."""

    claim_uid: str
    epoch: int
    namespace: str
    claim_name: str
    device: DeviceKey
    node: str
    start: datetime
    start_source: str
    start_uncertainty_us: int
    end: datetime | None
    end_source: str
    end_uncertainty_us: int
    # Everything else that was known of the device when it was allocated, as observed.
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Stay:
    """A consumer's time at an allocation, for information; `left` None = still there."""

    claim_uid: str
    epoch: int
    resource: str
    name: str
    uid: str
    joined: datetime
    left: datetime | None


@dataclass(frozen=True, kw_only=True)
class Folded:
    intervals: tuple[Interval, ...]
    stays: tuple[Stay, ...]


def fold(events: Iterable[Event]) -> Folded:
    """Intervals and stays of all claims that `events` tell of, in a fixed order.

    `events` must hold *all* observations of each claim in it, in any order and any number of times. An end
    without a start gives nothing (there is no device to speak of); an epoch that is followed by the next
    one without an observed end ends when the next one starts, at the latest.
    """
    by_claim: dict[str, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        if event.kind in KINDS and event.epoch > 0:
            by_claim[event.uid][event.epoch].append(event)
    intervals: list[Interval] = []
    stays: list[Stay] = []
    for uid in sorted(by_claim):
        claim_intervals, claim_stays = _fold_claim(uid, by_claim[uid])
        intervals += claim_intervals
        stays += claim_stays
    return Folded(intervals=tuple(intervals), stays=tuple(stays))


@dataclass(frozen=True, kw_only=True)
class _Span:
    """Start and end of one epoch."""

    allocated: Event
    # What became known of devices later on, in a fixed order.
    details: tuple[dict[str, Any], ...]
    start: datetime
    end: datetime | None = None
    end_source: str = ""
    end_uncertainty_us: int = 0


def _fold_claim(uid: str, epochs: dict[int, list[Event]]) -> tuple[list[Interval], list[Stay]]:
    intervals: list[Interval] = []
    stays: list[Stay] = []
    next_start: datetime | None = None
    # Backwards, because an epoch may need the start of the next one as its bound.
    for epoch in sorted(epochs, reverse=True):
        span = _span(epochs[epoch], next_start=next_start)
        if span is None:
            continue
        next_start = span.start
        intervals = _intervals(uid, epoch, span) + intervals
        stays = _stays(uid, epoch, epochs[epoch], span) + stays
    return intervals, stays


def _span(events: list[Event], *, next_start: datetime | None) -> _Span | None:
    starts = [event for event in events if event.kind == ALLOCATED]
    if not starts:
        return None
    allocated = min(starts, key=lambda event: (_start(event), event.key))
    start = _start(allocated)
    later = sorted((event for event in events if event.kind == DETAILED), key=lambda event: event.key)
    details = tuple(event.facts.get("device") or {} for event in later)
    ends = [event for event in events if event.kind in ENDS]
    if ends:
        last = min(ends, key=lambda event: (_earliest(event), event.key))
        end = max(start, _earliest(last))
        latest = max(end, last.at)
        if next_start is not None and end > next_start:
            end = latest = max(start, next_start)
        return _Span(
            allocated=allocated,
            details=details,
            start=start,
            end=end,
            end_source=last.source,
            end_uncertainty_us=_microseconds(latest - end),
        )
    if next_start is not None:
        # The release was not seen: somewhere before the next allocation. Nobody can say more.
        known = max((e.observed_at for e in events if e.observed_at <= next_start), default=start)
        end = max(start, known)
        return _Span(
            allocated=allocated,
            details=details,
            start=start,
            end=end,
            end_source="observed",
            end_uncertainty_us=_microseconds(max(end, next_start) - end),
        )
    return _Span(allocated=allocated, details=details, start=start)


def _start(event: Event) -> datetime:
    # The scheduler's clock may run ahead of ours; nobody holds a device later than we saw it held.
    return min(event.at, event.observed_at)


def _earliest(event: Event) -> datetime:
    return event.at - timedelta(microseconds=event.uncertainty_us)


def _microseconds(delta: timedelta) -> int:
    return delta // timedelta(microseconds=1)


def _intervals(uid: str, epoch: int, span: _Span) -> list[Interval]:
    found: dict[DeviceKey, dict[str, Any]] = {}
    for device in span.allocated.facts.get("devices", []):
        found.setdefault(_device_key(device), device)
    for detail in span.details:
        key = _device_key(detail)
        if key in found:
            found[key] = detail | {name: value for name, value in found[key].items() if value}
    return [
        Interval(
            claim_uid=uid,
            epoch=epoch,
            namespace=span.allocated.namespace,
            claim_name=span.allocated.name,
            device=key,
            node=span.allocated.facts.get("node") or found[key].get("node") or "",
            start=span.start,
            start_source=span.allocated.source,
            start_uncertainty_us=span.allocated.uncertainty_us,
            end=span.end,
            end_source=span.end_source,
            end_uncertainty_us=span.end_uncertainty_us,
            facts=found[key],
        )
        for key in sorted(found)
    ]


def _device_key(facts: dict[str, Any]) -> DeviceKey:
    return DeviceKey(
        driver=facts.get("driver") or "",
        pool=facts.get("pool") or "",
        device=facts.get("device") or "",
        share_id=facts.get("share_id") or "",
        request=facts.get("request") or "",
    )


def _stays(uid: str, epoch: int, events: list[Event], span: _Span) -> list[Stay]:
    joined: dict[str, Event] = {}
    left: dict[str, datetime] = {}
    for event in sorted(events, key=lambda event: (event.at, event.key)):
        consumer = event.facts.get("consumer") or {}
        if event.kind == JOINED:
            joined.setdefault(consumer["uid"], event)
            # It came back: one stay from the first coming to the last going.
            left.pop(consumer["uid"], None)
        elif event.kind == LEFT:
            left[consumer["uid"]] = _earliest(event)
    stays = []
    for consumer_uid, event in sorted(joined.items()):
        consumer = event.facts["consumer"]
        start = max(span.start, _start(event))
        if span.end is not None:
            start = min(start, span.end)
        ends = [end for end in (left.get(consumer_uid), span.end) if end is not None]
        stays.append(
            Stay(
                claim_uid=uid,
                epoch=epoch,
                resource=consumer.get("resource") or "pods",
                name=consumer.get("name") or "",
                uid=consumer_uid,
                joined=start,
                left=max(start, min(ends)) if ends else None,
            )
        )
    return stays
