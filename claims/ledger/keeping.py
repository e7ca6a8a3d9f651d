"""Keeping the ledger: checking it and writing down what was found, and the policy of billed bounds."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from fractions import Fraction

from django.db import transaction
from django.utils.translation import gettext as _

from claims.ledger import storage
from claims.ledger.archive import ArchiveDamaged
from claims.ledger.audit import audit
from claims.ledger.conservation import Sums
from claims.models import Bound, LedgerAudit, LedgerPolicy
from inventory.models import Cluster
from portal.accounts.audit import record_named
from portal.accounts.models import User
from portal.money import MICROSECONDS_PER_HOUR

SUMS = tuple(Sums.__dataclass_fields__)


class UnableToSetPolicy(Exception):
    """`message` is for people, `field` the input that it belongs to."""

    def __init__(self, field: str, message: str) -> None:
        self.field, self.message = field, message
        super().__init__(message)


def check(*, cluster: Cluster, now: datetime) -> LedgerAudit:
    """Fold what is new, check every invariant, and keep what was found until the next time."""
    # What stops the fold is named by the audit.
    with suppress(ArchiveDamaged):
        storage.apply(cluster=cluster)
    found = audit(cluster=cluster, now=now)
    kept, _new = LedgerAudit.objects.update_or_create(
        cluster=cluster,
        defaults={
            "checked_at": now,
            "since": found.since,
            "until": now,
            "sums": {name: str(Fraction(value)) for name, value in asdict(found.sums).items()},
            "devices": found.pieces,
            "violations": [asdict(one) for one in found.violations[: LedgerAudit.MOST]],
            "violation_count": len(found.violations),
        },
    )
    return kept


def hours(found: LedgerAudit) -> dict[str, Fraction]:
    """Device-hours by what they were."""
    return {name: Fraction(found.sums.get(name, 0)) / MICROSECONDS_PER_HOUR for name in SUMS}


def told(found: LedgerAudit) -> Iterator[str]:
    """The sums in plain lines."""
    if found.devices:
        parts = ", ".join(f"{name} {float(value):.3f}" for name, value in hours(found).items())
        yield f"device-hours of {found.devices} pieces of hardware: {parts}"


def set_policy(*, bound: str, since: datetime | None, actor: User | None, now: datetime) -> LedgerPolicy:
    """Let `bound` count for allocations that begin at `since` or later (from now on without it). What has
    begun already is never touched. Raises UnableToSetPolicy."""
    since = since or now
    if bound not in Bound.values:
        raise UnableToSetPolicy("bound", _("Choose which bound is billed."))
    if since < now:
        raise UnableToSetPolicy("from", _("A policy cannot reach back: what has begun is billed as it was."))
    with transaction.atomic():
        policy, _new = LedgerPolicy.objects.update_or_create(
            valid_from=since, defaults={"bound": bound, "set_at": now, "set_by": actor}
        )
        record_named(
            now=now,
            actor=actor,
            action="ledger.policy",
            kind="ledger",
            key="policy",
            name=str(Bound(bound).label),
            after={"bound": bound, "valid_from": since.isoformat()},
        )
    return policy
