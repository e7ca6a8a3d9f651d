"""How busy a device was in the last day, on its page: a chart, and the table that it is drawn from."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from claims.utilisation.devices import DeviceHistory, history_of, is_measured
from inventory.models import Device
from inventory.telemetry.showing import STALE
from inventory.templatetags.monitoring import measured
from portal.accounts.models import User
from portal.pages.charts_figures import Figure, Row, Series, Value
from portal.templatetags.ui import human_duration

DAY = timedelta(hours=24)


@dataclass(frozen=True)
class DeviceUsePart:
    """`current` "" = what was measured last does not tell of the present, or nothing was."""

    history: DeviceHistory
    current: str
    figure: Figure | None


def use_of_device(device: Device, *, viewer: User, now: datetime) -> DeviceUsePart | None:
    """None where the cluster's Prometheus is not asked. One query then, else up to three."""
    if not is_measured(device.cluster_id):
        return None
    history = history_of(device, viewer=viewer, start=now - DAY, end=now)
    fresh = history.latest_at is not None and history.latest_at > now - STALE
    current = measured(history.latest.mean, "percent") if history.latest and fresh else ""
    return DeviceUsePart(history, current, _figure(history) if history.whole else None)


def _figure(history: DeviceHistory) -> Figure:
    rows = []
    for hour in history.hours:
        at = timezone.localtime(hour.hour)
        if hour.use is None:
            shown, number = _("no data"), None
        else:
            number = round(hour.use.mean, 2)
            shown = _("%(mean)s, at most %(highest)s, %(measured)s measured") % {
                "mean": measured(number, "percent"),
                "highest": measured(hour.use.highest, "percent"),
                "measured": human_duration(hour.use.measured),
            }
        rows.append(Row(date_format(at, "Y-m-d H:i"), date_format(at, "H:i"), [Value(number, shown)]))
    return Figure(
        id="use",
        label=_("How busy it was, hour by hour"),
        rows_are=_("Hour"),
        unit=_("percent"),
        series=[Series(_("Use"), "held")],
        rows=rows,
        touching=True,
        note=_("Hours without a bar were not measured, which is not zero."),
    )
