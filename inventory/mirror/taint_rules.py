"""DeviceTaintRules: an administrator's taint on all devices that a rule selects.

The taint is not copied to the devices: a rule may select a whole driver. Whoever judges a device asks the
cluster's rules, of which there are few.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import QuerySet

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core, decode_dra
from inventory.mirror.kind import Change
from inventory.mirror.plain import PlainKind
from inventory.mirror.turn import Kind, Placed, Turn, digest, parse_time
from inventory.models import Device, DeviceTaintRule, Pool
from portal.dra import model as dra
from portal.dra.taints import PREVENTING


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] | None = None


class _ManagedFields(msgspec.Struct):
    manager: str = ""
    subresource: str = ""
    time: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    managed_fields: list[_ManagedFields] | None = None


class _WithStatus(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


@dataclass(frozen=True)
class RuleObject:
    rule: dra.DeviceTaintRule
    conditions: list[dict[str, Any]]
    labels: dict[str, str]
    made_by: str


class DeviceTaintRules(PlainKind[DeviceTaintRule, RuleObject]):
    plural = "devicetaintrules"
    model = DeviceTaintRule
    columns = (
        *("selects", "driver", "pool_name", "device_name", "key", "value", "effect", "added_at", "spec"),
        *("conditions", "labels", "made_by"),
    )

    def decode(self, item: Item) -> RuleObject:
        rule = decode_dra(item, dra.DeviceTaintRule)
        more = decode_core(item, _WithStatus)
        writers = [entry for entry in more.metadata.managed_fields or () if not entry.subresource]
        first = min(writers, key=lambda entry: entry.time, default=_ManagedFields())
        return RuleObject(
            rule, more.status.conditions or [], labels=more.metadata.labels or {}, made_by=first.manager
        )

    def row(self, turn: Turn, change: Change[DeviceTaintRule, RuleObject]) -> DeviceTaintRule:
        rule = change.obj.rule
        selector, taint = rule.spec.device_selector, rule.spec.taint
        added = parse_time(taint.time_added) or parse_time(rule.metadata.creation_timestamp)
        return DeviceTaintRule(
            **self.common(turn, change),
            selects=selector is not None,
            driver=((selector and selector.driver) or "")[:63],
            pool_name=((selector and selector.pool) or "")[:253],
            device_name=((selector and selector.device) or "")[:63],
            key=taint.key[:317],
            value=taint.value[:63],
            effect=taint.effect[:63],
            added_at=added,
            spec=dra.encode(rule.spec),
            conditions=change.obj.conditions,
            labels=change.obj.labels,
            made_by=change.obj.made_by[:128],
        )

    def store(self, turn: Turn, changes: Sequence[Change[DeviceTaintRule, RuleObject]]) -> None:
        super().store(turn, changes)
        for change in changes:
            old, new = change.row, self.row(turn, change)
            if old is not None and (old.uid, old.spec) == (new.uid, new.spec):
                # Only its status changed: how far the eviction has come.
                continue
            if old is not None:
                _touch(turn, old, Kind.DEVICE_UNTAINTED)
            _touch(turn, new, Kind.DEVICE_TAINTED)

    def lose(self, turn: Turn, rows: Sequence[DeviceTaintRule]) -> None:
        super().lose(turn, rows)
        for row in rows:
            _touch(turn, row, Kind.DEVICE_UNTAINTED)


def _touch(turn: Turn, rule: DeviceTaintRule, kind: Kind) -> None:
    """Have the devices of a rule judged anew, and note for each what the rule did."""
    turn.changed = turn.fleet_changed = True
    rows = selected_by(rule).select_related("pool").only("name", "hardware_id", "node_name", "pool")
    for device in rows.iterator(chunk_size=2000):
        turn.dirty_devices.add(device.pk)
        note(turn, kind, rule, device, device.pool)


def note(
    turn: Turn, kind: Kind, rule: DeviceTaintRule, device: Placed, pool: Pool, *, again: str = ""
) -> None:
    """A rule began or ceased to taint a device of that pool. `again` tells a device that came
    (back) under a rule from a rule that came over a device."""
    place = digest(pool.driver, pool.name, device.name)
    what = "tainted" if kind == Kind.DEVICE_TAINTED else "untainted"
    turn.observe(
        kind,
        key=f"device/{place}/rule/{rule.uid}/{what}/{rule.resource_version}{again}",
        moment=turn.observed(),
        name=device.name,
        facts={
            "driver": pool.driver,
            "pool": pool.name,
            "device": device.name,
            "node": device.node_name,
            "hardware_id": device.hardware_id,
            "rule": rule.name,
            "taint": {"key": rule.key, "value": rule.value, "effect": rule.effect},
        },
    )


def selected_by(rule: DeviceTaintRule) -> QuerySet[Device]:
    """The devices that a rule selects."""
    devices = Device.objects.filter(cluster_id=rule.cluster_id)
    if not rule.selects:
        return devices.none()
    wanted = {"pool__driver": rule.driver, "pool__name": rule.pool_name, "name": rule.device_name}
    return devices.filter(**{column: value for column, value in wanted.items() if value})


def rules_on(device: Device) -> list[DeviceTaintRule]:
    """The rules that taint one device, by name; one query."""
    pool = device.pool
    return Rules.of(device.cluster_id).on(driver=pool.driver, pool=pool.name, device=device.name)


class Rules:
    """The rules of one cluster, to be asked device by device."""

    def __init__(self, rules: Iterable[DeviceTaintRule]) -> None:
        self._rules = [rule for rule in rules if rule.selects]

    @classmethod
    def of(cls, cluster_id: int) -> "Rules":
        """As mirrored now; one query."""
        return cls(DeviceTaintRule.objects.filter(cluster_id=cluster_id).order_by("name"))

    @classmethod
    def of_all(cls, cluster_ids: Iterable[int]) -> Mapping[int, "Rules"]:
        """The same for several clusters; one query."""
        found: dict[int, list[DeviceTaintRule]] = defaultdict(list)
        for rule in DeviceTaintRule.objects.filter(cluster_id__in=list(cluster_ids)).order_by("name"):
            found[rule.cluster_id].append(rule)
        return {cluster: cls(rules) for cluster, rules in found.items()}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def on(self, *, driver: str, pool: str, device: str) -> list[DeviceTaintRule]:
        """The rules that taint this device, by name."""
        return [
            rule
            for rule in self._rules
            if rule.driver in ("", driver)
            and rule.pool_name in ("", pool)
            and rule.device_name in ("", device)
        ]

    def prevent(self, *, driver: str, pool: str, device: str) -> bool:
        """Whether a rule keeps the device from those who tolerate nothing."""
        return any(rule.effect in PREVENTING for rule in self.on(driver=driver, pool=pool, device=device))
