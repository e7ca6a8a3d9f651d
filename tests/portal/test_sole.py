"""Of workers that want to do the same thing one does it, and the dead keep nobody from it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from portal.sole import sole

NAME = "tests:sole"


@pytest.fixture(autouse=True)
def nobody_has_it() -> Iterator[None]:
    cache.delete(NAME)
    yield
    cache.delete(NAME)


def seconds_left() -> int:
    backend: Any = cache
    key = backend.make_and_validate_key(NAME)
    left: int = backend._cache.get_client(key).ttl(key)
    return left


def test_of_two_one_has_it_and_the_next_after_it() -> None:
    with sole(NAME) as first, sole(NAME) as second:
        assert (first, second) == (True, False)
    with sole(NAME) as third:
        assert third


def test_what_fails_lets_go() -> None:
    with pytest.raises(ZeroDivisionError), sole(NAME):
        raise ZeroDivisionError
    with sole(NAME) as ours:
        assert ours


def test_it_outlasts_its_holder_by_little_and_is_kept_for_as_long_as_it_takes() -> None:
    with sole(NAME, outlasts=60, said_every=0.05):
        assert 0 < seconds_left() <= 60
        # As if nearly all of it were over.
        deadline = time.monotonic() + 30
        cache.touch(NAME, 10)
        while seconds_left() <= 10 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert seconds_left() > 10


def test_a_name_that_was_lost_and_taken_by_another_stays_with_that_one() -> None:
    with sole(NAME):
        cache.set(NAME, "another", timeout=60)
    assert cache.get(NAME) == "another"
