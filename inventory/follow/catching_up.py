"""What a watch tells first may have happened while there was none: news that are old."""

import time
from collections.abc import Sequence
from datetime import timedelta

from inventory.mirror.batches import Item
from inventory.mirror.decoding import item_of
from portal.kube.resources import Resource
from portal.kube.watch import Bookmark, Event

# After a longer time without a watch, of what happened in it only the bounds are known. Much less than what
# the ledger allows for clocks that differ: else two would seem to have held a device at the same time.
BRACKETED = timedelta(seconds=1)
# How long old news may take where versions do not tell them from what is new.
SECONDS = 1.0

_ANY = Resource("v1", "any", namespaced=True, kind="Any")


def version_of(raw: bytes) -> str:
    """The resourceVersion of an object of any kind; "" where it cannot be read."""
    named = item_of(raw, resource=_ANY)
    return named.resource_version if isinstance(named, Item) else ""


def is_news(events: Sequence[Event | Bookmark], *, behind: int | None, by: float) -> bool:
    """Whether the first of these happened after the server was asked for its version `behind`; where that
    cannot be compared, whether it is later than `by` on the monotonic clock."""
    first = events[0]
    version = first.resource_version if isinstance(first, Bookmark) else version_of(bytes(first.object))
    if behind is None or not version.isdecimal():
        return time.monotonic() >= by
    return int(version) > behind
