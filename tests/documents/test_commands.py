"""Every command that the documents tell to run is run, and says what `commands.toml` has of it."""

import shutil
from collections.abc import Iterator

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from portal.env import BASE_DIR
from tests.documents import table
from tests.documents.blocks import ASSIGNMENT, DOCUMENTS, blocks, commands_of
from tests.documents.sandbox import Sandbox

# The sandbox has a database of its own, a copy of the one that is migrated for tests: one run is enough.
pytestmark = [
    *(pytest.mark.django_db, pytest.mark.nodatabase),
    *(pytest.mark.xdist_group("documents"), pytest.mark.timeout(600)),
]

NAMES = [str(path.relative_to(BASE_DIR)) for path in DOCUMENTS]
TABLE = table.read()


@pytest.fixture(scope="module")
def sandbox(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    directory = tmp_path_factory.mktemp("documents")
    database = directory / "migrated"
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(database)])
    sandbox = Sandbox(directory)
    try:
        yield sandbox.open(database)
    finally:
        sandbox.close()


def told(command: str) -> str:
    return " ".join(command.replace("\\\n", " ").split())


@pytest.mark.parametrize("takes_long", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("document", NAMES)
def test_commands_of_a_document_do_what_it_says(document: str, takes_long: bool, sandbox: Sandbox) -> None:
    known = {told(row.command): row for row in reversed(list(TABLE.rows_of(document)))}
    filled_in = [f"{name}={value}" for name, value in TABLE.readers.get(document, {}).items()]
    shell = [f". {table.FUNCTIONS}", f"DESK={sandbox.url}", *filled_in]
    faults = []
    for command in commands_of(BASE_DIR / document):
        row = known.get(told(command))
        assert row is not None, f"{table.PATH.name} has no row for {command!r} of {document}"
        if ASSIGNMENT.match(command):
            shell.append(row.script())
        elif row.takes_long == takes_long and (not row.needs or shutil.which(row.needs)):
            script = "\n".join([*shell, row.script()])
            said = sandbox.run_until(script, row.says[-1]) if row.goes_on else sandbox.run(script)
            missing = [words for words in row.says if words not in said.text]
            if said.status != row.status or missing:
                faults.append(
                    f"{row.script()}\nended with {said.status}, without {missing}:\n{said.text[-3000:]}"
                )
    if faults:
        pytest.fail("\n\n".join(faults), pytrace=False)


@pytest.mark.parametrize("document", NAMES)
def test_every_row_is_of_a_command_and_every_block_is_known(document: str) -> None:
    found = {told(command) for command in commands_of(BASE_DIR / document)}
    assert [row.command for row in TABLE.rows.get(document, ()) if told(row.command) not in found] == []
    for block in blocks((BASE_DIR / document).read_text()):
        first = told(block.text.splitlines()[0])
        assert block.is_of_commands or block.language or first.startswith(tuple(TABLE.others)), first


def test_what_is_not_run_as_it_stands_has_a_reason() -> None:
    rows = [row for rows in TABLE.rows.values() for row in rows]
    assert [row.command for row in rows if bool(row.run) != bool(row.because)] == []


def test_no_row_is_left_over() -> None:
    used = {told(command) for path in DOCUMENTS for command in commands_of(path)}
    assert [row.command for row in TABLE.rows[table.EVERYWHERE] if told(row.command) not in used] == []
    assert {*TABLE.rows, *TABLE.readers} - {table.EVERYWHERE} <= set(NAMES)
