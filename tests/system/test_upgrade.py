"""An upgrade while people work: processes of the release before go on over the schema of this one, those of
this one are not ready before it is there, and nothing is lost on the way.

The release before is the commit before the first migration that came after it (`RELEASED`), out of the
history of the checkout; where there is none, there is nothing to try.
"""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
import requests
from django.db.migrations.loader import MigrationLoader

from portal.env import BASE_DIR
from portal.stack import Part, Stack
from tests.operations.migration_rules import after_release
from tests.system.database import Database
from tests.system.desk import Desk, running, until

pytestmark = [
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(900),
    pytest.mark.nodatabase,
    pytest.mark.long,
]
READY = {"database": "ok", "migrations": "ok", "broker": "ok"}


def git(*arguments: str) -> bytes:
    program = shutil.which("git")
    if program is None or not (BASE_DIR / ".git").exists():
        pytest.skip("no history here to take the release before from")
    done = subprocess.run([program, *arguments], cwd=BASE_DIR, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"the history cannot be read: {done.stderr.decode()[:200]}")
    return done.stdout


@pytest.fixture
def release_before(tmp_path: Path) -> Path:
    """A checkout of it."""
    new = [
        Path(*migration.__module__.split(".")) for _n, migration in after_release(MigrationLoader(None).graph)
    ]
    if not new:
        pytest.skip("the schema is that of the release before")
    paths = [f"{path}.py" for path in new]
    added = git("log", "--diff-filter=A", "--format=%H", "--", *paths).decode().split()
    if not added:
        pytest.skip("the first migrations of this release are not in the history")
    directory = tmp_path / "before"
    with tarfile.open(fileobj=BytesIO(git("archive", f"{added[-1]}^"))) as archive:
        archive.extractall(directory, filter="data")
    # What is no part of a commit: the packages of pages.
    (directory / "node_modules").symlink_to(BASE_DIR / "node_modules")
    return directory


@contextmanager
def code_of(directory: Path) -> Iterator[None]:
    """What is started meanwhile is started there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portal.stack.BASE_DIR", directory)
        patch.setattr("tests.system.desk.BASE_DIR", directory)
        yield


def migrate(stack: Stack, *, patience: str) -> subprocess.CompletedProcess[str]:
    """As the Job does it, which waits so long for a lock."""
    return subprocess.run(
        [sys.executable, "manage.py", "migrate", "--noinput"],
        cwd=BASE_DIR,
        env={**stack.environment, "PGOPTIONS": f"-c lock_timeout={patience}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ready(url: str) -> dict[str, str]:
    """What `/readyz` says, {} while nobody answers; ready or not has to be what it says."""
    try:
        answer = requests.get(f"{url}/readyz", timeout=10)
    except requests.ConnectionError:
        return {}
    told = dict(line.split(": ", 1) for line in answer.text.splitlines())
    assert (answer.status_code == 200) is (told["database"] == told.get("migrations") == "ok")
    return told


def work(desk: Desk) -> None:
    """A device is asked for, held, given back, and billed for."""
    path, claim = desk.held()
    desk.release(path)
    desk.until_state(path, "ended")
    until(lambda: [row["ended_at"] for row in desk.history_of(claim)], "its end in the history")


def test_the_release_before_goes_on_over_the_new_schema_until_the_new_one_takes_over(
    database: Database, release_before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.url)
    with code_of(release_before), running(tmp_path) as desk:
        desk.until_in_step()
        kept, _claim = desk.held()
        old = {part.name: part for part in desk.stack.parts}
        new_url = desk.second("web")
        desk.kill("web-2")

        # A web server of this release over the old schema: it lives, says what is missing, and is not ready.
        with code_of(BASE_DIR):
            desk.restart("web-2")
        until(lambda: ready(new_url), "the new web server")
        told = ready(new_url)
        assert told["migrations"].endswith("not applied"), told
        assert requests.get(f"{new_url}/healthz", timeout=10).status_code == 200
        assert ready(desk.stack.url) == READY

        # Somebody reads for long, such as an export: the migration gives up instead of having all wait.
        with psycopg.connect(database.url) as reader:
            reader.execute("SELECT count(*) FROM claims_request")
            tried = migrate(desk.stack, patience="500ms")
            assert tried.returncode != 0
            assert "lock timeout" in tried.stderr
            assert desk.state_of(kept) == "allocated"
        done = migrate(desk.stack, patience="10s")
        assert done.returncode == 0, done.stderr

        # The old processes work on over the new schema, and the new web server is ready.
        assert ready(desk.stack.url) == READY
        until(lambda: ready(new_url) == READY, "the new web server is ready")
        work(desk)
        assert old_still_run(old) == []

        # One after the other they are replaced.
        with code_of(BASE_DIR):
            for name in ("follower", "worker", "beat", "web"):
                desk.stop(name)
                desk.restart(name)
                if name != "web":
                    # The old web server beside new workers.
                    desk.until_state(kept, "allocated")
            until(lambda: ready(desk.stack.url) == READY, "the new web server in the place of the old one")
            desk.until_in_step()
            work(desk)
            desk.release(kept)
            desk.until_state(kept, "ended")
            assert desk.faults() == []


def old_still_run(parts: dict[str, Part]) -> list[str]:
    return [f"{name}: {part.last_lines()}" for name, part in parts.items() if part.exit_code is not None]
