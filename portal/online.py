"""Migrations of large tables while people work."""

from typing import Any

from django.db import NotSupportedError, migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState


class AddIndexOnline(migrations.AddIndex):
    """Like AddIndex, but on PostgreSQL others go on writing while the index is made (``CONCURRENTLY``).

    The migration says ``atomic = False`` and does nothing else, so that it can be begun again: what an
    attempt that was broken off has left behind, an index that is not valid, is removed first.
    """

    atomic = False

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        connection = schema_editor.connection
        if connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        if connection.in_atomic_block:
            raise NotSupportedError("AddIndexOnline needs a migration with atomic = False.")
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(connection.alias, model):
            return
        editor: Any = schema_editor
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(quote_ident(%s))",
                [self.index.name],
            )
            found = cursor.fetchone()
            if found and found[0]:
                return
            # It waits for transactions that are older than itself, in nobody's way: no timeout for that, but
            # for the migrations after it.
            cursor.execute("SET lock_timeout = 0")
            try:
                if found:
                    editor.remove_index(model, self.index, concurrently=True)
                editor.add_index(model, self.index, concurrently=True)
            finally:
                cursor.execute("RESET lock_timeout")

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if schema_editor.connection.vendor != "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            return
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            editor: Any = schema_editor
            editor.remove_index(model, self.index, concurrently=True)

    def describe(self) -> str:
        return f"{super().describe()} while others write"
