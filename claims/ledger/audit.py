"""The ledger's invariants, checked on the stored rows. A violation is named, never mended silently."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q

from claims.models import Allocation
from inventory.models import Claim, Cluster, Stream

# Times in the API have whole seconds: two neighbours may overlap by that much without anything being wrong.
PRECISION = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One broken invariant: `code` names which, `where` the interval, `detail` what is wrong with it."""

    code: str
    where: str
    detail: str


def audit(*, cluster: Cluster) -> Iterator[Violation]:
    """All violations in the ledger of `cluster`."""
    yield from _negative(cluster)
    yield from _overlaps(cluster)
    yield from _unknown_open(cluster)


def _negative(cluster: Cluster) -> Iterator[Violation]:
    rows = Allocation.objects.filter(cluster=cluster).filter(
        Q(ended_at__lt=F("started_at")) | Q(end_uncertainty_us__lt=0) | Q(start_uncertainty_us__lt=0)
    )
    for row in rows.iterator():
        yield Violation(
            code="negative-interval",
            where=_where(row),
            detail=f"from {row.started_at} to {row.ended_at}",
        )


def _overlaps(cluster: Cluster) -> Iterator[Violation]:
    """Exclusive devices (no share, no admin access) belong to one claim at a time."""
    rows = Allocation.objects.filter(cluster=cluster, share_id="", admin_access=False)
    rows = rows.order_by("driver", "pool_name", "device_name", "started_at", "id")
    previous: Allocation | None = None
    for row in rows.iterator():
        same_device = previous is not None and _device(previous) == _device(row)
        if previous is not None and same_device:
            slack = timedelta(microseconds=row.start_uncertainty_us) + PRECISION
            if previous.ended_at is None or previous.ended_at > row.started_at + slack:
                yield Violation(
                    code="overlap",
                    where=_where(row),
                    detail=f"also held by {previous.namespace}/{previous.claim_name} "
                    f"from {previous.started_at} to {previous.ended_at or 'now'}",
                )
        if previous is None or not same_device or _ends_later(row, previous):
            previous = row


def _unknown_open(cluster: Cluster) -> Iterator[Violation]:
    """An open interval must be a claim that the mirror knows as allocated, once claims have been listed."""
    listed = Stream.objects.filter(cluster=cluster, resource="resourceclaims").exclude(listed_at=None)
    if not listed.exists():
        return
    known = set(Claim.objects.filter(cluster=cluster, allocated=True).values_list("uid", "epoch").iterator())
    for row in Allocation.objects.filter(cluster=cluster, ended_at=None).iterator():
        if (row.claim_uid, row.epoch) not in known:
            yield Violation(
                code="open-unknown",
                where=_where(row),
                detail="still open here, and the mirror knows no such allocation",
            )


def _ends_later(row: Allocation, other: Allocation) -> bool:
    def end(allocation: Allocation) -> tuple[bool, datetime]:
        return (allocation.ended_at is None, allocation.ended_at or allocation.started_at)

    return end(row) > end(other)


def _device(row: Allocation) -> tuple[str, str, str]:
    return (row.driver, row.pool_name, row.device_name)


def _where(row: Allocation) -> str:
    return (
        f"{row.driver}/{row.pool_name}/{row.device_name} "
        f"{row.namespace}/{row.claim_name} uid {row.claim_uid} epoch {row.epoch}"
    )
