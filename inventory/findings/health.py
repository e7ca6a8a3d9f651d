"""Faults that drivers see on their devices, and marks that stay when the fault is gone."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from inventory.findings.facts import DeviceRow, Facts
from inventory.findings.model import NOW, Found
from inventory.models import Severity

EVICTING = "NoExecute"
EFFECTS = (EVICTING, "NoSchedule")
# Words in a taint's key that say that somebody meant it: no fault.
PLANNED = ("maintenance", "drain", "reserved", "cordon", "upgrade", "decommission")


def faults(facts: Facts) -> Iterable[Found]:
    """Devices that their driver keeps new Pods (or all Pods) away from. Taints in slices are the driver's own
    word on its hardware."""
    for device in facts.tainted_devices:
        telling = [taint for taint in device.taints if taint.get("effect") in EFFECTS and not _planned(taint)]
        if telling:
            evicting = any(taint["effect"] == EVICTING for taint in telling)
            yield _found(
                device,
                "health-fault",
                Severity.BAD if evicting else Severity.WARNING,
                telling,
            )


def unhealthy(facts: Facts) -> Iterable[Found]:
    """Devices that a kubelet reports as unhealthy to the Pods that have them (allocatedResourcesStatus)."""
    for device, pods in sorted(facts.unhealthy_devices.items()):
        yield Found(
            subject=device,
            object_kind="device",
            name=device.rpartition("/")[2],
            code="health-unhealthy",
            severity=Severity.BAD,
            params={
                "device": device,
                "node": next((node for _namespace, _name, node in pods if node), ""),
                "pods": [f"{namespace}/{name}" for namespace, name, _node in pods[:20]],
            },
            holds_for=NOW,
        )


def old_taints(facts: Facts) -> Iterable[Found]:
    """Devices with a taint older than the threshold: perhaps it was repaired long ago."""
    limit = facts.thresholds.taint_age
    for device in facts.tainted_devices:
        old = [t for t in device.taints if (at := added_at(t)) is not None and at <= facts.now - limit]
        if old:
            yield _found(device, "taint-old", Severity.INFO, old)


def old_rules(facts: Facts) -> Iterable[Found]:
    """Rules of administrators that have kept devices away for longer than the threshold."""
    for rule in facts.taint_rules:
        if rule.added_at is not None:
            yield Found(
                subject=rule.name,
                object_kind="taint-rule",
                name=rule.name,
                code="taint-rule-old",
                severity=Severity.INFO,
                params={"rule": rule.name, "taint": _told(rule._asdict())},
                since=rule.added_at,
                holds_for=facts.thresholds.taint_age,
            )


def _found(device: DeviceRow, code: str, severity: Severity, taints: list[Mapping[str, Any]]) -> Found:
    times = [at for taint in taints if (at := added_at(taint)) is not None]
    return Found(
        subject=f"{device.driver}/{device.pool}/{device.name}",
        object_kind="device",
        name=device.name,
        code=code,
        severity=severity,
        params={
            "device": f"{device.driver}/{device.pool}/{device.name}",
            "node": device.node,
            "hardware": device.hardware_id,
            "taints": sorted(_told(taint) for taint in taints),
            "id": device.pk,
        },
        since=min(times) if times else None,
        holds_for=NOW,
    )


def added_at(taint: Mapping[str, Any]) -> datetime | None:
    """When the driver put it there; None where it does not say."""
    text = taint.get("timeAdded")
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def _planned(taint: Mapping[str, Any]) -> bool:
    name = str(taint.get("key", "")).rpartition("/")[2].lower()
    return any(word in name for word in PLANNED)


def _told(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
