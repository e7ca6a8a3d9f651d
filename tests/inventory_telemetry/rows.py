"""A source that has been asked, as worlds of other tests have one."""

from datetime import datetime, timedelta

from inventory.models import Cluster, DeviceUse, MetricQuery, MetricSource
from inventory.telemetry import configuring, problems, slots
from inventory.telemetry.configuring import WantedSource
from portal.accounts.models import User


def make_source(
    cluster: Cluster, *, actor: User, now: datetime, size: int = 1, idle_hours: int = 0
) -> MetricQuery:
    """One query of its drivers answered, one failed, the others brought nothing. Gives the first."""
    wanted = WantedSource(url="http://prometheus.monitoring:9090", token="hush", idle_hours=idle_hours)
    source = configuring.save(cluster=cluster, wanted=wanted, actor=actor, now=now)
    MetricSource.objects.filter(pk=source.pk).update(
        asked_at=now, answered_at=now, due_at=now + timedelta(minutes=5), since=now - timedelta(days=3)
    )
    source.queries.update(asked_at=now, answered_at=now)
    first, second = source.queries.filter(kind=MetricQuery.Kind.DRIVERS).order_by("position")[:2]
    methods = ("NodePrepareResources", "NodeUnprepareResources")
    values = [
        {"driver": f"gpu-{number}.example.org", "labels": {"method_name": method}, "value": 0.25 + place}
        for number in range(size)
        for place, method in enumerate(methods)
    ]
    MetricQuery.objects.filter(pk=first.pk).update(values=values, samples=len(values))
    problem = problems.too_large(32).problem
    MetricQuery.objects.filter(pk=second.pk).update(problem=problem.as_json())
    source.queries.filter(kind=MetricQuery.Kind.USE, enabled=True).update(
        samples=2, matched=1, strangers=["GPU-of-nobody"], read_until=slots.floor(now, slots.SLOT)
    )
    return first


def make_use(cluster: Cluster, hardware_id: str, *, start: datetime, end: datetime, percent: float) -> None:
    """All slots of [start, end) as busy as this."""
    hours: dict[datetime, dict[int, slots.Slot]] = {}
    at = start
    while at + slots.SLOT <= end:
        hour = slots.floor(at, slots.HOUR)
        hours.setdefault(hour, {})[(at - hour) // slots.SLOT] = slots.Slot(5, percent, percent)
        at += slots.SLOT
    for hour, found in hours.items():
        row = DeviceUse.objects.filter(cluster=cluster, hardware_id=hardware_id, hour=hour).first()
        merged = {**(slots.unpacked(row.slots) if row else {}), **found}
        minutes = sum(slot.minutes for slot in merged.values())
        DeviceUse.objects.update_or_create(
            cluster=cluster,
            hardware_id=hardware_id,
            hour=hour,
            defaults={
                "minutes": minutes,
                "total": sum(slot.minutes * slot.mean for slot in merged.values()),
                "highest": max(slot.highest for slot in merged.values()),
                "slots": slots.packed(merged),
            },
        )
