"""Events as kube-scheduler writes them: by the newer API, where what happens again is a series.

Of a series only the beginning is sure to be read: its first Event keeps its words though later failures have
others, the second occurrence adds a count, and those after it are written half an hour later at the earliest.
Whoever wants to know why a Pod waits *now* has to read its condition.
"""

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.demo.store import Object

from .world import World

# How long nothing may happen until the next occurrence begins a new series; how often a long one is written.
ENDS_AFTER = timedelta(minutes=6)
REFRESHED_EVERY = timedelta(minutes=30)
MAX_SERIES = 4096


@dataclass
class _Series:
    name: str
    count: int
    last: datetime
    written: datetime


class SeriesRecorder:
    """Tells what one component does, about objects of namespaces."""

    def __init__(self, world: World, component: str) -> None:
        self._world = world
        self._component = component
        self._known: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._numbers = itertools.count()

    def record(
        self, about: Object, *, kind: str, reason: str, action: str, message: str, warning: bool = False
    ) -> None:
        """Something happened to ``about``: a new Event, or one more of its series."""
        metadata, now = about["metadata"], self._world.now
        key = (metadata["uid"], reason, action)
        series = self._known.get(key)
        if series is not None and now - series.last < ENDS_AFTER and self._again(metadata, series, now):
            self._known.move_to_end(key)
            return
        name = f"{metadata['name'][:230]}.{int(now.timestamp() * 1e9) + next(self._numbers):x}"
        self._world.store.create(
            "events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": metadata["namespace"]},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": kind,
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                    "resourceVersion": metadata["resourceVersion"],
                },
                "reason": reason,
                "action": action,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {},
                "reportingComponent": self._component,
                "reportingInstance": f"{self._component}-embedded",
                "eventTime": _micro(now),
            },
            namespace=metadata["namespace"],
            manager=self._component,
        )
        self._known[key] = _Series(name, 1, now, now)
        if len(self._known) > MAX_SERIES:
            self._known.popitem(last=False)

    def _again(self, metadata: Object, series: _Series, now: datetime) -> bool:
        """Count one more; False if the Event is gone meanwhile."""
        series.count, series.last = series.count + 1, now
        if series.count > 2 and now - series.written < REFRESHED_EVERY:
            return True
        event = self._world.store.find("events", series.name, namespace=metadata["namespace"])
        if event is None:
            return False
        event["series"] = {"count": series.count, "lastObservedTime": _micro(now)}
        self._world.store.update("events", event, namespace=metadata["namespace"], manager=self._component)
        series.written = now
        return True


def _micro(moment: datetime) -> str:
    """As the API writes a MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
