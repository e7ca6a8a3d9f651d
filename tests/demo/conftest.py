"""Fixtures of the embedded cluster's own tests."""

from collections.abc import Iterator

import pytest

from portal.demo.namespaces import found_first
from portal.demo.store import Store
from tests.demo.api import Api, serving


@pytest.fixture
def api() -> Iterator[Api]:
    """A server without controllers, with the namespace ``lab``."""
    with serving() as running:
        yield running


@pytest.fixture
def store() -> Store:
    """A store in this thread, with the namespace ``lab``."""
    fresh = Store()
    found_first(fresh)
    fresh.create("namespaces", {"metadata": {"name": "lab"}})
    return fresh
