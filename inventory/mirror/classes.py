"""DeviceClasses: what administrators named, and whether its selectors can be evaluated."""

from collections.abc import Sequence
from typing import Any

import msgspec

from inventory import class_history
from inventory.mirror import matching
from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_dra
from inventory.mirror.kind import Change, MirroredKind, save
from inventory.mirror.turn import Turn, parse_time
from inventory.models import DeviceClass
from portal.dra import model as dra
from portal.sql import chunks

_COLUMNS = [
    *("uid", "resource_version", "spec", "labels", "annotations", "extended_resource_name", "created_at"),
    *("managers", "problem"),
]


class DeviceClasses(MirroredKind[DeviceClass, dra.DeviceClass]):
    plural = "deviceclasses"
    model = DeviceClass
    has_history = False

    def decode(self, item: Item) -> dra.DeviceClass:
        return decode_dra(item, dra.DeviceClass)

    def store(self, turn: Turn, changes: Sequence[Change[DeviceClass, dra.DeviceClass]]) -> None:
        turn.fleet_changed = True
        rows: list[DeviceClass] = []
        differing: list[DeviceClass] = []
        for change in changes:
            old = change.row
            row = DeviceClass(
                pk=old.pk if old else None,
                cluster_id=turn.cluster_id,
                name=change.item.name,
                uid=change.item.uid,
                resource_version=change.item.resource_version,
                spec=dra.encode(change.obj.spec),
                labels=change.obj.metadata.labels,
                annotations=change.obj.metadata.annotations,
                extended_resource_name=(change.obj.spec.extended_resource_name or "")[:253],
                created_at=parse_time(change.obj.metadata.creation_timestamp),
                managers=managers_of(change.item.raw),
                problem=old.problem if old else "",
            )
            rows.append(row)
            if old is None or old.spec.get("selectors") != row.spec.get("selectors"):
                differing.append(row)
        save(rows, _COLUMNS)
        seen = [(change.row, row) for change, row in zip(changes, rows, strict=True)]
        class_history.note_seen(cluster_id=turn.cluster_id, changes=seen, now=turn.now)
        matching.match_classes(turn, differing)

    def lose(self, turn: Turn, rows: Sequence[DeviceClass]) -> None:
        turn.fleet_changed = True
        class_history.note_gone(cluster_id=turn.cluster_id, rows=rows, now=turn.now)
        for ids in chunks([row.pk for row in rows]):
            DeviceClass.objects.filter(pk__in=ids).delete()


class _Entry(msgspec.Struct, rename="camel"):
    manager: str = ""
    fields_v1: dict[str, Any] = msgspec.field(name="fieldsV1", default_factory=dict)


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: list[_Entry] = []


class _Managed(msgspec.Struct):
    metadata: _Metadata


_managed = msgspec.json.Decoder(_Managed)


def managers_of(raw: bytes) -> list[str]:
    """Who set fields of an object, each once; those that set some of its spec first. Nobody where that cannot
    be read: it says nothing about the object itself."""
    try:
        entries = _managed.decode(raw).metadata.managed_fields
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return []
    ordered = sorted(entries, key=lambda entry: "f:spec" not in entry.fields_v1)
    return list(dict.fromkeys(entry.manager[:128] for entry in ordered if entry.manager))
