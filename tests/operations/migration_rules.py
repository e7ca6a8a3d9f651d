"""What a migration may do while processes of the release before still run.

They know the old columns only: they insert without the new ones, read what they always read, and must never
wait long for a lock. So a release expands the schema, and what it no longer needs goes in a later one, when
nobody knows it any more.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib.postgres.operations import NotInTransactionMixin
from django.db import migrations, models
from django.db.migrations.graph import MigrationGraph
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState
from django.db.models.fields import NOT_PROVIDED

from portal.online import AddIndexOnline

# The last migrations of the release before, by app. To be moved on when a release is made, and the exceptions
# of `test_migrations` with it.
RELEASED = {
    "accounts": "0001_squashed_0004_notifications",
    "claims": "0001_squashed_0014_charges_end",
    "idempotency": "0001_keep_answers_by_key",
    "inventory": "0001_squashed_0015_ledger_facts",
}

# Tables of which a grown installation has millions of rows: what takes a lock for as long as it reads or
# writes all of them, stands still for minutes.
LARGE = frozenset(
    {
        "accounts.auditentry",
        "accounts.delivery",
        "accounts.notification",
        "claims.allocation",
        "claims.charge",
        "claims.chargeday",
        "claims.consumer",
        "inventory.claim",
        "inventory.classprofile",
        "inventory.device",
        "inventory.observation",
        "inventory.pod",
        "inventory.resourceslice",
    }
)

# Tables of which followers delete rows all the time. A database refuses that while another row refers to it,
# and a process that does not know the other table cannot remove that first.
SWEPT = frozenset(
    {
        "inventory.claim",
        "inventory.device",
        "inventory.deviceclass",
        "inventory.node",
        "inventory.pod",
        "inventory.pool",
        "inventory.resourceslice",
    }
)

_HARMLESS = (migrations.AlterModelOptions, migrations.AlterModelManagers, migrations.RemoveIndex)
_TAKES_AWAY = (
    migrations.RemoveField,
    migrations.RenameField,
    migrations.DeleteModel,
    migrations.RenameModel,
    migrations.AlterModelTable,
)
# What the database itself need not be told of.
_WORDS = (
    "choices",
    "default",
    "help_text",
    "validators",
    "verbose_name",
    "related_name",
    "blank",
    "editable",
)


def after_release(graph: MigrationGraph) -> Iterator[tuple[str, migrations.Migration]]:
    """("app.name", migration) of what came after the release before, in the order of migrating."""
    known = {
        key
        for app, name in RELEASED.items()
        for key in graph.forwards_plan((app, name))
        if key[0] in RELEASED
    }
    seen: set[tuple[str, str]] = set()
    for app in RELEASED:
        for leaf in graph.leaf_nodes(app):
            for key in graph.forwards_plan(leaf):
                if key[0] in RELEASED and key not in known and key not in seen:
                    seen.add(key)
                    yield f"{key[0]}.{key[1]}", _migration(graph, key)


def released_state(graph: MigrationGraph) -> ProjectState:
    """The models as the release before has them."""
    state = ProjectState()
    seen: set[tuple[str, str]] = set()
    for item in RELEASED.items():
        for key in graph.forwards_plan(item):
            if key not in seen:
                seen.add(key)
                state = _migration(graph, key).mutate_state(state, preserve=False)
    return state


def _migration(graph: MigrationGraph, key: tuple[str, str]) -> migrations.Migration:
    found = graph.nodes[key]
    assert found is not None
    return found


def objections(*, app: str, operations: Sequence[Operation], state: ProjectState, new: set[str]) -> list[str]:
    """What is wrong with operations of one migration, each named so that an exception can be made for it.

    `state` is what they begin with, and afterwards what they end with; `new` are the models that no process
    of the release before knows, to which those made here are added.
    """
    found = []
    for operation in operations:
        if isinstance(operation, migrations.CreateModel):
            new.add(f"{app}.{operation.name_lower}")
        found += [f"{_named(operation)}: {why}" for why in _objections(app, operation, state, frozenset(new))]
        operation.state_forwards(app, state)
    return found


def _named(operation: Operation) -> str:
    """'AddField request.hold_pod_image', or what the operation says of itself."""
    kind = type(operation).__name__
    name = getattr(operation, "name", "")
    inner = getattr(operation, "index", None) or getattr(operation, "constraint", None)
    if inner is not None:
        name = inner.name
    if isinstance(operation, migrations.RunPython):
        name = getattr(operation.code, "__name__", "")
    model = getattr(operation, "model_name", "")
    return f"{kind} {model}.{name}" if model else f"{kind} {name}".strip()


def _objections(app: str, operation: Any, before: ProjectState, new: frozenset[str]) -> Iterator[str]:
    if isinstance(operation, migrations.CreateModel):
        for name, field in operation.fields:
            yield from (f"{name} {why}" for why in _of_reference(app, field, new))
    elif f"{app}.{getattr(operation, 'model_name', '').lower()}" in new:
        # Nobody else knows the table. What it refers to is another matter.
        if isinstance(operation, migrations.AddField):
            yield from _of_reference(app, operation.field, new)
    elif isinstance(operation, migrations.AddIndex):
        yield from _of_index(app, operation)
    elif isinstance(operation, migrations.AddField):
        yield from _of_added_field(app, operation, new)
    elif isinstance(operation, migrations.AlterField):
        old = before.models[app, operation.model_name_lower].fields[operation.name]
        yield from _of_altered_field(operation.field, old)
    elif isinstance(operation, migrations.RemoveConstraint):
        yield from _of_removed_constraint(operation, before.models[app, operation.model_name_lower])
    elif isinstance(operation, migrations.AddConstraint):
        yield "old processes may write what it refuses, and it is compared with every row under a lock"
    elif isinstance(operation, _TAKES_AWAY):
        yield "old processes still ask for what was there; it goes in the release after the next"
    elif not isinstance(operation, _HARMLESS):
        yield "what it does to old processes is not known"


def _of_index(app: str, operation: migrations.AddIndex) -> Iterator[str]:
    if isinstance(operation, NotInTransactionMixin):
        yield "SQLite cannot; portal.online.AddIndexOnline does what each database can"
    elif not isinstance(operation, AddIndexOnline) and f"{app}.{operation.model_name_lower}" in LARGE:
        yield "nobody writes to a large table meanwhile; portal.online.AddIndexOnline lets them"


def _of_removed_constraint(operation: migrations.RemoveConstraint, model: ModelState) -> Iterator[str]:
    gone = next(
        constraint for constraint in model.options["constraints"] if constraint.name == operation.name
    )
    if not isinstance(gone, models.CheckConstraint):
        yield "old processes rely on it, and may name it in what they insert"


def _of_reference(app: str, field: Any, new: frozenset[str]) -> Iterator[str]:
    if not (isinstance(field, models.ForeignKey) and vars(field)["db_constraint"]):
        return
    to = field.remote_field.model
    label = (to if isinstance(to, str) else to._meta.label_lower).lower()
    label = label if "." in label else f"{app}.{label}"
    if label in SWEPT - new:
        yield "keeps rows that old followers delete from going (db_constraint=False)"


def _of_added_field(app: str, operation: migrations.AddField, new: frozenset[str]) -> Iterator[str]:
    field: Any = operation.field
    if field.many_to_many:
        return
    generated = isinstance(field, models.GeneratedField)
    if not (field.null or generated or field.db_default is not NOT_PROVIDED):
        yield "old processes insert without it: let it be null, or give it a db_default"
    if f"{app}.{operation.model_name_lower}" in LARGE:
        if generated or hasattr(field.db_default, "resolve_expression"):
            yield "every row of a large table is written anew for it"
        if field.db_index or field.unique:
            yield "its index is made while nobody writes to a large table: make it afterwards, AddIndexOnline"
        if field.is_relation and field.db_constraint:
            yield "every row of a large table is compared under a lock (db_constraint=False)"
    yield from _of_reference(app, field, new)


def _of_altered_field(field: Any, old: Any) -> Iterator[str]:
    if old.null and not field.null:
        yield "old processes still write null"
    elif field.null and not old.null:
        yield "old processes do not expect null"
    if old.db_default is not NOT_PROVIDED and field.db_default is NOT_PROVIDED:
        yield "old processes insert without it"
    if (field.db_index and not old.db_index) or (field.unique and not old.unique):
        yield "an index comes with it: make it by itself"
    if old.max_length and field.max_length and old.max_length > field.max_length:
        yield "old processes still write longer texts"
    kept = ("null", "db_default", "db_index", "unique", "max_length", *_WORDS)
    told, said = (
        {name: value for name, value in one.deconstruct()[3].items() if name not in kept}
        for one in (old, field)
    )
    if (type(old), told) != (type(field), said):
        yield "it becomes another column for old processes"
