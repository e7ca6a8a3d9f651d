"""How long to wait after a failure."""

import random

FIRST = 0.5
LONGEST = 15.0


class Backoff:
    """Doubles from FIRST to LONGEST with jitter, so that many followers do not come back at the same
    moment."""

    def __init__(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self, *, retry_after: float | None = None) -> float:
        """Seconds to wait now; never less than the server asked for."""
        wait = min(LONGEST, FIRST * float(2**self._failures))
        self._failures = min(self._failures + 1, 16)
        # Up to half of it at random; what the server asks for is a minimum and is not shortened.
        jittered = wait * (0.5 + random.random() / 2)  # noqa: S311 - not a secret
        return max(jittered, retry_after or 0.0)
