"""The database keeps the audit trail, whatever the code tries."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from inventory.models import Observation
from portal.accounts.audit import record
from portal.accounts.models import AuditEntry
from portal.append_only import REFUSED, lift, protect
from tests.access.calls import undone
from tests.cast import Cast, cast, cheap_passwords
from tests.inventory_pages.factories import make_cluster

__all__ = ["cast", "cheap_passwords"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def entry(cast: Cast) -> AuditEntry:
    return record(now=timezone.now(), actor=cast.lead, action="project.change", target=cast.project)


def run(sql: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE accounts_auditentry SET action = 'nothing.happened'",
        "UPDATE accounts_auditentry SET actor_id = NULL",
        "DELETE FROM accounts_auditentry",
    ],
)
def test_no_statement_changes_an_entry(entry: AuditEntry, sql: str) -> None:
    with pytest.raises(IntegrityError, match="never changed"):
        run(sql)

    assert AuditEntry.objects.get() == entry


def test_the_trail_is_not_emptied(entry: AuditEntry) -> None:
    postgresql = connection.vendor == "postgresql"
    # What still waits to be checked would keep PostgreSQL from emptying anything.
    emptying = "SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE" if postgresql else "DELETE FROM"
    with pytest.raises(IntegrityError, match="never changed"):
        run(f"{emptying} accounts_auditentry")


def test_observations_are_never_changed_but_go_with_their_cluster() -> None:
    cluster, now = make_cluster(), timezone.now()
    Observation.objects.create(
        cluster=cluster, kind="gap", at=now, source="observed", observed_at=now, name="x", uid="x", key="x"
    )
    with pytest.raises(IntegrityError, match="never changed"):
        run("UPDATE inventory_observation SET name = 'y'")

    cluster.delete()

    assert not Observation.objects.exists()


@pytest.mark.parametrize("again", [protect, lambda _connection: None])
def test_protection_is_put_there_once(entry: AuditEntry, again: Callable[..., None]) -> None:
    with undone():
        lift(connection)
        run("UPDATE accounts_auditentry SET action = 'as tests may'")
        protect(connection)
        again(connection)
        with pytest.raises(IntegrityError):
            run("UPDATE accounts_auditentry SET action = 'x'")


def test_every_protected_table_is_there() -> None:
    assert set(REFUSED) <= set(connection.introspection.table_names())
