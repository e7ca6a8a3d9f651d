"""An index of a large table is made while others write, and can be begun again where it was broken off."""

from collections.abc import Iterator

import pytest
from django.db import NotSupportedError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from portal.online import AddIndexOnline

NAME = "allocations_by_claim_while_trying"
ADD = AddIndexOnline("allocation", models.Index(fields=["claim_name"], name=NAME))


@pytest.fixture
def states(transactional_db: None) -> Iterator[tuple[ProjectState, ProjectState]]:
    """Before and after the index, which is gone at the end."""
    before = MigrationLoader(connection).project_state()
    after = before.clone()
    ADD.state_forwards("claims", after)
    yield before, after
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


def forwards(states: tuple[ProjectState, ProjectState]) -> None:
    with connection.schema_editor(atomic=False) as editor:
        ADD.database_forwards("claims", editor, *states)


def there() -> bool:
    catalogue = (
        "SELECT indexname FROM pg_indexes WHERE indexname = %s"
        if connection.vendor == "postgresql"
        else "SELECT name FROM sqlite_master WHERE name = %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(catalogue, [NAME])
        return cursor.fetchone() is not None


def test_it_is_made_and_removed(states: tuple[ProjectState, ProjectState]) -> None:
    forwards(states)
    assert there()
    with connection.schema_editor(atomic=False) as editor:
        ADD.database_backwards("claims", editor, *reversed(states))
    assert not there()


@pytest.mark.postgresql
def test_what_was_broken_off_is_made_anew(states: tuple[ProjectState, ProjectState]) -> None:
    forwards(states)
    valid = f"SELECT indisvalid FROM pg_index WHERE indexrelid = '{NAME}'::regclass"
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '5s'")
        cursor.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{NAME}'::regclass")
        forwards(states)
        cursor.execute(valid)
        assert cursor.fetchone() == (True,)
        # Made, but not yet written down as made. The migrations after it give up as those before it.
        cursor.execute("SET lock_timeout = '5s'")
        forwards(states)
        cursor.execute(valid)
        assert cursor.fetchone() == (True,)
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("5s",)
        cursor.execute("RESET lock_timeout")


@pytest.mark.postgresql
def test_it_says_that_it_needs_a_migration_without_a_transaction(
    states: tuple[ProjectState, ProjectState],
) -> None:
    with transaction.atomic(), pytest.raises(NotSupportedError, match="atomic = False"):
        forwards(states)
