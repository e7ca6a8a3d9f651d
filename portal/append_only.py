"""Tables that only grow: the database itself refuses to change what is in them.

Triggers, put there after every `migrate` (and not by one migration, since SQLite forgets the triggers of a
table whenever a migration has to make it anew). Whoever wants to break the trail has to change the schema
first, which no code of the desk does; `manage.py flush` is refused as well while there are entries.
"""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

# What is refused, by table. Observations go with their cluster, and when they are archived.
REFUSED = {
    "accounts_auditentry": ("UPDATE", "DELETE"),
    "inventory_observation": ("UPDATE",),
    "inventory_platformchange": ("UPDATE",),
    # A price book never changes: other prices are another book.
    "claims_pricebook": ("UPDATE", "DELETE"),
    "claims_price": ("UPDATE", "DELETE"),
    "claims_pricerule": ("UPDATE", "DELETE"),
    "claims_pricediscount": ("UPDATE", "DELETE"),
    "claims_statementline": ("UPDATE", "DELETE"),
    "claims_disputeentry": ("UPDATE", "DELETE"),
    # They go with the plan of their node pool.
    "claims_poolplanentry": ("UPDATE",),
    "claims_poolsignature": ("UPDATE",),
    # Until it is closed, a month is rated anew; until somebody decided, an adjustment waits.
    "claims_charge": ("UPDATE", "DELETE"),
    "claims_statement": ("UPDATE", "DELETE"),
    "claims_adjustment": ("UPDATE", "DELETE"),
}
# Only of rows that were so before.
WHEN = {
    "claims_charge": "OLD.closed",
    "claims_statement": "OLD.state = 'closed'",
    "claims_adjustment": "OLD.state <> 'proposed'",
}
FUNCTION = "claimdesk_refuse_change"


def protect(connection: BaseDatabaseWrapper) -> None:
    """Puts the triggers there; those that are there already stay as they are. Tables that are not there (yet)
    are passed over."""
    tables = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        for statement in _statements(connection.vendor, tables):
            cursor.execute(statement)


def lift(connection: BaseDatabaseWrapper) -> None:
    """Takes them away, until the next `protect`: for tests, which empty every table."""
    tables = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        for table, change in _refusals(connection.vendor, tables):
            suffix = f" ON {table}" if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER IF EXISTS {_trigger(table, change)}{suffix}")


def after_migrate(*, using: str, **_: Any) -> None:
    """Receiver of `post_migrate`."""
    protect(connections[using])


def _refusals(vendor: str, tables: set[str]) -> list[tuple[str, str]]:
    found = [(table, change) for table, changes in REFUSED.items() if table in tables for change in changes]
    if vendor == "postgresql":
        # There, emptying a table is no DELETE.
        found += [(table, "TRUNCATE") for table, change in found if change == "DELETE"]
    return found


def _statements(vendor: str, tables: set[str]) -> list[str]:
    refusals = _refusals(vendor, tables)
    if vendor == "sqlite":
        return [
            f"CREATE TRIGGER IF NOT EXISTS {_trigger(table, change)} BEFORE {change} ON {table} "
            f"{_when(table, change)}BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
            for table, change in refusals
        ]
    function = (
        f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME "
        "USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    return [
        function,
        *(
            f"CREATE OR REPLACE TRIGGER {_trigger(table, change)} BEFORE {change} ON {table} "
            f"FOR EACH {'STATEMENT' if change == 'TRUNCATE' else 'ROW'} {_when(table, change)}"
            f"EXECUTE FUNCTION {FUNCTION}()"
            for table, change in refusals
        ),
    ]


def _when(table: str, change: str) -> str:
    return f"WHEN ({WHEN[table]}) " if table in WHEN and change != "TRUNCATE" else ""


def _trigger(table: str, change: str) -> str:
    return f"{table}_no_{change.lower()}"
