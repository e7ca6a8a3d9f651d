"""Rating what was written of the ledger since the last time: the fold notes which claims it has written
(`LedgerTouch`), and each batch of notes has the number of its change. Where a number is missing, since a
process that makes no notes has written, or where too much was written, everything is rated instead.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Q

from claims.models import LedgerCursor, LedgerTouch

# With more claims than these, going through the month is as cheap.
MOST = 100_000


@dataclass
class Touched:
    """Claims and Pods by cluster, and digests of intervals that are no more."""

    claims: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    gone: set[str] = field(default_factory=set)


def changes() -> dict[int, int]:
    """How often each cluster's ledger was written."""
    return dict(LedgerCursor.objects.values_list("cluster_id", "changes"))


def since(before: Mapping[int, int], now: Mapping[int, int]) -> Touched | None:
    """What was written after `before` and up to `now`; None = not known of all of it, or more than MOST."""
    written = {cluster: number for cluster, number in now.items() if number != before.get(cluster, 0)}
    if not before.keys() <= now.keys():
        return None
    found, left = Touched(), MOST
    for cluster, last in written.items():
        first = before.get(cluster, 0)
        notes = LedgerTouch.objects.filter(cluster=cluster, change__gt=first, change__lte=last).order_by()
        if notes.values("change").distinct().count() != last - first:
            return None
        found.claims[cluster] |= set(notes.values_list("claim_uid", flat=True).distinct()[: left + 1])
        found.gone |= set(notes.exclude(gone="").values_list("gone", flat=True)[: left + 1])
        left -= len(found.claims[cluster])
        if left < 0 or len(found.gone) > MOST:
            return None
    return found


def forget(until: Mapping[int, int]) -> None:
    """Notes of what everybody has rated."""
    done = Q(pk__in=[])
    for cluster, change in until.items():
        done |= Q(cluster=cluster, change__lte=change)
    rows = LedgerTouch.objects.filter(done)
    rows._raw_delete(rows.db)
