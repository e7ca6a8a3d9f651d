"""The fold: observations of claims and Pods in, intervals out. Pure and independent of order and duplicates.

An interval belongs to (claim uid, epoch): a claim lives through several allocations. All observations of one
epoch are reduced to one start and one end, each the *smallest* by a total order, so that neither the order
of arrival nor a repeated or a contradicting later observation changes the outcome. Pods have intervals of
their own for the units of Device Plugins (`units`). Which bound of an uncertain time counts is a policy
(`bounds`).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from claims.ledger import units
from claims.ledger.bounds import TENANTS, Policies, end_of, start_of
from claims.ledger.terms import (
    ALLOCATED,
    DETAILED,
    ENDS,
    EXTENDED,
    JOINED,
    KINDS,
    LEFT,
    OF_CLAIMS,
    OF_PODS,
    DeviceKey,
    Event,
    Folded,
    Interval,
    Stay,
)

__all__ = ["KINDS", "DeviceKey", "Event", "Folded", "Interval", "Stay", "fold"]


def fold(events: Iterable[Event], *, policies: Policies = TENANTS) -> Folded:
    """Intervals and stays of all claims and Pods that `events` tell of, in a fixed order.

    `events` must hold *all* observations of each claim or Pod in it, in any order and any number of times. An
    end without a start gives nothing (there is no device to speak of); an epoch that is followed by the next
    one without an observed end ends when the next one starts, at the latest.
    """
    by_claim: dict[str, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    by_pod: dict[str, list[Event]] = defaultdict(list)
    resources: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events:
        if event.kind in OF_PODS:
            by_pod[event.uid].append(event)
        if event.kind == EXTENDED and event.facts.get("claim") == event.uid:
            for request, resource in (event.facts.get("resources") or {}).items():
                # Should two contradict each other, any order tells the same.
                resources[event.uid][request] = min(resource, resources[event.uid].get(request, resource))
        elif event.kind in OF_CLAIMS and event.epoch > 0:
            by_claim[event.uid][event.epoch].append(event)
    intervals: list[Interval] = []
    stays: list[Stay] = []
    for uid in sorted(by_claim):
        claim_intervals, claim_stays = _fold_claim(uid, by_claim[uid], resources.get(uid, {}), policies)
        intervals += claim_intervals
        stays += claim_stays
    for uid in sorted(by_pod):
        pod_intervals, pod_stays = units.fold_pod(uid, by_pod[uid], policies)
        intervals += pod_intervals
        stays += pod_stays
    return Folded(intervals=tuple(intervals), stays=tuple(stays))


@dataclass(frozen=True, kw_only=True)
class _Span:
    """Start and end of one epoch."""

    allocated: Event
    # What became known of devices later on, in a fixed order.
    details: tuple[dict[str, Any], ...]
    start: datetime
    bound: str
    end: datetime | None = None
    end_source: str = ""
    end_uncertainty_us: int = 0


def _fold_claim(
    uid: str, epochs: dict[int, list[Event]], resources: dict[str, str], policies: Policies
) -> tuple[list[Interval], list[Stay]]:
    intervals: list[Interval] = []
    stays: list[Stay] = []
    next_start: datetime | None = None
    # Backwards, because an epoch may need the start of the next one as its bound.
    for epoch in sorted(epochs, reverse=True):
        span = _span(epochs[epoch], next_start=next_start, policies=policies)
        if span is None:
            continue
        next_start = span.start
        intervals = _intervals(uid, epoch, span, resources) + intervals
        stays = _stays(uid, epoch, epochs[epoch], span) + stays
    return intervals, stays


def _span(events: list[Event], *, next_start: datetime | None, policies: Policies) -> _Span | None:
    starts = [event for event in events if event.kind == ALLOCATED]
    if not starts:
        return None
    allocated = min(starts, key=lambda event: (event.latest, event.key))
    bound = policies.at(allocated.latest)
    start = start_of(allocated.latest, allocated.uncertainty, bound=bound)
    later = sorted((event for event in events if event.kind == DETAILED), key=lambda event: event.key)
    details = tuple(event.facts.get("device") or {} for event in later)
    span = _Span(allocated=allocated, details=details, start=start, bound=bound)
    ends = [event for event in events if event.kind in ENDS]
    if ends:
        last = min(ends, key=lambda event: (event.earliest, event.key))
        low, high, source = last.earliest, last.latest, last.source
    elif next_start is not None:
        # The release was not seen: somewhere before the next allocation. Nobody can say more.
        low = max((e.observed_at for e in events if e.observed_at <= next_start), default=start)
        high, source = next_start, "observed"
    else:
        return span
    end, uncertainty = end_of(low, high, start=start, before=next_start, bound=bound)
    return replace(span, end=end, end_source=source, end_uncertainty_us=_microseconds(uncertainty))


def _microseconds(delta: timedelta) -> int:
    return delta // timedelta(microseconds=1)


def _intervals(uid: str, epoch: int, span: _Span, resources: dict[str, str]) -> list[Interval]:
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
            extended_resource=resources.get(key.request.partition("/")[0], ""),
            bound=span.bound,
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
            left[consumer["uid"]] = event.earliest
    stays = []
    for consumer_uid, event in sorted(joined.items()):
        consumer = event.facts["consumer"]
        start = max(span.start, event.latest)
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
                containers=consumer.get("containers"),
            )
        )
    return stays
