"""Kinds that are kept as they are: each object is one row, and nothing else hangs on it."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from inventory.mirror.kind import Change, MirroredKind, Obj, Row, save
from inventory.mirror.turn import Turn
from portal.sql import chunks


class Metadata(msgspec.Struct, rename="camel"):
    """What plain kinds read of `metadata`."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class PlainKind(MirroredKind[Row, Obj]):
    """A subclass decodes an object and names the columns that it sets."""

    has_history = False
    notes_changes = True
    # All columns but the key.
    columns: ClassVar[Sequence[str]]

    def row(self, turn: Turn, change: Change[Row, Obj]) -> Row:
        """The row of an object: `common` and what the kind reads of it."""
        raise NotImplementedError

    def common(self, turn: Turn, change: Change[Row, Obj]) -> dict[str, Any]:
        """The columns of `Mirrored` (and the namespace)."""
        item = change.item
        place = {"namespace": item.namespace} if self.namespaced else {}
        return place | {
            "pk": change.row.pk if change.row is not None else None,
            "cluster_id": turn.cluster_id,
            "name": item.name,
            "uid": item.uid,
            "resource_version": item.resource_version,
        }

    def store(self, turn: Turn, changes: Sequence[Change[Row, Obj]]) -> None:
        save([self.row(turn, change) for change in changes], [*self.columns, "uid", "resource_version"])

    def lose(self, turn: Turn, rows: Sequence[Row]) -> None:
        for ids in chunks([row.pk for row in rows]):
            self._manager().filter(pk__in=ids).delete()


class Owner(msgspec.Struct):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


def owner_columns(references: Sequence[Owner] | None) -> dict[str, str]:
    """What made an object: its controller, else its only owner."""
    owners = list(references or ())
    owner = next((o for o in owners if o.controller), owners[0] if len(owners) == 1 else Owner())
    return {
        "owner_kind": owner.kind[:63],
        "owner_name": owner.name[:253],
        "owner_uid": owner.uid[:64],
    }
