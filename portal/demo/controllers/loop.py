"""The loop that every controller runs: a queue of keys, each looked at once, soon or later, again after a
failure."""

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import Hashable
from typing import Generic, TypeVar

from portal.demo.errors import ApiError

K = TypeVar("K", bound=Hashable)
log = logging.getLogger(__name__)

FIRST_RETRY = 0.2
LAST_RETRY = 10.0


class Queue(Generic[K]):
    """Keys with the time at which they are due; asking again for a key only ever makes it earlier."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, *, after: float = 0.0) -> None:
        """Look at ``key`` in ``after`` seconds at the latest."""
        due = asyncio.get_running_loop().time() + after
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._woken.set()

    async def take(self) -> K:
        """The next key that is due."""
        clock = asyncio.get_running_loop().time
        while True:
            self._woken.clear()
            while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
                heapq.heappop(self._heap)  # asked for earlier meanwhile, or done
            wait = self._heap[0][0] - clock() if self._heap else None
            if wait is not None and wait <= 0:
                key = heapq.heappop(self._heap)[2]
                del self._due[key]
                return key
            # Not wait_for, which before Python 3.12 may swallow a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()


class Controller(Generic[K]):
    """Brings the world nearer to what one object says, whenever that object or what it leans on changes."""

    name = "controller"

    def __init__(self) -> None:
        self.queue: Queue[K] = Queue()
        self._failures: dict[K, int] = {}

    def sync(self, key: K) -> float | None:
        """Do what is to be done for ``key``; return the seconds after which to look again, if that is known.

        Runs without awaiting, so what it reads stays true until it has written. An ApiError means: try again.
        """
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            key = await self.queue.take()
            try:
                again = self.sync(key)
            except ApiError as error:
                again = self._backoff(key)
                log.warning("%s: %s: %s; again in %.1f s", self.name, key, error.message, again)
            except Exception:
                again = self._backoff(key)
                log.exception("%s: %s; again in %.1f s", self.name, key, again)
            else:
                self._failures.pop(key, None)
            if again is not None:
                self.queue.add(key, after=again)
            await asyncio.sleep(0)  # let requests be served between two objects

    def _backoff(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(FIRST_RETRY * 2.0 ** (failures - 1), LAST_RETRY)
