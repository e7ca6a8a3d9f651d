"""A desk that several tests may share: each leaves it whole, and looks at its own requests only."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.database import Database
from tests.system.desk import Desk, running


@pytest.fixture(scope="session", autouse=True)
def short_leases() -> Iterator[None]:
    """The lease of a follower that was killed has to run out before another may follow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAIMDESK_FOLLOWER_LEASE_SECONDS", "2")
        yield


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Over the sample fleet, in step with it."""
    with running(tmp_path_factory.mktemp("system")) as desk:
        desk.until_in_step()
        yield desk


@pytest.fixture
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    # Up to the root: PostgreSQL runs as a user of its own where we are root.
    directory = tmp_path_factory.mktemp("pg")
    for above in (directory, *directory.parents):
        if above.owner() == Path.home().owner() and not os.access(above, os.X_OK):
            above.chmod(above.stat().st_mode | 0o011)
    made = Database(directory)
    yield made
    made.close()
