"""Bulk import: read, shown, done as a whole or not at all; again, it changes nothing."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from inventory.models import NamespaceBinding
from portal.accounts.models import AuditEntry, Invitation, Membership, Project
from portal.pages.importing import reading
from portal.pages.importing.doing import Outcome, run
from portal.pages.importing.reading import MEMBERS, PROJECTS, Unreadable, decoded, read
from tests.cast import Cast
from tests.pages.fleet import cluster

pytestmark = pytest.mark.django_db

TABLES = {
    "projects": "project,name,cost_centre\nsea-ice,Sea ice,GEO-3100\ntides,Tidal models,OC-8\n",
    "members": "project,person,role\nsea-ice,lena,lead\nsea-ice,noor@example.org,member\ntides,tomas,lead\n",
    "namespaces": "project,cluster,namespace,from,until\nsea-ice,harbour,ice,2026-01-01,\n",
}


@pytest.fixture(autouse=True)
def harbour(cast: Cast) -> None:
    cluster()


def done(cast: Cast, tables: dict[str, str] | None = None, *, apply: bool = True, **options: Any) -> Outcome:
    return run(
        tables=TABLES if tables is None else tables,
        actor=cast.administrator,
        now=timezone.now(),
        apply=apply,
        **options,
    )


def everything() -> str:
    counted = [m.objects.count() for m in (Project, Membership, Invitation, NamespaceBinding, AuditEntry)]
    return str([*counted, list(Project.objects.order_by("pk").values_list("name", "cost_centre"))])


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(cast: Cast) -> None:
    before = everything()

    outcome = done(cast, apply=False)

    assert [(c.table, c.line, c.kind) for c in outcome.changes] == [
        ("projects", 2, "new"),
        ("projects", 3, "changed"),
        ("members", 2, "new"),
        ("members", 3, "new"),
        ("members", 4, "changed"),
        ("namespaces", 2, "new"),
    ]
    assert outcome.changes[1].text == "project Tidal models: cost_centre"
    assert not outcome.applied
    assert outcome.invited == []
    assert everything() == before


def test_doing_it_does_what_the_dry_run_told(cast: Cast) -> None:
    told = done(cast, apply=False)

    outcome = done(cast, seen=told.plan)

    assert outcome.applied
    assert outcome.changes == told.changes
    project = Project.objects.get(slug="sea-ice")
    assert project.cost_centre == "GEO-3100"
    assert Membership.objects.get(project=project).user == cast.lead
    assert Membership.objects.get(project=cast.project, user=cast.teammate).role == "lead"
    assert NamespaceBinding.objects.get().valid_from.isoformat() == "2026-01-01T00:00:00+00:00"
    assert [(one.email, one.project) for one in outcome.invited] == [("noor@example.org", "Sea ice")]
    assert set(AuditEntry.objects.values_list("action", "actor__username")) == {
        ("project.create", "anouk"),
        ("project.change", "anouk"),
        ("member.add", "anouk"),
        ("member.role", "anouk"),
        ("invitation.create", "anouk"),
        ("namespace.bind", "anouk"),
    }


def test_doing_it_again_changes_nothing(cast: Cast) -> None:
    done(cast)
    before = everything()

    again = done(cast)

    assert again.applied
    assert {change.kind for change in again.changes} == {"same"}
    assert again.invited == []
    assert everything() == before


def test_with_a_fault_in_one_line_nothing_is_done(cast: Cast) -> None:
    before = everything()
    tables = TABLES | {"namespaces": "project,cluster,namespace\nsea-ice,nowhere,ice\n"}

    outcome = done(cast, tables)

    assert not outcome.applied
    assert [(f.table, f.line, f.column) for f in outcome.faults] == [("namespaces", 2, "cluster")]
    assert everything() == before


def test_when_the_world_moved_on_the_plan_is_shown_again(cast: Cast) -> None:
    told = done(cast, apply=False)
    done(cast, {"projects": TABLES["projects"]})
    before = everything()

    outcome = done(cast, seen=told.plan)

    assert outcome.differs
    assert not outcome.applied
    assert everything() == before


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("namespaces", "2026-01-01,", "2026-01-01,2031-01-01"),
        ("projects", "Tidal models,OC-8", "Tidal models,OC-9"),
    ],
)
def test_a_plan_is_agreed_to_with_every_cell(cast: Cast, table: str, old: str, new: str) -> None:
    told = done(cast, apply=False)
    before = everything()

    outcome = done(cast, TABLES | {table: TABLES[table].replace(old, new)}, seen=told.plan)

    assert outcome.differs
    assert everything() == before


def test_lines_within_a_cell_may_end_as_browsers_end_them(cast: Cast) -> None:
    table = 'project,name,description\nreefs,Reefs,"two{}lines"\n'
    told = done(cast, {"projects": table.format("\n")}, apply=False)

    assert done(cast, {"projects": table.format("\r\n")}, seen=told.plan).applied


@pytest.mark.parametrize(
    ("table", "line", "column", "message"),
    [
        ("projects", "Sea Ice,Sea ice,", "project", "valid “slug”"),
        ("projects", "sea-ice,Glacier flow,", "name", "Another project has this already"),
        ("projects", f"sea-ice,{'x' * 121},", "name", "longer than 120"),
        ("projects", f"sea-ice,Sea ice,{'x' * 41}", "cost_centre", "longer than 40"),
        ("projects", ",Sea ice,", "project", "empty"),
        ("projects", "sea-ice", "", "The line has 1 cells, the header has 3"),
        ("projects", f"{'x' * 51},Sea ice,", "project", "at most 50 characters"),
        ("members", "nowhere,mina,member", "project", "no project of this short name"),
        ("members", "tides,nobody,member", "person", "Nobody here has this name"),
        ("members", "tides,mina,emperor", "role", "member or lead"),
        ("members", "tides,lena,member", "role", "A project needs a lead"),
        ("namespaces", "tides,nowhere,ns,,", "cluster", "no cluster of this name"),
        ("namespaces", "tides,harbour,Not_One,,", "namespace", "lower-case letters"),
        ("namespaces", "tides,harbour,ns,yesterday,", "from", "Write a day as"),
        ("namespaces", "tides,harbour,ns,2026-02-30,", "from", "Write a day as"),
        ("namespaces", "tides,harbour,ns,0001-01-01,", "from", "between the years"),
        ("namespaces", "tides,harbour,ns,2026-02-02,2026-02-01", "until", "after the start"),
    ],
)
def test_a_line_that_cannot_be_done_is_named_with_its_column(
    cast: Cast, table: str, line: str, column: str, message: str
) -> None:
    header = TABLES[table].splitlines()[0]

    outcome = done(cast, {table: f"{header}\n\n{line}\n"})

    assert [(f.table, f.line, f.column) for f in outcome.faults] == [(table, 3, column)]
    assert message in outcome.faults[0].message


def test_a_namespace_of_another_project_is_not_taken(cast: Cast) -> None:
    tables = {"namespaces": "project,cluster,namespace\ntides,harbour,ns\nglaciers,harbour,ns\n"}

    outcome = done(cast, tables)

    assert [(f.line, f.column) for f in outcome.faults] == [(3, "namespace")]
    assert "Tidal models" in outcome.faults[0].message


def test_a_binding_gets_an_end_by_a_later_import(cast: Cast) -> None:
    header = "project,cluster,namespace,until\n"
    done(cast, {"namespaces": f"{header}tides,harbour,ns,\n"})

    outcome = done(cast, {"namespaces": f"{header}tides,harbour,ns,2998-01-01\n"})

    assert [change.kind for change in outcome.changes] == ["changed"]
    assert NamespaceBinding.objects.get().valid_until.year == 2998  # type: ignore[union-attr] # it has an end now


# --- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"project,name\nsea-ice,Sea ice\n",
        "\ufeffproject,name\r\nsea-ice,Sea ice\r\n".encode(),
        b"project;name\nsea-ice;Sea ice",
        b'Project\tName\n"sea-ice"\t Sea ice \n',
        "project,name\nsea-ice,Sea ice\n".encode("utf-16"),
        b"project;name\r\rsea-ice;Sea ice\r",
    ],
    ids=["plain", "mark", "semicolons", "tabs and quotes", "utf-16", "old line ends"],
)
def test_files_as_people_have_them(raw: bytes) -> None:
    rows, faults = read(decoded(raw), PROJECTS)

    assert faults == []
    assert [dict(row.cells) for row in rows] == [{"project": "sea-ice", "name": "Sea ice"}]


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    text = 'project,name,description\na,A,"over\nthree\nlines"\n\nb,B,short\n'

    rows, _faults = read(text, PROJECTS)

    assert [row.line for row in rows] == [2, 6]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("project,person\n", 1, "role", "missing"),
        ("project,person,role,shoe_size\n", 1, "shoe_size", "There is no column"),
        ("project,person,role,role\n", 1, "role", "twice"),
        ('project,person,role\n"tides,mina,member\n', 3, "", "This is no CSV"),
        ("project,person,role\ntides,mi\x00na,member\n", 2, "", "NUL"),
        (f"project,person,role\ntides,{'x' * 1001},member\n", 2, "person", "longer than 1000"),
    ],
)
def test_a_table_of_another_form_is_explained(text: str, line: int, column: str, message: str) -> None:
    _rows, faults = read(text, MEMBERS)

    assert (faults[0].line, faults[0].column) == (line, column)
    assert message in faults[0].message


def test_another_encoding_is_explained() -> None:
    with pytest.raises(Unreadable, match="Line 2 is not UTF-8"):
        decoded("project,name\nsea-ice,Größe\n".encode("latin-1"))


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINES", 3)
    monkeypatch.setattr(reading, "MAX_BYTES", 200)

    with pytest.raises(Unreadable, match="larger"):
        decoded(b"x" * 201)
    _rows, faults = read("project,person,role\n" + "a,b,member\n" * 4, MEMBERS)
    assert "more than 3 lines" in faults[-1].message
    _rows, faults = read("x" * 201, MEMBERS)
    assert "too large" in faults[0].message


# --- the page --------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["member", "lead", "finance", "auditor", "stranger"])
def test_only_administrators_import(client: Client, cast: Cast, role: str) -> None:
    client.force_login(getattr(cast, role))

    assert client.get("/import/").status_code == 403
    assert client.post("/import/", TABLES | {"apply": "1"}).status_code == 403
    body = json.dumps(TABLES)
    assert client.post("/api/v1/import/", body, content_type="application/json").status_code == 403
    assert not AuditEntry.objects.exists()


def test_the_page_shows_then_does(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)
    upload = SimpleUploadedFile("members.csv", TABLES["members"].encode("utf-8-sig"))
    before = everything()

    page = client.post("/import/", TABLES | {"members": "", "members_file": upload, "check": "1"})
    text = page.content.decode()
    assert "What would be done" in text
    assert "noor@example.org" in text
    assert everything() == before

    form = TABLES | {"seen": page.context["outcome"].plan, "apply": "1"}
    page = client.post("/import/", form)
    text = page.content.decode()
    assert "The import is done" in text
    assert "http://testserver/join/" in text
    assert "sea-ice,lena" not in text

    page = client.post("/import/", form)
    assert page.status_code == 409
    assert "Something has changed since you looked" in page.content.decode()


def test_the_page_names_faults_and_keeps_what_was_typed(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    page = client.post("/import/", {"members": "project;person;role\nnowhere;mina;member", "check": "1"})

    assert page.status_code == 422
    assert "correct these lines first" in page.content.decode()
    assert "nowhere;mina;member" in page.content.decode()


@pytest.mark.parametrize("upload", [b"", b"\xff\x00\xff", "Größe".encode("latin-1")])
def test_a_file_that_cannot_be_read_is_explained(client: Client, cast: Cast, upload: bytes) -> None:
    client.force_login(cast.administrator)

    page = client.post("/import/", {"projects_file": SimpleUploadedFile("p.csv", upload), "check": "1"})

    assert page.status_code == 422


# --- REST and command ------------------------------------------------------------------------------


def test_rest_imports_the_same(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    def post(**body: Any) -> Any:
        return client.post("/api/v1/import/", json.dumps(body), content_type="application/json")

    dry = post(**TABLES)
    assert dry.status_code == 200
    assert not dry.json()["applied"]
    assert not Project.objects.filter(slug="sea-ice").exists()

    made = post(**TABLES, apply=True, plan=dry.json()["plan"]).json()
    assert made["applied"]
    assert made["invitations"][0]["link"].startswith("http://testserver/join/")

    assert post(**TABLES, apply=True, plan=dry.json()["plan"]).status_code == 409
    faulty = post(members="project,person,role\nnowhere,mina,member\n")
    assert faulty.status_code == 422
    assert faulty.json()["errors"][0]["field"] == "members.2.project"


def test_the_command_tells_then_does(cast: Cast, tmp_path: Path) -> None:
    for name, text in TABLES.items():
        (tmp_path / f"{name}.csv").write_text(text)
    files = [f"--{name}={tmp_path / name}.csv" for name in TABLES]

    told, made = StringIO(), StringIO()
    call_command("import_people", *files, "--by=anouk", stdout=told)
    assert "projects:2: new: project Sea ice" in told.getvalue()
    assert not Project.objects.filter(slug="sea-ice").exists()

    call_command("import_people", *files, "--by=anouk", "--apply", stdout=made)
    assert "Done: 4 new, 2 changed, 0 same." in made.getvalue()
    assert "noor@example.org: /join/" in made.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by=mina"], "no administrator"),
        (["--by=anouk"], "nothing to import"),
        (["--by=anouk", "--projects=/no/such/file"], "No such file"),
    ],
)
def test_the_command_says_what_it_lacks(cast: Cast, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("import_people", *arguments)


def test_the_command_names_faults_by_file_and_line(cast: Cast, tmp_path: Path) -> None:
    path = tmp_path / "members.csv"
    path.write_text("project,person,role\nnowhere,mina,member\n")
    said = StringIO()

    with pytest.raises(CommandError, match="nothing was changed"):
        call_command("import_people", f"--members={path}", "--by=anouk", "--apply", stderr=said)

    assert f"{path}:2: project:" in said.getvalue()
