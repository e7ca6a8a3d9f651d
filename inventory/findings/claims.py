"""Claims that keep devices from others: leaked ones, and several that hold one device."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from inventory.findings.facts import FINISHED, ClaimRow, Facts, HoldRow
from inventory.findings.model import NOW, Found
from inventory.models import Severity


def leaked(facts: Facts) -> Iterable[Found]:
    """Claims that hold devices for nobody: deleted but still allocated, reserved by Pods that are gone or
    have finished, or without any consumer."""
    limits = facts.thresholds
    for claim in facts.claims:
        if not claim.allocated:
            continue
        if claim.deleted_at is not None:
            yield _leak(claim, "leak-deleted", limits.claim_deleted, since=claim.deleted_at)
        elif not claim.consumers:
            # It may have had a consumer until a moment ago, so the allocation's age says nothing.
            yield _leak(claim, "leak-unused", limits.claim_unused)
        else:
            lost, finished = _lost(facts, claim)
            if lost:
                yield _leak(claim, "leak-pod-gone", limits.consumer_gone, pods=lost)
            elif len(finished) == len(claim.consumers):
                yield _leak(claim, "leak-pod-finished", limits.consumer_gone, pods=finished)


def _lost(facts: Facts, claim: ClaimRow) -> tuple[list[str], list[str]]:
    """Names of the Pods that reserve the claim and do not exist (any more), or have finished."""
    lost, finished = [], []
    for consumer in claim.consumers:
        if consumer.get("resource") != "pods" or consumer.get("apiGroup"):
            continue
        pod = facts.pods.get(str(consumer.get("uid", "")))
        if pod is None:
            lost.append(str(consumer.get("name", "")))
        elif pod.phase in FINISHED:
            finished.append(pod.name)
    return lost, finished


def _leak(
    claim: ClaimRow, code: str, holds_for: timedelta, *, since: datetime | None = None, **params: Any
) -> Found:
    return Found(
        subject=f"{claim.uid}/{code}",
        object_kind="claim",
        namespace=claim.namespace,
        name=claim.name,
        code=code,
        severity=Severity.BAD,
        params={"claim": f"{claim.namespace}/{claim.name}", **params},
        since=since,
        holds_for=holds_for,
    )


def overlapping(facts: Facts) -> Iterable[Found]:
    """One device, held whole by one claim and also by another. Administrative access is no hold."""
    by_device: dict[tuple[str, str, str], list[HoldRow]] = defaultdict(list)
    for hold in facts.overlaps:
        by_device[hold.driver, hold.pool, hold.device].append(hold)
    for (driver, pool, device), holds in sorted(by_device.items()):
        claims = sorted({f"{hold.namespace}/{hold.claim}" for hold in holds})
        published = next((hold.device_id for hold in holds if hold.device_id is not None), None)
        yield Found(
            subject=f"{driver}/{pool}/{device}",
            object_kind="device",
            name=device,
            code="overlap",
            severity=Severity.BAD,
            params={
                "device": f"{driver}/{pool}/{device}",
                "claims": _some(claims),
                "id": published,
            },
            holds_for=NOW,
        )
    yield from _under_several_names(facts)


def _under_several_names(facts: Facts) -> Iterable[Found]:
    """One piece of hardware that several pools (or one, in several modes) publish, and that is held under
    more than one of its names."""
    for holds in facts.twin_overlaps.values():
        names = sorted({f"{hold.driver}/{hold.pool}/{hold.device}" for hold in holds})
        first = min(holds, key=lambda hold: (hold.driver, hold.pool, hold.device))
        yield Found(
            # Beside a finding about this name alone.
            subject=f"hardware/{names[0]}",
            object_kind="device",
            name=first.device,
            code="overlap-hardware",
            severity=Severity.BAD,
            params={
                "names": _some(names),
                "claims": _some(sorted({f"{hold.namespace}/{hold.claim}" for hold in holds})),
                "id": first.device_id,
            },
            holds_for=NOW,
        )


def _some(names: Sequence[str], limit: int = 20) -> list[str]:
    return list(names[:limit]) + (["…"] if len(names) > limit else [])
