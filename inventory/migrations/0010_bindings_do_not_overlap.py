"""A namespace is one project's at a time: the database itself refuses periods that overlap.

PostgreSQL has exclusion constraints for that; they need btree_gist, which the owner of a database may create.
SQLite gets two triggers. Django does not know them: whoever alters the table on SQLite makes them anew.
"""

from django.db import migrations

NAME = "binding_periods_do_not_overlap"
TABLE = "inventory_namespacebinding"
OVERLAPS = f"""EXISTS (
    SELECT 1 FROM {TABLE} AS other
    WHERE other.cluster_id = NEW.cluster_id AND other.namespace = NEW.namespace AND other.id <> NEW.id
      AND (other.valid_until IS NULL OR other.valid_until > NEW.valid_from)
      AND (NEW.valid_until IS NULL OR other.valid_from < NEW.valid_until))"""


def add(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("CREATE EXTENSION IF NOT EXISTS btree_gist")
        schema_editor.execute(
            f"ALTER TABLE {TABLE} ADD CONSTRAINT {NAME} EXCLUDE USING gist "
            "(cluster_id WITH =, namespace WITH =, tstzrange(valid_from, valid_until) WITH &&)"
        )
        return
    # Before an insert there is no id yet, so what is new is looked at afterwards; RAISE takes it back.
    for event in ("INSERT", "UPDATE"):
        schema_editor.execute(
            f"CREATE TRIGGER {NAME}_{event.lower()} AFTER {event} ON {TABLE} WHEN {OVERLAPS} "
            f"BEGIN SELECT RAISE(ABORT, '{NAME}'); END"
        )


def remove(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT {NAME}")
        return
    for event in ("insert", "update"):
        schema_editor.execute(f"DROP TRIGGER {NAME}_{event}")


class Migration(migrations.Migration):
    dependencies = [("inventory", "0009_availability_in_history")]

    operations = [migrations.RunPython(add, remove)]
