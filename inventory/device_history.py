"""What became of one device, told from observations: it came, went, was tainted, could not be had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.mirror.turn import digest
from inventory.models import Device, Observation
from inventory.models.observations import OF_DEVICES
from portal.sql import begins_with

Kind = Observation.Kind
_LABELS: Mapping[str, StrOrPromise] = {
    Kind.DEVICE_APPEARED: _("published"),
    Kind.DEVICE_GONE: _("no longer published"),
    Kind.DEVICE_TAINTED: _("tainted"),
    Kind.DEVICE_UNTAINTED: _("taint taken away"),
    Kind.DEVICE_UNAVAILABLE: _("unavailable"),
    Kind.DEVICE_AVAILABLE: _("available again"),
}
# Tone and icon, as of badges.
_LOOKS: Mapping[str, tuple[str, str]] = {
    Kind.DEVICE_APPEARED: ("plain", "circle-plus"),
    Kind.DEVICE_GONE: ("off", "circle-minus"),
    Kind.DEVICE_TAINTED: ("wait", "alert-triangle"),
    Kind.DEVICE_UNTAINTED: ("good", "circle-check"),
    Kind.DEVICE_UNAVAILABLE: ("off", "ban"),
    Kind.DEVICE_AVAILABLE: ("good", "circle-check"),
}


@dataclass(frozen=True)
class Change:
    """One change. It happened within [at - uncertainty, at]."""

    at: datetime
    uncertainty: timedelta
    label: StrOrPromise
    tone: str
    icon: str
    # A taint, or why it could not be had; "" where there is nothing to add.
    detail: StrOrPromise
    # The rule that tainted it, if one did.
    rule: str
    # The name was the same, the hardware another.
    other_hardware: bool


def changes_of(device: Device, *, limit: int) -> Sequence[Change]:
    """The latest changes of what has this device's name, newest first; one query."""
    pool = device.pool
    named = f"device/{digest(pool.driver, pool.name, device.name)}/"
    seen = Observation.objects.filter(
        begins_with("key", named), cluster=device.cluster_id, kind__in=OF_DEVICES
    )
    return [_told(row, device) for row in seen.order_by("-at", "-pk")[:limit]]


def _told(row: Observation, device: Device) -> Change:
    facts: Mapping[str, Any] = row.facts if isinstance(row.facts, dict) else {}
    tone, icon = _LOOKS[row.kind]
    hardware = facts.get("hardware_id", "")
    return Change(
        at=row.at,
        uncertainty=timedelta(microseconds=row.uncertainty_us),
        label=_LABELS[row.kind],
        tone=tone,
        icon=icon,
        detail=_detail(facts),
        rule=str(facts.get("rule", "")),
        other_hardware=bool(hardware and device.hardware_id and hardware != device.hardware_id),
    )


def _detail(facts: Mapping[str, Any]) -> StrOrPromise:
    taint = facts.get("taint")
    if isinstance(taint, dict):
        value = f"={taint['value']}" if taint.get("value") else ""
        return f"{taint.get('key', '')}{value} {taint.get('effect', '')}"
    reason = facts.get("reason") or facts.get("unavailable")
    return Device.Reason(reason).label if reason and reason in Device.Reason.values else ""
