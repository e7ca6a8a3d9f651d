"""How busy devices were, read minute by minute and kept by the hour.

What a pause of the desk left out is read afterwards, as far as Prometheus still has it; what it does not have
stays a gap. A window is written together with how far its query has been read, so nothing is read twice.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext_noop

from inventory.models import Cluster, DeviceUse, MetricQuery, MetricSource
from inventory.telemetry import answers, problems
from inventory.telemetry.asking import Prometheus
from inventory.telemetry.binding import Nodes, PodName, pods_in, where_pods_ran
from inventory.telemetry.devices import Devices
from inventory.telemetry.expressions import sent
from inventory.telemetry.slots import HOUR, SLOT, STEP, Slot, floor, packed, slot_of, unpacked
from portal import bulk
from portal.accounts.notifications.texts import Text
from portal.sql import chunks

# Scrapes are a little behind.
SETTLE = timedelta(seconds=30)
# What a pause left out is read afterwards, at most so much of it, in windows of this length.
CATCH_UP = timedelta(hours=6)
WINDOW = timedelta(minutes=15)
# A query that fails does not keep the others back for longer.
HOLD_BACK = timedelta(minutes=30)
# More than a rounding error above or below what percent can be.
SLACK = 0.5
STRANGERS_KEPT = 5
CHUNK = 500


def read_use(
    source: MetricSource,
    query: MetricQuery,
    prometheus: Prometheus,
    devices: Devices,
    nodes: Nodes,
    *,
    now: datetime,
    until: float,
) -> int:
    """Window after window, up to the last slot that is over, and not after `until` (monotonic). How many
    answers came. Raises UnableToAsk; what was read before stays."""
    asked = 0
    end = floor(now - SETTLE, SLOT)
    start = max(query.read_until or end - SLOT, end - CATCH_UP)
    while start < end and time.monotonic() < until:
        stop = min(start + WINDOW, end)
        # A sample at t is of the minute before it: the first of the window ends one minute after its start.
        body = prometheus.query_range(
            sent(source, query), start=start + STEP, end=stop, step=int(STEP.total_seconds())
        )
        found = by_device(
            answers.over_time(body), query=query, devices=devices, nodes=nodes, cluster=source.cluster,
            start=start, end=stop,
        )  # fmt: skip
        asked += 1
        _keep(source, query, found, devices, start=start, end=stop, now=now)
        start = stop
    return asked


class Found:
    """What an answer told: values of the mirror's devices by the minute that they end, and how many series
    were of others."""

    def __init__(self) -> None:
        self.values: dict[str, dict[datetime, float]] = defaultdict(dict)
        self.series = 0
        self.strangers: list[str] = []
        self.nameless = 0
        # Devices that were told of in what is no percent.
        self.wrong: set[str] = set()
        # Devices that were told of from where they are not, and what named another place.
        self.elsewhere: dict[str, str] = {}


def by_device(
    series: Iterator[answers.Series],
    *,
    query: MetricQuery,
    devices: Devices,
    nodes: Nodes,
    cluster: Cluster,
    start: datetime,
    end: datetime,
) -> Found:
    """Raises UnableToAsk where what most devices have is no percent: then the query is wrong, and what seems
    to be percent is not. A single device that tells nonsense is left out, and costs the others nothing. What
    comes from where the device is not, as far as labels tell, is not used."""
    found = Found()
    # By the Pods that the labels name: where these ran is asked for once, afterwards.
    told: dict[tuple[str, tuple[PodName, ...]], _Told] = {}
    for one in series:
        if not one.points:
            continue
        found.series += 1
        named = one.labels.get(query.label, "")
        node = one.labels.get(query.node_label, "") if query.node_label else ""
        hardware_id = devices.find(named, node=node)
        if hardware_id is None:
            found.nameless += not named
            if named and len(found.strangers) < STRANGERS_KEPT and named not in found.strangers:
                found.strangers.append(named)
            continue
        at = devices.nodes.get(hardware_id, frozenset())
        if other := nodes.elsewhere(one.labels, at, besides=query.node_label):
            found.elsewhere[hardware_id] = other
            continue
        pods = tuple(pods_in(one.labels)) if at else ()
        told.setdefault((hardware_id, pods), _Told()).take(one.points, start=start, end=end)
    _merge(found, told, devices=devices, cluster=cluster, start=start)
    if 2 * len(found.wrong) > len(found.values):
        raise problems.no_percent(sum(each.wrong for each in told.values()))
    for hardware_id in found.wrong:
        del found.values[hardware_id]
    return found


class _Told:
    """What several series tell of one device: it was as busy as either says, be they of two exporters or of
    two Pods that share it."""

    def __init__(self) -> None:
        self.minutes: dict[datetime, float] = {}
        self.wrong = 0

    def take(self, points: Iterable[tuple[float, float]], *, start: datetime, end: datetime) -> None:
        for at, value in points:
            if not -SLACK <= value <= 100 + SLACK:
                self.wrong += 1
                continue
            minute = _minute(at, start=start, end=end)
            if minute is not None:
                self.minutes[minute] = max(self.minutes.get(minute, 0.0), min(value, 100.0))


def _merge(
    found: Found,
    told: Mapping[tuple[str, tuple[PodName, ...]], _Told],
    *,
    devices: Devices,
    cluster: Cluster,
    start: datetime,
) -> None:
    """By device, without what names a Pod that runs on another node."""
    ran = where_pods_ran(cluster, {pod for _piece, pods in told for pod in pods}, since=start)
    for (hardware_id, pods), each in told.items():
        at = devices.nodes.get(hardware_id, frozenset())
        away = [pod for pod in pods if pod in ran and ran[pod] not in at]
        if away:
            found.elsewhere[hardware_id] = "/".join(away[0])
            continue
        if each.wrong:
            found.wrong.add(hardware_id)
        minutes = found.values[hardware_id]
        for minute, value in each.minutes.items():
            minutes[minute] = max(minutes.get(minute, 0.0), value)


def _minute(at: float, *, start: datetime, end: datetime) -> datetime | None:
    """The end of the minute that a sample tells of; None where it was not asked for."""
    try:
        moment = datetime.fromtimestamp(round(at), tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment if start < moment <= end and moment == floor(moment, STEP) else None


def _keep(
    source: MetricSource,
    query: MetricQuery,
    found: Found,
    devices: Devices,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
) -> None:
    """Write what a window told, once: who reads the same window at the same time finds it written."""
    slots = {identity: _slots(minutes) for identity, minutes in found.values.items()}
    told = {
        "asked_at": now,
        "answered_at": now,
        "read_until": end,
        "problem": problem.as_json() if (problem := _problem(found, devices)) else None,
        "samples": found.series,
        "matched": len(found.values),
        "strangers": found.strangers,
    }
    with transaction.atomic():
        if not MetricQuery.objects.filter(pk=query.pk, read_until=query.read_until).update(**told):
            return
        MetricSource.objects.filter(pk=source.pk, since=None).update(since=start)
        _write(source, {identity: of for identity, of in slots.items() if of})
    query.read_until = end


def _slots(minutes: Mapping[datetime, float]) -> dict[datetime, Slot]:
    """By their beginnings."""
    values: dict[datetime, list[float]] = defaultdict(list)
    for minute, value in minutes.items():
        values[floor(minute - STEP, SLOT)].append(value)
    return {begins: slot for begins, found in values.items() if (slot := slot_of(found))}


def _problem(found: Found, devices: Devices) -> problems.Problem | None:
    if found.elsewhere:
        piece = min(found.elsewhere)
        at = ", ".join(sorted(devices.nodes.get(piece, ()))) or "–"
        return problems.elsewhere(len(found.elsewhere), name=piece, node=at, told=found.elsewhere[piece])
    if found.wrong:
        return problems.no_percent_of_some(len(found.wrong), name=min(found.wrong))
    return None if found.series == 0 or found.values else _all_strangers(found)


def _all_strangers(found: Found) -> problems.Problem:
    """Samples come, and none is of a device of the mirror: the label is wrong, or the cluster."""
    if found.nameless == found.series:
        said = Text(
            gettext_noop("None of its %(n)s samples has the label that names the device."), n=found.series
        )
    else:
        said = Text(
            gettext_noop("None of its %(n)s samples is of a device of this cluster: “%(name)s”, for one."),
            n=found.series,
            name=found.strangers[0],
        )
    cure = Text(gettext_noop("Correct the label that names the device, or what tells the cluster."))
    return problems.Problem("no-device", said, cure)


def _write(source: MetricSource, slots: Mapping[str, Mapping[datetime, Slot]]) -> None:
    """Add slots to the hours of devices. What is there already stays."""
    for identities in chunks(sorted(slots), CHUNK):
        hours = {floor(begins, HOUR) for identity in identities for begins in slots[identity]}
        rows = DeviceUse.objects.filter(
            cluster=source.cluster_id, hardware_id__in=identities, hour__in=hours
        ).select_for_update()
        known = {(row.hardware_id, row.hour): row for row in rows}
        new, changed = [], []
        for identity in identities:
            by_hour: dict[datetime, dict[int, Slot]] = defaultdict(dict)
            for begins, slot in slots[identity].items():
                hour = floor(begins, HOUR)
                by_hour[hour][(begins - hour) // SLOT] = slot
            for hour, found in by_hour.items():
                old = known.get((identity, hour))
                merged = found | unpacked(old.slots) if old else found
                row = _row(source, identity, hour, merged)
                if old is None:
                    new.append(row)
                else:
                    row.pk = old.pk
                    changed.append(row)
        bulk.append(new)
        bulk.overwrite(changed, ["minutes", "total", "highest", "slots"])


def _row(source: MetricSource, identity: str, hour: datetime, slots: Mapping[int, Slot]) -> DeviceUse:
    return DeviceUse(
        cluster_id=source.cluster_id,
        hardware_id=identity,
        hour=hour,
        minutes=sum(slot.minutes for slot in slots.values()),
        total=sum(slot.minutes * slot.mean for slot in slots.values()),
        highest=max(slot.highest for slot in slots.values()),
        slots=packed(slots),
    )


def settled(source: MetricSource) -> datetime | None:
    """Up to when use is known as well as it will be; None = nothing was read yet. A query that fails does not
    keep the others back for longer than half an hour."""
    read = [
        at
        for at in source.queries.filter(enabled=True, kind=MetricQuery.Kind.USE).values_list(
            "read_until", flat=True
        )
        if at is not None
    ]
    return max(min(read), max(read) - HOLD_BACK) if read else None
