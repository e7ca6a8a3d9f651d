"""Writing many rows at once, as one prepared statement that is run for each of them.

`bulk_create` asks every field of every row through several layers, and on SQLite makes a statement of some
fifty rows each time. Here a value is converted by a function that is chosen once per column, which takes a
third of the processor time. PostgreSQL has no use for it: there `bulk_create` sends whole columns, and is
kept. Everything runs in the caller's transaction and sends no signals.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import connection, models, transaction

Row = TypeVar("Row", bound=models.Model)
Convert = Callable[[Any], Any]

# Rows in one statement of `bulk_create`; Django makes it less where the database allows fewer parameters.
BATCH = 2_000
# Whose values go to the database as they are.
_PLAIN = (models.IntegerField, models.BooleanField, models.ForeignKey)


def append(rows: Sequence[models.Model], *, ignore_conflicts: bool = False) -> None:
    """Insert rows of one model that nobody needs the primary keys of. With `ignore_conflicts`, a row that
    breaks a unique constraint is left out."""
    if not rows:
        return
    if connection.vendor != "sqlite":
        manager: Any = type(rows[0])._default_manager
        manager.bulk_create(rows, batch_size=BATCH, ignore_conflicts=ignore_conflicts)
        return
    _execute("INSERT OR IGNORE" if ignore_conflicts else "INSERT", rows, _columns(type(rows[0])))


def create(rows: Sequence[Row]) -> None:
    """Insert rows of one model and set their primary keys. Only within a transaction."""
    if not rows:
        return
    if connection.vendor != "sqlite":
        manager: Any = type(rows[0])._default_manager
        manager.bulk_create(rows, batch_size=BATCH)
        return
    # One writer at a time has the database: the numbers after the last are ours until the commit.
    assert connection.in_atomic_block
    model = type(rows[0])
    last = _last_number(model)
    for number, row in enumerate(rows, start=last + 1):
        row.pk = number
    _execute("INSERT", rows, _columns(model, keyed=True))
    for row in rows:
        row._state.adding = False
        row._state.db = connection.alias


def overwrite(rows: Sequence[models.Model], columns: Sequence[str]) -> None:
    """Write `columns` (names of fields) of complete rows that have primary keys, as an upsert."""
    if not rows:
        return
    model: Any = type(rows[0])
    if connection.vendor != "sqlite":
        model._default_manager.bulk_create(
            rows, batch_size=BATCH, update_conflicts=True, unique_fields=["pk"], update_fields=list(columns)
        )
        return
    quote = connection.ops.quote_name
    changed = (quote(model._meta.get_field(name).column) for name in columns)
    sets = ", ".join(f"{column} = excluded.{column}" for column in changed)
    key = quote(model._meta.pk.column)
    _execute("INSERT", rows, _columns(model, keyed=True), tail=f" ON CONFLICT ({key}) DO UPDATE SET {sets}")


def _columns(model: type[models.Model], *, keyed: bool = False) -> "list[models.Field[Any, Any]]":
    fields: Any = model._meta.concrete_fields
    return [field for field in fields if not field.generated and (keyed or not field.primary_key)]


def _execute(
    verb: str, rows: Sequence[models.Model], fields: "Sequence[models.Field[Any, Any]]", *, tail: str = ""
) -> None:
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    # Nothing but names of our own tables and columns goes into the text.
    statement = f"{verb} INTO {quote(rows[0]._meta.db_table)} ({names}) VALUES ({places}){tail}"
    columns = [
        [convert(getattr(row, field.attname)) for row in rows]
        for field, convert in ((field, _convert(field)) for field in fields)
    ]
    # All rows or none; and without a transaction around it, SQLite would commit each row by itself.
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        cursor.executemany(statement, list(zip(*columns, strict=True)))


def _convert(field: "models.Field[Any, Any]") -> Convert:
    """What makes of a value of this column what the database takes."""
    if isinstance(field, models.DateTimeField):
        return connection.ops.adapt_datetimefield_value
    if isinstance(field, models.CharField | models.TextField):
        # Members of TextChoices are not quite text to the driver.
        return lambda value: value if value is None else str(value)
    if isinstance(field, _PLAIN):
        return lambda value: value
    return lambda value: field.get_db_prep_save(value, connection)


def _last_number(model: type[models.Model]) -> int:
    """The highest primary key ever given; AUTOINCREMENT remembers it also when the row is gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [model._meta.db_table])
        found = cursor.fetchone()
    return int(found[0]) if found else 0
