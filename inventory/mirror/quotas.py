"""ResourceQuotas, with Kubernetes' own keys for devices among the others."""

import msgspec

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change
from inventory.mirror.plain import Metadata, PlainKind
from inventory.mirror.turn import Turn, parse_time
from inventory.models import ResourceQuota

Amounts = dict[str, str | int | float]


class _Spec(msgspec.Struct):
    hard: Amounts | None = None


class _Status(msgspec.Struct):
    hard: Amounts | None = None
    used: Amounts | None = None


class QuotaObject(msgspec.Struct):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class ResourceQuotas(PlainKind[ResourceQuota, QuotaObject]):
    plural = "resourcequotas"
    model = ResourceQuota
    namespaced = True
    columns = ("labels", "annotations", "created_at", "hard", "used", "counted")

    def decode(self, item: Item) -> QuotaObject:
        return decode_core(item, QuotaObject)

    def row(self, turn: Turn, change: Change[ResourceQuota, QuotaObject]) -> ResourceQuota:
        obj = change.obj
        return ResourceQuota(
            **self.common(turn, change),
            labels=obj.metadata.labels or {},
            annotations=obj.metadata.annotations or {},
            created_at=parse_time(obj.metadata.creation_timestamp),
            hard=_texts(obj.status.hard or obj.spec.hard),
            used=_texts(obj.status.used),
            counted=bool(obj.status.hard),
        )


def _texts(amounts: Amounts | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}
