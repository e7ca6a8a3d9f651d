"""Who writes charges, and who closes a month: never both at once.

What belongs into a month is decided by whether its statement is closed. A statement that is closed between
that look and the write would have a charge that nobody bills, and a digest that is not that of its charges.
SQLite has one writer at a time. On PostgreSQL, writers share a lock until their transaction ends, and who
closes waits for all of them, and they for it.
"""

from django.db import connection

# Locks of the desk's own database, by numbers that mean nothing.
_MONTHS = 7_268_001
_CORRECTIONS = 7_268_002


def keep_months_open() -> None:
    """Until this transaction ends, no month is closed: what is read of statements from now on holds."""
    _lock("pg_advisory_xact_lock_shared", _MONTHS)


def stop_writers() -> None:
    """Until this transaction ends, nobody else writes charges."""
    _lock("pg_advisory_xact_lock", _MONTHS)


def correct_alone() -> None:
    """Until this transaction ends, nobody else writes corrections. To be asked for after
    `keep_months_open`."""
    _lock("pg_advisory_xact_lock", _CORRECTIONS)


def _lock(function: str, number: int) -> None:
    assert connection.in_atomic_block, "a lock without a transaction is none"
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s)", [number])
