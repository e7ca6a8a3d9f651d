"""Expressions that both databases understand, each in its own words."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.expressions import RawSQL
from django.db.models.lookups import Exact
from django.db.models.sql.compiler import SQLCompiler

T = TypeVar("T")


class Microseconds(models.Func):
    """A time as microseconds since 1970, exactly. What it says hangs on nothing but the time, so columns may
    be generated from it."""

    arity = 1
    output_field = models.BigIntegerField()
    # A difference of times is immutable on PostgreSQL; the epoch of a time is not, whatever its type.
    template = (
        "CAST(EXTRACT(EPOCH FROM (%(expressions)s - TIMESTAMPTZ '1970-01-01 00:00:00+00')) * 1000000"
        " AS bigint)"
    )

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        # Times are text there, in UTC. The Julian day is a float that is good for whole seconds; the digits
        # after them are taken as they stand.
        return self.as_sql(
            compiler,
            connection,
            template=(
                "(CAST(ROUND((julianday(substr(%(expressions)s, 1, 19)) - 2440587.5) * 86400) AS INTEGER)"
                " * 1000000 + CAST(substr(%(expressions)s, 21) AS INTEGER))"
            ),
            **context,
        )


class KeyList(models.Aggregate):
    """The keys of a group as a JSON array of numbers, in no order: much less to fetch than a row for each."""

    arity = 1
    output_field = models.TextField()
    function = "GROUP_CONCAT"
    template = "'[' || %(function)s(%(expressions)s) || ']'"

    def as_postgresql(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        template = "ARRAY_TO_JSON(ARRAY_AGG(%(expressions)s))::text"
        return self.as_sql(compiler, connection, template=template, **context)


class TextList(models.Aggregate):
    """The texts of a group as a JSON array, in the same order as a `KeyList` of the same query."""

    arity = 1
    output_field = models.TextField()
    function = "JSON_GROUP_ARRAY"

    def as_postgresql(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        template = "ARRAY_TO_JSON(ARRAY_AGG(%(expressions)s))::text"
        return self.as_sql(compiler, connection, template=template, **context)


class ValueList(TextList):
    """The JSON values of a group as one JSON array, in the same order as a `KeyList` of the same query."""

    template = "JSON_GROUP_ARRAY(JSON(%(expressions)s))"


# Up to here the keys stand in the statement itself.
_FEW_KEYS = 1_000


def among(column: str, keys: Collection[int]) -> models.Q:
    """The rows whose `column` has one of these numbers, however many: databases bound the number of
    parameters of a statement, so that many travel as one."""
    if len(keys) <= _FEW_KEYS:
        return models.Q((f"{column}__in", sorted(keys)))
    if connection.vendor == "postgresql":
        many = RawSQL("SELECT unnest(%s::bigint[])", [sorted(keys)])
    else:
        many = RawSQL("SELECT value FROM json_each(%s)", [json.dumps(sorted(keys))])
    return models.Q((f"{column}__in", many))


def begins_with(column: str, prefix: str) -> models.Q:
    """The rows whose `column` begins with a text in ASCII, so that an index on the column answers. PostgreSQL
    needs one with ``varchar_pattern_ops``; SQLite compares bytes, but takes a prefix for a pattern only where
    nothing is escaped."""
    if connection.vendor == "postgresql":
        return models.Q((f"{column}__startswith", prefix))
    behind = f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}"
    return models.Q((f"{column}__gte", prefix), (f"{column}__lt", behind))


def has_items(column: str, items: Mapping[str, str]) -> models.Q:
    """The rows whose JSON object in `column` has all of these names with these texts; any object has none at
    all."""
    if connection.vendor == "postgresql":
        return models.Q((f"{column}__contains", dict(items)))
    if any('"' in name for name in items):
        # In quotes nothing else of a name means anything in a path; no label has one in its name.
        return models.Q(pk__in=())
    parts = (
        models.Q(Exact(models.Func(column, models.Value(f'$."{name}"'), **_EXTRACT), value))
        for name, value in items.items()
    )
    return reduce(and_, parts, ~models.Q(pk__in=()))


_EXTRACT: Mapping[str, Any] = {"function": "JSON_EXTRACT", "output_field": models.TextField()}


def chunks(values: Iterable[T], size: int = 500) -> Iterator[Sequence[T]]:
    """Slices of at most `size`: databases bound the number of parameters of a statement."""
    listed = list(values)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
