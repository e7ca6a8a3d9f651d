"""Exclusive devices have one holder at a time: the database itself refuses intervals that overlap.

PostgreSQL has an exclusion constraint for that, which a migration makes. SQLite gets triggers, put there
after every `migrate`, since it forgets the triggers of a table whenever a migration makes the table anew.
Shares, admin access, units that nobody can name, and intervals that are known to contradict each other
(`contested`) do not count.
"""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

NAME = "allocations_do_not_overlap"
TABLE = "claims_allocation"


def _counts(row: str) -> str:
    """Whether a row is of those that exclude each other."""
    return (
        f"{row}.kind = 'claim' AND {row}.share_id = '' AND NOT {row}.admin_access AND NOT {row}.contested "
        f"AND ({row}.ended_at IS NULL OR {row}.ended_at > {row}.started_at)"
    )


def overlaps(one: str, other: str) -> str:
    """SQL: whether two rows, named so in the statement, hold one exclusive device at the same time."""
    same = " AND ".join(
        f"{other}.{column} = {one}.{column}"
        for column in ("cluster_id", "driver", "pool_name", "device_name")
    )
    return (
        f"{same} AND {other}.id <> {one}.id AND {_counts(one)} AND {_counts(other)} "
        f"AND ({other}.ended_at IS NULL OR {other}.ended_at > {one}.started_at) "
        f"AND ({one}.ended_at IS NULL OR {other}.started_at < {one}.ended_at)"
    )


def protect(connection: BaseDatabaseWrapper) -> None:
    """Puts the triggers there where the database has no exclusion constraints and the table is there."""
    if connection.vendor != "sqlite" or TABLE not in connection.introspection.table_names():
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pragma_table_info(%s)", [TABLE])
        names = {name for (name,) in cursor.fetchall()}
        if "contested" not in names:
            # An older state of the schema, while migrations are tried.
            return
        for event in ("INSERT", "UPDATE"):
            # Before an insert there is no id yet, so what is new is looked at afterwards; RAISE takes it
            # back. Nothing but names of our own goes into the statement (S608 asks).
            cursor.execute(
                f"CREATE TRIGGER IF NOT EXISTS {NAME}_{event.lower()} AFTER {event} ON {TABLE} "  # noqa: S608 - see above
                f"WHEN EXISTS (SELECT 1 FROM {TABLE} AS other WHERE {overlaps('NEW', 'other')}) "
                f"BEGIN SELECT RAISE(ABORT, '{NAME}'); END"
            )


def after_migrate(*, using: str, **_: Any) -> None:
    """Receiver of `post_migrate`."""
    protect(connections[using])
