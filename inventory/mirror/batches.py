"""What the streams hand to the writer."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from portal.kube.resources import Resource

# (namespace, name)
Key = tuple[str, str]

# Far less than the whole seconds in which a cluster tells its times.
TOGETHER = timedelta(milliseconds=100)


@dataclass(frozen=True)
class Item:
    """One object as listed or as a watch delivered it. `raw` is its JSON with kind and apiVersion."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    raw: bytes
    deleted: bool = False

    @property
    def key(self) -> Key:
        return self.namespace, self.name


@dataclass(frozen=True)
class Unreadable:
    """An object that could not even be named: its place in the answer is all that is known."""

    reason: str


@dataclass(frozen=True)
class Gap:
    """From `since` until the batch was received no live watch covered the resource. `lost` says whether
    changes in between can have gone unseen (history was compacted), or came late but complete."""

    since: datetime
    lost: bool


@dataclass
class Batch:
    """Objects of one resource in the order in which they came, and up to where that brings the mirror.

    `since` is the lower bound for the time of what was only observed: None while the watch is live.
    `checkpoint` is the resourceVersion from which a watch may continue once the batch is stored ("" = not
    a point to continue from). `present` is given with the last page of a list: the uid of every object by
    its key; what is not in it is gone.
    """

    resource: Resource
    received_at: datetime
    items: list[Item] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    since: datetime | None = None
    checkpoint: str = ""
    present: dict[Key, str] | None = None
    gap: Gap | None = None
    # When it came, on a clock that only goes forward: how long it waits for its row.
    came: float = field(default_factory=time.monotonic)
    # Take objects even if their resourceVersion is stored already: the server went back in time.
    force: bool = False

    @property
    def only_checkpoint(self) -> bool:
        """Whether it says nothing but how far the stream has come."""
        return not (self.items or self.unreadable or self.gap) and self.present is None


def merged(batches: Iterable[Batch]) -> list[Batch]:
    """The same changes in fewer batches: every batch costs the writer a round of queries, and a busy watch
    delivers its events a few at a time.

    Batches of one live watch that came within TOGETHER become one, as of its last. The order of changes
    within a resource is kept; between resources there is none.
    """
    found: list[Batch] = []
    open_at: dict[Resource, int] = {}
    first: dict[Resource, datetime] = {}
    for batch in batches:
        at = open_at.get(batch.resource)
        if at is None or not _is_live(batch) or batch.received_at - first[batch.resource] > TOGETHER:
            open_at.pop(batch.resource, None)
            if _is_live(batch):
                open_at[batch.resource], first[batch.resource] = len(found), batch.received_at
            found.append(batch)
            continue
        found[at] = replace(
            found[at],
            received_at=batch.received_at,
            items=[*found[at].items, *batch.items],
            unreadable=[*found[at].unreadable, *batch.unreadable],
            checkpoint=batch.checkpoint or found[at].checkpoint,
        )
    return found


def _is_live(batch: Batch) -> bool:
    """Whether it is changes of a live watch and nothing else."""
    return batch.present is None and batch.gap is None and batch.since is None and not batch.force
