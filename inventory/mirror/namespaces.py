"""Namespaces: their labels, and whether they admit claims that look at devices of others."""

import msgspec

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change
from inventory.mirror.plain import Metadata, PlainKind
from inventory.mirror.turn import Turn, parse_time
from inventory.models import Namespace

# The label was renamed in 1.34.
ADMIN_ACCESS_LABELS = ("resource.kubernetes.io/admin-access", "resource.k8s.io/admin-access")


class NamespaceObject(msgspec.Struct):
    metadata: Metadata


class Namespaces(PlainKind[Namespace, NamespaceObject]):
    plural = "namespaces"
    model = Namespace
    columns = ("labels", "created_at", "deleted_at", "admin_access")

    def decode(self, item: Item) -> NamespaceObject:
        return decode_core(item, NamespaceObject)

    def row(self, turn: Turn, change: Change[Namespace, NamespaceObject]) -> Namespace:
        metadata = change.obj.metadata
        labels = metadata.labels or {}
        return Namespace(
            **self.common(turn, change),
            labels=labels,
            created_at=parse_time(metadata.creation_timestamp),
            deleted_at=parse_time(metadata.deletion_timestamp),
            admin_access=any(labels.get(name) == "true" for name in ADMIN_ACCESS_LABELS),
        )
