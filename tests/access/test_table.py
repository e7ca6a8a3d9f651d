"""Who may call what: every URL and method, by every role and every token, against `table.md`.

The table is the law: a URL without a row fails, and so does a row without a URL.
"""

import re
from collections.abc import Callable
from functools import cache

import pytest
from django.test import Client

from tests.access import calls
from tests.access.calls import HTMX, Call
from tests.access.routes import Route, routes
from tests.access.table import METHODS, NOTHING, ROLES, SCOPES, SHOWN_PATH, SIGN_IN, Row, line, read
from tests.access.world import World, world

__all__ = ["world"]

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.everyrole,
    pytest.mark.xdist_group("access"),
    pytest.mark.timeout(300),
]

ROUTES = routes()
TABLE = read()
BY_NAME = {route.name: route for route in ROUTES}
ROWS = {str(row): row for row in TABLE if row.name in BY_NAME}
READING = [call for call, row in ROWS.items() if row.method == "GET"]
WRITING = [call for call, row in ROWS.items() if row.method != "GET"]
PAGES = [call for call in READING if not BY_NAME[ROWS[call].name].is_api]
REST = [call for call, row in ROWS.items() if BY_NAME[row.name].is_api]
# Whoever stands for the others where one of each kind is enough.
SOME = ("owner", "stranger", "administrator", "anonymous")
# Pages that no page of ours asks a part of, and that redirect by themselves.
NEVER_A_PART = {"GET mfa_authenticate": "the second step of signing in"}
NOT_A_PERSON = dict.fromkeys(
    ("POST api-cdi-report", "POST api-pod-device-report"), "only tokens of nodes open the intake of reports"
)

Walk = Callable[[str], list[Call]]


@pytest.fixture(scope="module")
def walk(world: World) -> Walk:
    """All calls of a row, made once."""
    return cache(lambda call: calls.all_of(ROWS[call], world, is_api=_is_api(call)))


def _is_api(call: str) -> bool:
    return BY_NAME[ROWS[call].name].is_api


# --- the table is complete ---------------------------------------------------------------------------


def test_every_url_has_a_name_of_its_own() -> None:
    names = [route.name for route in ROUTES]

    assert not [route.pattern for route in ROUTES if not route.name or names.count(route.name) > 1]


def test_every_row_is_a_call_that_there_is() -> None:
    lost = [str(row) for row in TABLE if row.name not in BY_NAME]
    twice = {str(row) for row in TABLE if [str(other) for other in TABLE].count(str(row)) > 1}

    assert not lost, f"{SHOWN_PATH} has rows of URLs that are gone: {lost}"
    assert not twice, f"{SHOWN_PATH} has more than one row of {twice}"
    for row in TABLE:
        route = BY_NAME[row.name]
        assert set(row.arguments) == set(route.parameters), f"{row} needs {route.parameters} in “with”"
        wanted = {*ROLES, *(SCOPES if route.is_api else ())}
        assert set(row.expected) == wanted, f"{row} needs a status for each of {sorted(wanted)}"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name or route.pattern)
def test_every_method_of_a_url_has_a_row(route: Route, world: World) -> None:
    rows = {row.method: row for row in TABLE if row.name == route.name}
    missing = []
    for method in METHODS:
        row = rows.get(method) or calls.draft(route, method)
        guess = next(iter(rows.values()), row)
        row = Row(method, route.name, guess.arguments, row.expected, row.records)
        exists = calls.exists(route, row, world)
        assert exists or method not in rows, f"{row} is refused as unknown (405)"
        if exists and method not in rows:
            missing.append(row)
    shown = "\n".join(
        line(row) if "?" in row.arguments.values() else line(calls.observed(row, world, is_api=route.is_api))
        for row in missing
    )
    assert not missing, (
        f"Who may do this? Add to {SHOWN_PATH}, in its section (and what a change sends to"
        f" tests/access/bodies.py). As the portal answers now, to be checked word by word:\n{shown}"
    )


# --- it holds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ROWS)
def test_every_role_gets_what_the_table_says(call: str, walk: Walk, world: World) -> None:
    row = ROWS[call]
    answered = {made.who: made.status for made in walk(call)}
    seen = calls.observed(row, world, is_api=_is_api(call)) if answered != row.expected else row

    assert answered == row.expected, f"Table:\n{line(row)}\nPortal:\n{line(seen)}"


@pytest.mark.parametrize("call", REST)
def test_a_token_may_what_its_owner_may(call: str, walk: Walk, world: World) -> None:
    """With every scope it gets what the person gets in the browser: no more, no less."""
    row = ROWS[call]
    for made in walk(call):
        if made.who in world.passes:
            by_token = calls.by_token(row, world, made.who, world.passes[made.who])
            assert by_token.status == made.status, made.who


@pytest.mark.parametrize("call", [call for call in PAGES if call not in NEVER_A_PART])
def test_a_part_of_a_page_is_guarded_as_the_page_is(call: str, walk: Walk, world: World) -> None:
    """Asked for by htmx, the status is the same, but 401 in the place of the redirect to sign in."""
    for made in walk(call):
        if made.who in SOME:
            part = calls.by_role(ROWS[call], world, made.who, **HTMX)
            wanted = "401" if made.status == SIGN_IN else made.status
            others = {"200": ("286", "204"), "303": ("200",) if "HX-Redirect" in part.headers else ()}
            assert part.status in (wanted, *others.get(wanted, ())), made.who


@pytest.mark.parametrize("call", PAGES)
def test_a_token_opens_no_page(call: str, walk: Walk, world: World) -> None:
    nobody = next(made for made in walk(call) if made.who == "anonymous")

    assert calls.by_token(ROWS[call], world, "token", world.passes["administrator"]).status == nobody.status


# --- changes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", READING)
def test_reading_writes_nothing(call: str, walk: Walk) -> None:
    for made in walk(call):
        assert not made.writes, f"{made.who}: {made.writes}"
        assert not made.recorded, made.who


@pytest.mark.parametrize("call", WRITING)
def test_who_is_refused_changes_nothing(call: str, walk: Walk) -> None:
    for made in walk(call):
        if not made.succeeded:
            assert not made.writes, f"{made.who} ({made.status}): {made.writes}"
            assert not made.recorded, made.who


@pytest.mark.parametrize("call", WRITING)
def test_every_change_is_in_the_audit_trail(call: str, walk: Walk) -> None:
    """Whoever succeeds leaves the entry that the row names; a row without one says why."""
    wanted = ROWS[call].records
    if wanted.startswith(NOTHING):
        assert wanted.removeprefix(NOTHING).strip() not in ("", "say why"), (
            f"{call}: why is nothing recorded?"
        )
        assert not any(made.recorded for made in walk(call)), f"{call} does record something"
        return
    successes = [made for made in walk(call) if made.succeeded and made.who != "anonymous"]
    assert successes, f"Nobody succeeds with {call}: does tests/access/bodies.py send what it needs?"
    for made in successes:
        assert wanted in made.recorded, f"{made.who} got {made.status} and left {made.recorded}"


@pytest.mark.parametrize("call", [call for call in WRITING if call not in NOT_A_PERSON])
def test_a_change_from_a_foreign_page_is_refused(call: str, world: World) -> None:
    """A browser sends its cookies wherever a form of another site points: without our token, 403."""
    row = ROWS[call]
    client = Client(enforce_csrf_checks=True)
    client.cookies["sessionid"] = world.sessions["administrator"]
    with calls.undone():
        response = getattr(client, row.method.lower())(calls.url_of(row, world))

    assert response.status_code == 403


# --- what pages are made of --------------------------------------------------------------------------


@pytest.mark.parametrize("call", ROWS)
def test_every_answer_keeps_the_policy(call: str, walk: Walk) -> None:
    for made in walk(call):
        headers = made.headers
        policy = headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert "camera=()" in headers["Permissions-Policy"]
        if "html" in headers.get("Content-Type", ""):
            assert not re.search(r"<[^>]+\sstyle=|<style|<[^>]+\son[a-z]+=|javascript:", made.text), made.who
            assert not re.search(r'<script(?![^>]*\s(src=|type="application/json"))', made.text), made.who
