"""How busy one device was, hour by hour, as far as the reader may know it.

Who reads everything sees all of it. Others see the hours in which projects of theirs held the device: what
others do with it is theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from claims.models import Allocation
from inventory.models import Device, DeviceUse, MetricSource
from inventory.telemetry.slots import HOUR, SLOT, Slot, Use, floor, summed, within
from portal import access
from portal.accounts.models import Project, User


@dataclass(frozen=True)
class HourOfUse:
    """`use` None = nothing that the reader may know was measured."""

    hour: datetime
    use: Use | None


@dataclass(frozen=True)
class DeviceHistory:
    """`latest` is the last slot that was measured, with its end; None = none lately."""

    hours: Sequence[HourOfUse]
    whole: Use | None
    latest: Slot | None
    latest_at: datetime | None


def is_measured(cluster_id: int) -> bool:
    """Whether the cluster has a Prometheus that is asked. One query."""
    return MetricSource.objects.filter(cluster=cluster_id).exists()


def history_of(device: Device, *, viewer: User, start: datetime, end: datetime) -> DeviceHistory:
    """The hours that touch [start, end). One or two queries."""
    hours = []
    at = floor(start, HOUR)
    while at < end:
        hours.append(at)
        at += HOUR
    found: dict[datetime, list[tuple[datetime, Slot]]] = {hour: [] for hour in hours}
    if device.hardware_id:
        rows = DeviceUse.objects.filter(
            cluster=device.cluster_id, hardware_id=device.hardware_id, hour__gte=hours[0], hour__lt=end
        )
        spans = _spans(device, viewer=viewer, start=start, end=end)
        for hour, raw in rows.order_by("hour").values_list("hour", "slots"):
            for begins, slot in within([(hour, raw)], start=hours[0], end=hours[-1] + HOUR):
                if spans is None or any(a <= begins and begins + SLOT <= b for a, b in spans):
                    found[hour].append((begins, slot))
    slots = [pair for hour in hours for pair in found[hour]]
    return DeviceHistory(
        hours=[HourOfUse(hour, summed(slot for _begins, slot in found[hour])) for hour in hours],
        whole=summed(slot for _begins, slot in slots),
        latest=slots[-1][1] if slots else None,
        latest_at=slots[-1][0] + SLOT if slots else None,
    )


def _spans(
    device: Device, *, viewer: User, start: datetime, end: datetime
) -> list[tuple[datetime, datetime]] | None:
    """When projects whose details the reader sees held the device; None = the reader sees everything."""
    if access.may_read_everything(viewer):
        return None
    rows = Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=start),
        cluster=device.cluster_id,
        hardware_id=device.hardware_id,
        started_at__lt=end,
        admin_access=False,
        project__in=Project.objects.all().detailed_to(viewer),
    )
    return [(begun, ended or end) for begun, ended in rows.values_list("started_at", "ended_at")]
