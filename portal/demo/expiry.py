"""Events are kept for an hour, as on the real server."""

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.demo.store import Store

KEPT = timedelta(hours=1)


async def expire_events(store: "Store", *, every_seconds: float = 60.0) -> None:
    """Remove old Events for ever."""
    while True:
        remove_old_events(store)
        await asyncio.sleep(every_seconds)


def remove_old_events(store: "Store") -> int:
    """Remove the Events that last happened more than an hour ago; returns how many."""
    limit = store.now() - KEPT
    old = [event["metadata"] for event in store.list("events") if _last_seen(event) < limit]
    for metadata in old:
        store.delete("events", metadata["name"], namespace=metadata["namespace"])
    return len(old)


def _last_seen(event: dict[str, Any]) -> datetime:
    series = event.get("series") or {}
    text = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
    return datetime.fromisoformat(text)
