"""What every mirrored kind has in common: finding rows, comparing versions, taking objects and losing
them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model

from inventory.mirror.batches import Item, Key
from inventory.mirror.turn import Turn
from portal import bulk
from portal.sql import chunks

# Rows in one statement; Django makes it less where the database allows fewer parameters.
WRITE_BATCH = 500

Row = TypeVar("Row", bound=Model)
Obj = TypeVar("Obj")


def save(rows: Sequence[Any], columns: Sequence[str], *, model: type[Model] | None = None) -> None:
    """Insert rows that have no primary key yet (it is set on them), and write `columns` of those that have
    one. Rows may be anything with the columns of `model`.

    Rows are complete; writing them as an upsert is several times faster than `bulk_update`.
    """
    known = [row for row in rows if row.pk is not None]
    bulk.create([row for row in rows if row.pk is None], model=model)
    bulk.overwrite(known, columns, model=model)


class Unusable(Exception):
    """An object that cannot be mirrored; `path` is the field at fault, as in the API."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True)
class Change(Generic[Row, Obj]):
    """An object that differs from its row (None: it has none yet)."""

    item: Item
    obj: Obj
    row: Row | None


class MirroredKind(Generic[Row, Obj]):
    """One mirrored kind. A subclass decodes its objects, stores changes and handles losses."""

    plural: ClassVar[str]
    model: type[Row]
    namespaced: ClassVar[bool] = False
    # Whether a namesake with another uid is another object, with a history of its own.
    has_history: ClassVar[bool] = True
    # Whether it says itself (`turn.changed`) if a stored change matters to what is computed from the mirror;
    # else every one does.
    notes_changes: ClassVar[bool] = False
    # Whether a time that no watch covered is worth remembering.
    notes_gaps: ClassVar[bool] = True

    def rows(self, turn: Turn, keys: Collection[Key]) -> dict[Key, Row]:
        """The rows of these objects."""
        found: dict[Key, Row] = {}
        wanted = set(keys)
        for names in chunks({name for _, name in wanted}):
            for row in self._manager().filter(cluster_id=turn.cluster_id, name__in=names):
                key = self.key_of(row)
                if key in wanted:
                    found[key] = row
        return found

    def versions(self, turn: Turn) -> Mapping[Key, str]:
        """The uid of every row, to compare a completed list with."""
        fields = ("namespace", "name", "uid") if self.namespaced else ("name", "uid")
        rows = self._manager().filter(cluster_id=turn.cluster_id).values_list(*fields)
        return {(row[0], row[1]) if self.namespaced else ("", row[0]): row[-1] for row in rows.iterator()}

    def key_of(self, row: Row) -> Key:
        values: Any = row
        return (values.namespace if self.namespaced else "", values.name)

    def decode(self, item: Item) -> Obj:
        """The object; raises Unusable."""
        raise NotImplementedError

    def store(self, turn: Turn, changes: Sequence[Change[Row, Obj]]) -> None:
        """Write new and changed objects; each key occurs once."""
        raise NotImplementedError

    def lose(self, turn: Turn, rows: Sequence[Row]) -> None:
        """The objects of these rows are gone."""
        raise NotImplementedError

    def settle(self, turn: Turn) -> None:
        """After each batch."""

    def forget(self) -> None:
        """Drop what is remembered between transactions: one was rolled back."""

    def count(self, turn: Turn) -> int:
        """How many objects are mirrored."""
        return int(self._manager().filter(cluster_id=turn.cluster_id).count())

    def _manager(self) -> Any:
        return self.model._default_manager
