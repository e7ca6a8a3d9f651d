"""The use of an allocation as it is told: never without how much of the time was measured."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Sum

from claims.models import Allocation, AllocationUse, Request
from portal.accounts.models import Project

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Low:
    """It has been used little since then, and is so: `mean` in percent over the `measured` time."""

    since: datetime
    measured: timedelta
    mean: float


@dataclass(frozen=True)
class Told:
    """`mean` and `highest` in percent, over the `measured` part of the `whole` time. `shared`: of the whole
    device, which others use, too."""

    measured: timedelta
    whole: timedelta
    mean: float
    highest: float
    shared: bool
    as_of: datetime
    low: Low | None = None


def use_of(allocation: Allocation, *, now: datetime) -> Told | None:
    """None where nothing was measured. `allocation` has been read together with its `use`."""
    row: AllocationUse | None = getattr(allocation, "use", None)
    if row is None or not row.minutes:
        return None
    end = allocation.ended_at or max(now, allocation.started_at)
    low = None
    if row.low_since is not None and row.low_minutes:
        low = Low(row.low_since, row.low_minutes * MINUTE, row.low_total / row.low_minutes)
    return Told(
        measured=row.minutes * MINUTE,
        whole=end - allocation.started_at,
        mean=row.total / row.minutes,
        highest=row.highest,
        shared=bool(allocation.share_id or allocation.consumed_capacity),
        as_of=row.counted_to,
        low=low,
    )


@dataclass(frozen=True)
class HeldUse:
    """One device that a request holds; `use` None = no data."""

    device: str
    use: Told | None


def uses_of(request: Request, *, now: datetime) -> list[HeldUse]:
    """What the request holds now, where the cluster's Prometheus is asked; else nothing. One query."""
    rows = Allocation.objects.filter(
        request=request, ended_at=None, admin_access=False, cluster__metric_source__isnull=False
    )
    found = rows.select_related("use").order_by("device_name", "pk")[:MOST_SHOWN]
    return [HeldUse(row.device_name, use_of(row, now=now)) for row in found]


MOST_SHOWN = 50


@dataclass(frozen=True)
class ProjectUse:
    """Of what a project holds now: how much of it was measured, and how busy that was, in percent."""

    devices: int
    measured: timedelta
    mean: float


def use_of_project(project: Project) -> ProjectUse | None:
    """None where nothing was measured. One query."""
    rows = AllocationUse.objects.filter(
        allocation__project=project, allocation__ended_at=None, allocation__admin_access=False, minutes__gt=0
    )
    found = rows.aggregate(devices=Count("pk"), minutes=Sum("minutes"), total=Sum("total"))
    if not found["minutes"]:
        return None
    return ProjectUse(found["devices"], found["minutes"] * MINUTE, found["total"] / found["minutes"])
