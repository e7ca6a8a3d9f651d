"""One worker at a time: a name in the cache that its holder keeps alive.

The cache forgets the name soon after a holder that was killed, so that work does not wait for the dead. It
may also forget it too early: what is done under a name has to come out right when two do it.
"""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.cache import cache

# Seconds: how long a name outlasts its holder, and how often a holder says that it lives.
OUTLASTS = 90
SAID_EVERY = 20.0


@contextmanager
def sole(name: str, *, outlasts: int = OUTLASTS, said_every: float = SAID_EVERY) -> Iterator[bool]:
    """Whether the name is ours for the length of the block; False = somebody else has it."""
    holder = secrets.token_hex(8)
    if not cache.add(name, holder, timeout=outlasts):
        yield False
        return
    over = threading.Event()

    def keep() -> None:
        while not over.wait(said_every):
            cache.touch(name, outlasts)

    keeper = threading.Thread(target=keep, name=f"keeps {name}", daemon=True)
    keeper.start()
    try:
        yield True
    finally:
        over.set()
        keeper.join()
        if cache.get(name) == holder:
            cache.delete(name)
