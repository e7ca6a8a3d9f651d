"""No migration since the release before does what its processes, which still run, cannot live with."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import connection, migrations, models
from django.db.migrations.graph import MigrationGraph
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from portal.online import AddIndexOnline
from tests.operations.migration_rules import (
    LARGE,
    RELEASED,
    SWEPT,
    after_release,
    objections,
    released_state,
)

# What the rules refuse and is right all the same: migration, operation, and why.
EXCEPTIONS = {
    ("claims.0019_charges_by_day", "AddIndex charge.charge_fixed_by_time"): (
        "Charges are written by the task that rates, and by closing a month: both wait and go on. Pages read."
    ),
    ("claims.0019_charges_by_day", "AddIndex charge.charge_of_project_in_time"): (
        "Charges are written by the task that rates, and by closing a month: both wait and go on. Pages read."
    ),
    ("claims.0026_hold_pods", "RunPython remember"): (
        "It fills a table that no old process knows, and reads the rest without a lock on it."
    ),
    ("inventory.0019_class_labels_and_managers", "RunPython list_classes_anew"): (
        "Mirrored classes are marked as not known in their present version, so an edit is refused as out "
        "of date. New followers take them again, also those that an old one stored meanwhile."
    ),
}


@pytest.fixture(scope="module")
def graph() -> MigrationGraph:
    found: MigrationGraph = MigrationLoader(None).graph
    return found


def test_migrations_since_the_release_leave_old_processes_what_they_need(graph: MigrationGraph) -> None:
    state, new, used, refused = released_state(graph), set[str](), set(), []
    for name, migration in after_release(graph):
        found = objections(app=migration.app_label, operations=migration.operations, state=state, new=new)
        for said in found:
            key = (name, said.partition(":")[0])
            if key in EXCEPTIONS:
                used.add(key)
            else:
                refused.append(f"{name}: {said}")
    assert not refused, "\n".join(refused)
    assert used == EXCEPTIONS.keys(), "exceptions that nothing needs"


def test_an_index_made_while_others_write_is_alone_in_its_migration(graph: MigrationGraph) -> None:
    for name, migration in after_release(graph):
        if any(isinstance(operation, AddIndexOnline) for operation in migration.operations):
            assert migration.atomic is False, name
            assert len(migration.operations) == 1, name


def test_what_the_rules_know_of_the_tables_is_so() -> None:
    labels = {model._meta.label_lower for model in apps.get_models()}
    assert labels >= LARGE | SWEPT
    ours = {
        c.label for c in apps.get_app_configs() if c.name.split(".")[0] in ("portal", "inventory", "claims")
    }
    with_models = {label for label in ours if any(apps.get_app_config(label).get_models())}
    assert RELEASED.keys() == with_models


def columns_of(table: str) -> dict[str, bool]:
    """Columns, and whether a row may be inserted without naming them."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT column_name, is_nullable = 'YES' OR column_default IS NOT NULL "
                "OR is_identity = 'YES' OR is_generated = 'ALWAYS' FROM information_schema.columns "
                "WHERE table_schema = current_schema() AND table_name = %s",
                [table],
            )
        else:
            cursor.execute(
                'SELECT name, NOT "notnull" OR dflt_value IS NOT NULL OR pk OR hidden '
                "FROM pragma_table_xinfo(%s)",
                [table],
            )
        return {name: bool(optional) for name, optional in cursor.fetchall()}


@pytest.mark.django_db
def test_the_schema_has_all_that_the_release_before_reads_and_asks_nothing_else_of_what_it_writes(
    graph: MigrationGraph,
) -> None:
    old_models = [m for m in released_state(graph).apps.get_models() if m._meta.app_label in RELEASED]
    assert len(old_models) > 50
    for model in old_models:
        known = {field.column for field in model._meta.local_concrete_fields}
        columns = columns_of(model._meta.db_table)
        assert known <= columns.keys(), model
        asked = {name for name, optional in columns.items() if not optional}
        assert asked <= known, model


# --- the rules themselves -----------------------------------------------------------------------


def _state() -> ProjectState:
    state = ProjectState()
    tables: dict[tuple[str, str], dict[str, Any]] = {
        ("claims", "Small"): {"name": models.CharField(max_length=10), "note": models.TextField(null=True)},
        ("claims", "Allocation"): {"name": models.CharField(max_length=10)},
        ("inventory", "Device"): {},
        ("inventory", "Cluster"): {},
    }
    for (app, name), fields in tables.items():
        state.add_model(
            ModelState(app, name, [("id", models.BigAutoField(primary_key=True)), *fields.items()])
        )
    state.models["claims", "small"].options["constraints"] = [
        models.UniqueConstraint(fields=["name"], name="only_one"),
        models.CheckConstraint(condition=~models.Q(name=""), name="has_name"),
    ]
    return state


def _add(field: Any, table: str = "small") -> migrations.AddField:
    return migrations.AddField(table, "more", field)


def _alter(field: Any, name: str = "name") -> migrations.AlterField:
    return migrations.AlterField("small", name, field)


def _reference(to: str, **options: Any) -> Any:
    return models.ForeignKey(to, models.CASCADE, null=True, **options)


INDEX = models.Index(fields=["name"], name="by_name")
REFUSED = {
    "a column that has to have a value": (_add(models.IntegerField(default=0)), "insert without it"),
    "a column goes": (migrations.RemoveField("small", "name"), "still ask"),
    "a column has another name": (migrations.RenameField("small", "name", "title"), "still ask"),
    "a table goes": (migrations.DeleteModel("Small"), "still ask"),
    "a table has another name": (migrations.RenameModel("Small", "Little"), "still ask"),
    "a table lies elsewhere": (migrations.AlterModelTable("small", "elsewhere"), "still ask"),
    "null is refused": (_alter(models.TextField(), "note"), "still write null"),
    "null is allowed": (_alter(models.CharField(max_length=10, null=True)), "do not expect null"),
    "a text is shorter": (_alter(models.CharField(max_length=5)), "longer texts"),
    "a text becomes a number": (_alter(models.IntegerField()), "another column"),
    "a column under another name": (
        _alter(models.CharField(max_length=10, db_column="title")),
        "another column",
    ),
    "an index with a column": (_alter(models.CharField(max_length=10, unique=True)), "by itself"),
    "a constraint": (
        migrations.AddConstraint("small", models.UniqueConstraint(fields=["note"], name="one_note")),
        "may write what it refuses",
    ),
    "a key that upserts name": (migrations.RemoveConstraint("small", "only_one"), "rely on it"),
    "an index of a large table": (migrations.AddIndex("allocation", INDEX), "AddIndexOnline"),
    "a reference of a large table": (
        _add(_reference("inventory.cluster", db_index=False), "allocation"),
        "under a lock",
    ),
    "an indexed column of a large table": (
        _add(models.IntegerField(null=True, db_index=True), "allocation"),
        "make it afterwards",
    ),
    "a computed column of a large table": (
        _add(
            models.GeneratedField(
                expression=models.F("id") * 2, output_field=models.BigIntegerField(), db_persist=True
            ),
            "allocation",
        ),
        "written anew",
    ),
    "a new table that keeps devices from going": (
        migrations.CreateModel(
            "Mark",
            [("id", models.BigAutoField(primary_key=True)), ("device", _reference("inventory.Device"))],
        ),
        "keeps rows",
    ),
    "data are changed": (migrations.RunPython(migrations.RunPython.noop), "not known"),
    "whatever is done in SQL": (migrations.RunSQL("SELECT 1"), "not known"),
    "an index that SQLite cannot make": (AddIndexConcurrently("small", INDEX), "SQLite cannot"),
}
ACCEPTED = {
    "a column that may be empty": _add(models.IntegerField(null=True)),
    "a column that the database fills": _add(models.IntegerField(db_default=0)),
    "a plain column of a large table": _add(models.IntegerField(db_default=0), "allocation"),
    "a reference that the database does not check": _add(_reference("inventory.device", db_constraint=False)),
    "a table of references": _add(models.ManyToManyField("inventory.cluster")),
    "a longer text": _alter(models.CharField(max_length=20, help_text="Other words.")),
    "a value by the database": _alter(models.CharField(max_length=10, db_default="")),
    "an index of a small table": migrations.AddIndex("small", INDEX),
    "an index of a large table while others write": AddIndexOnline("allocation", INDEX),
    "a check less": migrations.RemoveConstraint("small", "has_name"),
    "other words": migrations.AlterModelOptions("small", {"verbose_name": "little"}),
    "a new table": migrations.CreateModel(
        "Mark", [("id", models.BigAutoField(primary_key=True)), ("cluster", _reference("inventory.Cluster"))]
    ),
}


@pytest.mark.parametrize(("operation", "why"), REFUSED.values(), ids=REFUSED)
def test_is_refused(operation: Any, why: str) -> None:
    (said,) = objections(app="claims", operations=[operation], state=_state(), new=set())
    assert why in said


@pytest.mark.parametrize("operation", ACCEPTED.values(), ids=ACCEPTED)
def test_is_accepted(operation: Any) -> None:
    assert objections(app="claims", operations=[operation], state=_state(), new=set()) == []


def test_what_is_new_may_change_as_it_likes() -> None:
    made = migrations.CreateModel("Mark", [("id", models.BigAutoField(primary_key=True))])
    then = [
        migrations.AddField("mark", "name", models.CharField(max_length=5)),
        migrations.AddConstraint("mark", models.UniqueConstraint(fields=["name"], name="one_mark")),
        migrations.AddIndex("mark", INDEX),
    ]
    assert objections(app="claims", operations=[made, *then], state=_state(), new=set()) == []
    keeps = migrations.AddField("mark", "device", _reference("inventory.device"))
    (said,) = objections(app="claims", operations=[made, keeps], state=_state(), new=set())
    assert "keeps rows" in said
