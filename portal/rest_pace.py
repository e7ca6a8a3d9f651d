"""How often one token may call the REST API in a minute: a program that runs away, or a token that was
stolen, keeps nobody else from the desk.

Each web server counts for itself, in whole minutes: it costs nothing, and goes on while the broker is away.
"""

import threading
import time
from typing import Any

from django.conf import settings
from rest_framework.throttling import BaseThrottle

from portal.accounts.models import ApiToken

MINUTE = 60


class Counts:
    """Calls of the present minute, by token."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = 0
        self._calls: dict[str, int] = {}

    def take(self, who: str, *, minute: int, most: int) -> bool:
        """Count one call; whether it is within `most`. What is refused is not counted."""
        with self._lock:
            if minute != self._minute:
                self._minute, self._calls = minute, {}
            calls = self._calls.get(who, 0)
            if calls >= most:
                return False
            self._calls[who] = calls + 1
            return True


_counts = Counts()


class Pace(BaseThrottle):
    """What every REST view has. People in a browser are let through, and nodes: these have a pace of their
    own."""

    def allow_request(self, request: Any, view: Any) -> bool:  # noqa: ARG002 - the interface
        most: int = settings.API_PER_MINUTE
        if most <= 0 or not isinstance(request.auth, ApiToken):
            return True
        return _counts.take(str(request.auth.pk), minute=int(time.time() // MINUTE), most=most)

    def wait(self) -> float:
        """Seconds until the next minute."""
        return MINUTE - time.time() % MINUTE
