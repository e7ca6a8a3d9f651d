"""From the use of devices to the use of allocations: over [start, end) as far as it was measured.

Only slots that lie in the allocation entirely count: the one in which it began also measured who was there
before. What was not measured is no use, no idleness and no zero; it is left out, and told as not measured.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from claims.models import Allocation, AllocationUse, UseCursor
from inventory.models import Cluster, DeviceUse, MetricSource
from inventory.telemetry.slots import HOUR, SLOT, floor, within
from inventory.telemetry.use import settled
from portal import bulk
from portal.sql import chunks

# The ledger may learn of an end later than use is read.
LATE = timedelta(hours=6)
# In a longer pause of measuring the device may have been used: then low use begins anew.
LONGEST_PAUSE = timedelta(hours=1)
CHUNK = 500

_Hours = Sequence[tuple[datetime, bytes | memoryview]]
COLUMNS = (
    *("started_at", "counted_to", "minutes", "total", "highest", "final"),
    *("low_percent", "low_minutes", "low_total", "low_since", "low_until", "told_at"),
)


def fold(*, cluster: Cluster) -> None:
    """Add what was measured since the last time. Whoever does it at the same time finds it done."""
    source = MetricSource.objects.filter(cluster=cluster).first()
    if source is None or source.since is None or (until := settled(source)) is None:
        return
    cursor, _new = UseCursor.objects.get_or_create(cluster=cluster)
    for keys in chunks(_concerned(cluster, since=source.since, last=cursor.until), CHUNK):
        with transaction.atomic():
            UseCursor.objects.select_for_update().get(pk=cursor.pk)
            _add(cluster, keys, since=source.since, until=until, low_percent=source.idle_percent)
    UseCursor.objects.filter(pk=cursor.pk).update(until=until)


def _concerned(cluster: Cluster, *, since: datetime, last: datetime | None) -> list[int]:
    """What something may have to be added to: what is held, what ended lately, what is not final."""
    named = Allocation.objects.filter(cluster=cluster, admin_access=False).exclude(hardware_id="")
    ended = max(since, last - LATE) if last else since
    found = set(named.filter(Q(ended_at=None) | Q(ended_at__gt=ended, use=None)).values_list("pk", flat=True))
    found |= set(named.filter(use__final=False).values_list("pk", flat=True))
    return sorted(found)


def _add(
    cluster: Cluster, keys: Sequence[int], *, since: datetime, until: datetime, low_percent: int
) -> None:
    allocations = list(Allocation.objects.filter(pk__in=keys).select_related("use"))
    rows: list[tuple[Allocation, AllocationUse]] = []
    for allocation in allocations:
        row = getattr(allocation, "use", None)
        if row is None or row.started_at != allocation.started_at:
            row = AllocationUse(
                pk=row.pk if row else None,
                allocation=allocation,
                started_at=allocation.started_at,
                counted_to=max(allocation.started_at, since),
                low_percent=low_percent,
            )
        elif row.low_percent != low_percent:
            _begin_low(row, low_percent)
        rows.append((allocation, row))
    if not rows:
        return
    hours = _hours(
        cluster,
        {allocation.hardware_id for allocation, _row in rows},
        start=min(row.counted_to for _allocation, row in rows),
        end=until,
    )
    for allocation, row in rows:
        count(row, hours.get(allocation.hardware_id, ()), ended_at=allocation.ended_at, until=until)
    bulk.append([row for _allocation, row in rows if row.pk is None])
    bulk.overwrite([row for _allocation, row in rows if row.pk is not None], COLUMNS)


def count(row: AllocationUse, hours: _Hours, *, ended_at: datetime | None, until: datetime) -> None:
    """Add the slots from where it was counted to, up to the end of the allocation or of what is known."""
    end = min(ended_at or until, until)
    for begins, slot in within(hours, start=row.counted_to, end=end):
        row.minutes += slot.minutes
        row.total += slot.minutes * slot.mean
        row.highest = max(row.highest, slot.highest)
        if row.low_until is not None and begins - row.low_until > LONGEST_PAUSE:
            _begin_low(row, row.low_percent)
        if slot.mean >= row.low_percent:
            _begin_low(row, row.low_percent)
            continue
        row.low_since = row.low_since or begins
        row.low_until = begins + SLOT
        row.low_minutes += slot.minutes
        row.low_total += slot.minutes * slot.mean
    row.counted_to = max(row.counted_to, floor(end, SLOT))
    row.final = ended_at is not None and until >= ended_at


def _begin_low(row: AllocationUse, percent: int) -> None:
    row.low_percent, row.low_minutes, row.low_total = percent, 0, 0.0
    row.low_since = row.low_until = row.told_at = None


def _hours(
    cluster: Cluster, hardware_ids: set[str], *, start: datetime, end: datetime
) -> Mapping[str, _Hours]:
    found: dict[str, list[tuple[datetime, bytes | memoryview]]] = defaultdict(list)
    rows = DeviceUse.objects.filter(
        cluster=cluster, hardware_id__in=hardware_ids, hour__gte=floor(start, HOUR), hour__lt=end
    ).order_by("hardware_id", "hour")
    for identity, hour, raw in rows.values_list("hardware_id", "hour", "slots"):
        found[identity].append((hour, raw))
    return found
