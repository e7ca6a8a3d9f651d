"""What every connection to the database is told when it is made."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


def connect() -> None:
    """Tell connections made from now on."""
    connection_created.connect(_tell, dispatch_uid="portal.database")


def _tell(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            # What is streamed is read to its end. PostgreSQL plans cursors as if they were left after a tenth
            # of their rows: it walks millions of others to have the first ones soon.
            cursor.execute("SET cursor_tuple_fraction = 1")
