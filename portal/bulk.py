"""Writing many rows at once, as the database takes them fastest.

`bulk_create` asks every field of every row through several layers. Here a column is converted as a whole, by
a function that is chosen once, and sent as one prepared statement that is run for each row (SQLite, and few
rows on PostgreSQL) or as a stream (`COPY`, many rows on PostgreSQL). Everything runs in the caller's
transaction and sends no signals.
"""

import json
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from django.db import connection, models, transaction

Values = Sequence[Any]
Model = type[models.Model]
# Instances of a model; or, where the model is given, anything that has its columns as attributes.
Rows = Sequence[Any]

# From this many rows on a COPY is worth its statements.
COPY_FROM = 100
# Whose values go to the database as they are.
_PLAIN = (models.IntegerField, models.BooleanField, models.ForeignKey)


class Encoded:
    """The value of a JSONField that is JSON text already; only for rows that are written here."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text.decode()


def append(rows: Rows, *, model: Model | None = None, ignore_conflicts: bool = False) -> None:
    """Insert rows of one model that nobody needs the primary keys of. With `ignore_conflicts`, a row that
    breaks a unique constraint is left out."""
    if rows:
        model = model or type(rows[0])
        tail = " ON CONFLICT DO NOTHING" if ignore_conflicts else ""
        _write(model, rows, _columns(model), tail=tail)


def create(rows: Rows, *, model: Model | None = None) -> None:
    """Insert rows of one model and set their primary keys, ascending. Only within a transaction."""
    if not rows:
        return
    assert connection.in_atomic_block
    model = model or type(rows[0])
    key = _key(model).attname
    for row, number in zip(rows, _numbers(model, len(rows)), strict=True):
        setattr(row, key, number)
    _write(model, rows, _columns(model, keyed=True))
    for row in rows:
        if isinstance(row, models.Model):
            row._state.adding = False
            row._state.db = connection.alias


def overwrite(rows: Rows, columns: Sequence[str], *, model: Model | None = None) -> None:
    """Write `columns` (names of fields) of complete rows that have primary keys, as an upsert."""
    if not rows:
        return
    model = model or type(rows[0])
    quote = connection.ops.quote_name
    fields: Any = (model._meta.get_field(name) for name in columns)
    changed = [quote(field.column) for field in fields]
    sets = ", ".join(f"{column} = excluded.{column}" for column in changed)
    key = quote(str(_key(model).column))
    _write(model, rows, _columns(model, keyed=True), tail=f" ON CONFLICT ({key}) DO UPDATE SET {sets}")


def _key(model: Model) -> "models.Field[Any, Any]":
    key: models.Field[Any, Any] | None = model._meta.pk
    assert key is not None
    return key


def _columns(model: Model, *, keyed: bool = False) -> "list[models.Field[Any, Any]]":
    fields: Any = model._meta.concrete_fields
    return [field for field in fields if not field.generated and (keyed or not field.primary_key)]


def _numbers(model: Model, count: int) -> Iterable[int]:
    """Primary keys that were never given."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            # One writer at a time has the database: the numbers after the last are ours until the commit.
            # AUTOINCREMENT remembers the last also when its row is gone.
            cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
            last = (cursor.fetchone() or (0,))[0]
            return range(last + 1, last + 1 + count)
        sequence = "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)"
        cursor.execute(sequence, [connection.ops.quote_name(table), _key(model).column, count])
        return [number for (number,) in cursor.fetchall()]


# --- statements -------------------------------------------------------------------------------------------


def _write(
    model: Model,
    rows: Sequence[Any],
    fields: "Sequence[models.Field[Any, Any]]",
    *,
    tail: str = "",
) -> None:
    """All rows or none; and without a transaction around it, SQLite would commit each row by itself."""
    quote = connection.ops.quote_name
    # Nothing but names of our own tables and columns goes into the text of statements (S608 asks).
    table = quote(model._meta.db_table)
    names = ", ".join(quote(str(field.column)) for field in fields)
    values = _values(rows, fields)
    with transaction.atomic(savepoint=False):
        if connection.vendor == "sqlite" or len(rows) < COPY_FROM:
            places = ", ".join(["%s"] * len(fields))
            statement = f"INSERT INTO {table} ({names}) VALUES ({places}){tail}"  # noqa: S608 - see above
            with connection.cursor() as cursor:
                cursor.executemany(statement, values)
        elif not tail:
            _copy(table, names, values)
        else:
            _copy_by_way_of_another_table(table, names, values, tail=tail)


def _copy(table: str, names: str, values: Iterable[Values]) -> None:
    with connection.cursor() as cursor, connection.wrap_database_errors:
        stream: Any = cursor
        with stream.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)


def _copy_by_way_of_another_table(table: str, names: str, values: Iterable[Values], *, tail: str) -> None:
    """COPY knows no conflicts; INSERT does, and a table without indexes costs little on the way. The rows
    keep their order."""
    like = f"SELECT {names} FROM {table} WITH NO DATA"  # noqa: S608 - see `_write`
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMP TABLE bulk_rows AS {like}")
        cursor.execute("ALTER TABLE bulk_rows ADD bulk_order bigint GENERATED ALWAYS AS IDENTITY")
        _copy("bulk_rows", names, values)
        select = f"SELECT {names} FROM bulk_rows ORDER BY bulk_order"  # noqa: S608 - see `_write`
        cursor.execute(f"INSERT INTO {table} ({names}) {select}{tail}")
        cursor.execute("DROP TABLE bulk_rows")


# --- values -----------------------------------------------------------------------------------------------


def _values(rows: Rows, fields: "Sequence[models.Field[Any, Any]]") -> list[Values]:
    columns = zip(*map(attrgetter(*[field.attname for field in fields]), rows), strict=True)
    return list(
        zip(*(_converted(field, column) for field, column in zip(fields, columns, strict=True)), strict=True)
    )


def _converted(field: "models.Field[Any, Any]", column: Values) -> Values:
    """The values of a column as the database takes them."""
    if isinstance(field, _PLAIN):
        return column
    if isinstance(field, models.CharField | models.TextField):
        # Members of TextChoices are not quite text to the driver.
        return [str.__str__(value) if isinstance(value, str) else _text(value) for value in column]
    if isinstance(field, models.DateTimeField):
        # Most rows of a lot have the same times.
        known = {value: connection.ops.adapt_datetimefield_value(value) for value in set(column)}
        return [known[value] for value in column]
    if isinstance(field, models.JSONField) and field.encoder is None:
        return [None if value is None else _json(value) for value in column]
    return [field.get_db_prep_save(value, connection) for value in column]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _json(value: Any) -> str:
    if isinstance(value, Encoded):
        return value.text
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, TypeError):
        # Half a character, which JSON can spell and UTF-8 cannot.
        return json.dumps(value)
