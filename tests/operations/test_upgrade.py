"""A database of the release before goes on with this one, and ends with the schema that a new one has."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from portal.env import BASE_DIR

pytestmark = [pytest.mark.nodatabase, pytest.mark.long, pytest.mark.timeout(400)]

# What stood before a new database was made in one step.
BEFORE = {"accounts": "0003", "inventory": "0014", "claims": "0004"}
STEP_BY_STEP = """
from django.db.migrations.loader import MigrationLoader
whole = MigrationLoader.load_disk
def without_shortcuts(self):
    whole(self)
    for app, name in list(self.disk_migrations):
        if "_squashed_" in name and app in ("accounts", "inventory", "claims"):
            del self.disk_migrations[app, name]
MigrationLoader.load_disk = without_shortcuts
"""


def run(directory: Path, code: str) -> str:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
        "CLAIMDESK_DATA_DIR": str(directory),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    begin = "import django; django.setup()\nfrom django.core.management import call_command\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        cwd=BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def schema(directory: Path) -> tuple[object, ...]:
    """Columns and references by table, and every index and trigger."""
    with sqlite3.connect(directory / "claimdesk.sqlite3") as database:
        tables = [
            name
            for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
            if name != "django_migrations"
        ]
        columns = {
            t: sorted(row[1:6] for row in database.execute(f"PRAGMA table_info('{t}')")) for t in tables
        }
        references = {
            t: sorted(row[2:5] for row in database.execute(f"PRAGMA foreign_key_list('{t}')")) for t in tables
        }
        others = sorted(
            (name, " ".join((sql or "").split()))
            for name, sql in database.execute(
                "SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'trigger')"
            )
            if not name.startswith("sqlite_autoindex")
        )
    database.close()
    return columns, references, others


def test_the_release_before_and_a_new_database_end_alike(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    steps = "".join(
        f"call_command('migrate', {app!r}, {name!r}, verbosity=0)\n" for app, name in BEFORE.items()
    )
    run(old, STEP_BY_STEP + steps)
    run(old, "call_command('migrate', verbosity=0)")
    run(new, "call_command('migrate', verbosity=0)")
    assert schema(old) == schema(new)
    told = run(old, "from portal.health import migrations_trouble\nprint(repr(migrations_trouble()))")
    assert told.strip() == "''"
