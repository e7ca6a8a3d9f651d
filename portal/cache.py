"""The cache: Valkey, or this process's own memory while Valkey does not answer.

Nothing in the cache is the truth about anything. It counts attempts to sign in and says that a task waits
already; nobody is to be kept out, and nothing refused, because that is not to be had.
"""

import logging
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


def _spared(name: str) -> Callable[..., Any]:
    """The cache's method `name`; while Valkey is away, that of the memory."""

    def method(self: "ValkeyOrMemory", *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(RedisCache, name)(self, *args, **kwargs)
        except (RedisError, OSError) as error:
            log.warning("cache unreachable, %s goes to memory: %s", name, error)
            return getattr(self.memory, name)(*args, **kwargs)

    method.__name__ = name
    return method


class ValkeyOrMemory(RedisCache):
    """Django's Redis cache whose operations go to local memory while the server cannot be reached."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        # What OPTIONS says is for the connection to the server.
        self.memory = LocMemCache("while-valkey-is-away", {**params, "OPTIONS": {}})

    # What the other methods of a cache are made of.
    add = _spared("add")
    get = _spared("get")
    set = _spared("set")
    touch = _spared("touch")
    delete = _spared("delete")
    get_many = _spared("get_many")
    has_key = _spared("has_key")
    incr = _spared("incr")
    set_many = _spared("set_many")
    delete_many = _spared("delete_many")
    clear = _spared("clear")
