"""Who writes charges, or closes a month, does so alone.

What belongs into a month is decided by whether its statement is closed. A statement that is closed between
that look and the write would have a charge that nobody is billed, and a digest that is not that of its
charges. And two who rate the same month would both write what is new in it. So whoever writes takes the lock
first, then looks at what there is, and keeps it until the transaction ends: rating does so for a thousand
rows at a time. SQLite has one writer at a time by itself.
"""

from django.db import connection

# One of the locks of the desk's own database, by a number that means nothing.
_CHARGES = 7_268_001


def write_alone() -> None:
    """Until this transaction ends, nobody else writes charges or closes a month. Taking it again is
    harmless."""
    assert connection.in_atomic_block, "a lock without a transaction is none"
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CHARGES])
