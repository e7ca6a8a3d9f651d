"""Following a resource inside the process, over lost history too."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from portal.demo import errors

if TYPE_CHECKING:
    from portal.demo.store import Store, WatchEvent


async def changes(store: "Store", plural: str, *, since: int | None = None) -> AsyncIterator["WatchEvent"]:
    """Every change for ever; after a loss of history all current objects come again as ADDED."""
    while True:
        try:
            async for event in store.watch(plural, since=since):
                yield event
        except errors.ApiError as error:
            if error.status_code != 410:
                raise
            since = None
