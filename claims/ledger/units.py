"""Units of Device Plugins in the ledger: how many a Pod had, from when it was scheduled until it finished.

Nobody can say which units they were; what they were is told by the labels of the node at that time. A unit
that several Pods share a piece of hardware with (time-slicing, MPS) counts as that part of it. Resources that
a claim served, which the scheduler made for the Pod, are the claim's and not counted here again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from claims.ledger.bounds import Policies, end_of, start_of
from claims.ledger.terms import (
    EXTENDED,
    FINISHED,
    POD_DETAILED,
    SCHEDULED,
    UNITS,
    DeviceKey,
    Event,
    Interval,
    Stay,
)

# A Pod is scheduled once.
EPOCH = 1
MOST = 2**31 - 1
# As long as the ledger's columns.
_SHORT, _LONG = 63, 130


def fold_pod(uid: str, events: Sequence[Event], policies: Policies) -> tuple[list[Interval], list[Stay]]:
    """The intervals of one Pod, one per resource, and its own stay; nothing where it was never scheduled or
    has no units."""
    scheduled = min(
        (event for event in events if event.kind == SCHEDULED), key=lambda e: (e.latest, e.key), default=None
    )
    if scheduled is None:
        return [], []
    counts = _counts(scheduled, events)
    if not counts:
        return [], []
    bound = policies.at(scheduled.latest)
    start = start_of(scheduled.latest, scheduled.uncertainty, bound=bound)
    ends = [event for event in events if event.kind == FINISHED]
    end, source, uncertainty_us = None, "", 0
    if ends:
        last = min(ends, key=lambda event: (event.earliest, event.key))
        end, uncertainty = end_of(last.earliest, last.latest, start=start, before=None, bound=bound)
        source, uncertainty_us = last.source, uncertainty // timedelta(microseconds=1)
    told = _told(scheduled, events)
    node = str(scheduled.facts.get("node") or "")
    intervals = [
        Interval(
            claim_uid=uid,
            epoch=EPOCH,
            namespace=scheduled.namespace,
            claim_name=scheduled.name,
            device=_key(resource, node),
            node=node,
            start=start,
            start_source=scheduled.source,
            start_uncertainty_us=scheduled.uncertainty_us,
            end=end,
            end_source=source,
            end_uncertainty_us=uncertainty_us,
            facts={"product": told[resource].get("product") or ""} if resource in told else {},
            kind=UNITS,
            units=counts[resource],
            replicas=_whole(told.get(resource, {}).get("replicas")) or 1,
            extended_resource=resource,
            bound=bound,
        )
        for resource in sorted(counts)
    ]
    stay = Stay(
        claim_uid=uid, epoch=EPOCH, resource="pods", name=scheduled.name, uid=uid, joined=start, left=end
    )
    return intervals, [stay]


def _counts(scheduled: Event, events: Sequence[Event]) -> dict[str, int]:
    """How many units of each resource, without those that a claim served."""
    served = {
        resource
        for event in events
        if event.kind == EXTENDED and event.facts.get("pod") == event.uid
        for resource in (event.facts.get("resources") or {}).values()
    }
    asked: Mapping[str, Any] = scheduled.facts.get("extended") or {}
    counts = {resource: _whole(count) for resource, count in asked.items() if resource not in served}
    return {resource: count for resource, count in counts.items() if count}


def _told(scheduled: Event, events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """What is known of each resource's units; what was known first is not contradicted."""
    later = sorted((e for e in events if e.kind == POD_DETAILED), key=lambda e: (e.observed_at, e.key))
    found: dict[str, dict[str, Any]] = {}
    for event in (scheduled, *later):
        for unit in event.facts.get("units") or ():
            found.setdefault(str(unit.get("resource")), unit)
    return found


def _key(resource: str, node: str) -> DeviceKey:
    domain, _, name = resource.partition("/")
    if len(resource) > _LONG:
        resource = f"{resource[: _LONG - 33]}#{hashlib.sha256(resource.encode()).hexdigest()[:32]}"
    return DeviceKey(driver=domain[:_SHORT], pool=node, device=name[:_SHORT], share_id="", request=resource)


def _whole(count: object) -> int:
    try:
        return min(max(int(str(count)), 0), MOST)
    except ValueError:
        return 0
