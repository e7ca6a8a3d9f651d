"""What a page costs: the same number of queries however much there is to show, no more than was recorded, and
a weight that a slow line carries.

`queries.toml` is the record. After a change that is worth its queries, write it anew with
``CLAIMDESK_RECORD_QUERIES=1 pytest tests/browser/test_queries.py`` and let the difference be reviewed.
"""

import gzip
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.staticfiles import finders
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.browser.pages import PAGES, Page
from tests.browser.sessions import signed_in
from tests.browser.world import World, keep_in_step, make_world
from tests.cast import make_cast

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(900)]

RECORD = Path(__file__).with_name("queries.toml")
# Queries of the transaction around a test are none of the page.
OWN = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT", "BEGIN", "COMMIT")
LIGHT = 300_000
# What pages of cost ask for depends on how much of the month is over: a record is of one day.
DAY = datetime(2026, 11, 30, 12, tzinfo=UTC)
ASSETS = re.compile(r'<(?:script|link)\b[^>]*?\b(?:src|href)="/static/([^"]+)"')


def test_pages_ask_as_much_of_the_database_as_recorded_however_much_there_is() -> None:
    with time_machine.travel(DAY):
        with undone():
            few = _measure(make_world(make_cast()))
        with undone():
            many = _measure(make_world(make_cast(), size=3))
    if os.environ.get("CLAIMDESK_RECORD_QUERIES"):
        _record({name: max(few[name], many[name]) for name in few})
    recorded = tomllib.loads(RECORD.read_text(encoding="utf-8"))

    assert {name: (few[name], many[name]) for name in few if few[name] != many[name]} == {}
    assert set(few) == set(recorded), "a page without a record, or a record without a page"
    assert {name: (count, recorded[name]) for name, count in few.items() if count > recorded[name]} == {}


def test_pages_without_charts_are_light() -> None:
    with undone():
        world = make_world(make_cast(), size=3)
        opened = {page.name: _open(world, page) for page in PAGES}
    light = {name: response for name, response in opened.items() if b"echarts" not in response.content}
    weights = {name: _weight(response) for name, response in light.items()}
    assert {name: weight for name, weight in weights.items() if weight > LIGHT} == {}


@contextmanager
def undone() -> Iterator[None]:
    """Whatever happens within has not happened afterwards."""
    cache.clear()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    cache.clear()


def _measure(world: World) -> dict[str, int]:
    counts = {}
    for page in PAGES:
        client, path = _client(world, page), page.path(world)
        # Once for what a process keeps for all its life, then as somebody finds it whom no cache helps.
        client.get(path)
        keep_in_step()
        cache.clear()
        with CaptureQueriesContext(connection) as queries:
            client.get(path)
        counts[page.name] = sum(not query["sql"].startswith(OWN) for query in queries)
    return counts


def _client(world: World, page: Page) -> Client:
    role = page.roles[0]
    return Client() if role == "anonymous" else signed_in(getattr(world.cast, role))


def _open(world: World, page: Page) -> Any:
    client = _client(world, page)
    response: Any = client.get(page.path(world))
    if page.follows:
        response = client.get(response["Location"])
    assert response.status_code == page.status, page.name
    return response


def _weight(response: Any) -> int:
    """Bytes that a browser fetches for a page that it has never seen, compressed."""
    total = len(gzip.compress(response.content, 6, mtime=0))
    for name in set(ASSETS.findall(response.content.decode())):
        path = finders.find(name)
        assert isinstance(path, str), name
        total += len(gzip.compress(Path(path).read_bytes(), 6, mtime=0))
    return total


def _record(counts: dict[str, int]) -> None:
    lines = [
        "# Queries of each page, see test_queries.py.",
        *(f"{name} = {counts[name]}" for name in sorted(counts)),
    ]
    RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
