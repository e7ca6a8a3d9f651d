"""RuntimeClasses: which handler of a node's runtime Pods may ask for."""

from typing import Any

import msgspec

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change
from inventory.mirror.plain import Metadata, PlainKind
from inventory.mirror.turn import Turn, parse_time
from inventory.models import RuntimeClass


class _Overhead(msgspec.Struct, rename="camel"):
    pod_fixed: dict[str, str | int | float] | None = None


class RuntimeClassObject(msgspec.Struct):
    metadata: Metadata
    handler: str
    scheduling: dict[str, Any] | None = None
    overhead: _Overhead | None = None


class RuntimeClasses(PlainKind[RuntimeClass, RuntimeClassObject]):
    plural = "runtimeclasses"
    model = RuntimeClass
    columns = ("handler", "labels", "created_at", "scheduling", "overhead")

    def decode(self, item: Item) -> RuntimeClassObject:
        return decode_core(item, RuntimeClassObject)

    def row(self, turn: Turn, change: Change[RuntimeClass, RuntimeClassObject]) -> RuntimeClass:
        obj = change.obj
        overhead = (obj.overhead and obj.overhead.pod_fixed) or {}
        return RuntimeClass(
            **self.common(turn, change),
            handler=obj.handler[:253],
            labels=obj.metadata.labels or {},
            created_at=parse_time(obj.metadata.creation_timestamp),
            scheduling=obj.scheduling or {},
            overhead={name: str(amount) for name, amount in overhead.items()},
        )
