"""Whatever an address says, the answer is a page or a refusal: never an error of the desk's own."""

from typing import Any
from urllib.parse import quote

import pytest
from django.urls import NoReverseMatch, reverse

from tests.access import calls
from tests.access.bodies import body_of
from tests.access.routes import Route, routes
from tests.access.table import Row, read
from tests.access.world import World, world

__all__ = ["world"]

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("access"), pytest.mark.timeout(300)]

BY_NAME: dict[str, Route] = {route.name: route for route in routes()}
ROWS = {str(row): row for row in read() if row.name in BY_NAME}
GETS = [call for call, row in ROWS.items() if row.method == "GET"]
TAKING_ARGUMENTS = [call for call, row in ROWS.items() if row.arguments]

# In the place of a parameter of the path, as far as its converter lets them pass.
ODD_PATHS: tuple[Any, ...] = (
    *(0, 2**31, 2**63 - 1, 2**63, 10**30),
    *("x" * 300, "\x00", "a\x00b", "%00", "..", ".", "-", "' OR 1=1 --", "<script>", "{{ 7*7 }}", "潮汐"),
    *("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "\u202eabc", "a\nb", "🦀"),
    *("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
)
# Parameters that some list, filter or form reads.
NAMES = (
    *("q", "sort", "page", "limit", "cursor", "columns", "remember", "format", "state", "cluster", "project"),
    *(
        "node",
        "pool",
        "class",
        "driver",
        "product",
        "kind",
        "vendor",
        "backend",
        "health",
        "memory",
        "action",
    ),
    *("actor", "since", "until", "from", "to", "month", "running", "mine", "device", "namespace", "seen"),
    *("severity", "code", "expression", "cel", "group", "view", "by", "key", "person", "condition", "count"),
    *("duration", "duration_unit", "device_class", "shape", "min_memory", "flavor", "step", "zoom", "start"),
)
# As they stand in an address; some are no text at all once they are decoded.
WORST_VALUES = ("9" * 30, "%00%ff%fe", "9999-12-31", "%F0%9F%A6%80%E2%80%AE'%22%25_%5C[](((({}")
ODD_VALUES = (
    *("", "-1", "NaN", "%00a", "%ff", "x" * 200, "2026-13-45", "0001-01-01T00:00:00%2B99:99"),
    *("-user__password", "null", "bz0xMDAwMDAwMDAwMDAwMDAwMDAwMA=="),
)


@pytest.mark.parametrize("call", TAKING_ARGUMENTS)
def test_no_odd_name_or_number_in_a_path_is_an_error(call: str, world: World) -> None:
    row = ROWS[call]
    for parameter in row.arguments:
        for odd in ODD_PATHS:
            if (path := path_with(row, world, parameter, odd)) is not None:
                status = answer(row, world, path)
                assert status < 500, f"{parameter} = {odd!r}: {status}"


@pytest.mark.parametrize("values", [WORST_VALUES, pytest.param(ODD_VALUES, marks=pytest.mark.long)])
@pytest.mark.parametrize("call", GETS)
def test_no_odd_value_of_a_parameter_is_an_error(call: str, values: tuple[str, ...], world: World) -> None:
    """Each value in every parameter at once, as a page and as a part of it."""
    row = ROWS[call]
    path = calls.url_of(row, world)
    for number, odd in enumerate(values):
        headers = {"HX-Request": "true"} if number % 2 else {}
        query = "&".join(f"{name}={odd}" for name in NAMES)
        status = answer(row, world, f"{path}?{query}", headers=headers)
        assert status < 500, f"{odd!r}: {status}"


@pytest.mark.parametrize("call", [call for call, row in ROWS.items() if row.method != "GET"])
def test_no_odd_value_of_a_field_is_an_error(call: str, world: World) -> None:
    """Every field of the body that works, one by one with what does not belong there."""
    row = ROWS[call]
    path = calls.url_of(row, world)
    body = body_of(call, world)
    odd_ones: tuple[Any, ...] = ("a\x00潮\u202e汐" + "x" * 3000, "9" * 30, "[]")
    if BY_NAME[row.name].is_api:
        odd_ones += (None, [{}], 2**70, True)
    # A list of things is tried with one of them.
    whole: dict[str, Any] = body[0] if isinstance(body, list) else body
    for name in whole or ("note",):
        for odd in odd_ones:
            sent = {**whole, name: odd}
            status = answer(row, world, path, [sent] if isinstance(body, list) else sent)
            assert status < 500, f"{name} = {odd!r}: {status}"


def path_with(row: Row, world: World, parameter: str, odd: Any) -> str | None:
    """The address with the odd value, or None where its converter knows no such value."""
    arguments = {name: world.things.get(value, value) for name, value in row.arguments.items()}
    try:
        return reverse(row.name, kwargs={**arguments, parameter: odd})
    except NoReverseMatch:
        # It is not found then: by hand, for what no converter would write but a client may send.
        whole = calls.url_of(row, world)
        written = quote(str(arguments[parameter]), safe="")
        return whole.replace(written, quote(str(odd), safe=""), 1) if written in whole else None


def answer(row: Row, world: World, path: str, data: Any = None, *, headers: Any = None) -> int:
    """The status that an administrator gets."""
    client = world.browser("administrator")
    world.answering.reset()
    sent: dict[str, Any] = {"headers": headers or {}}
    if row.method != "GET" and BY_NAME[row.name].is_api:
        sent["content_type"] = "application/json"
    with calls.undone():
        response = getattr(client, row.method.lower())(path, data or {}, **sent)
        if response.streaming:
            list(response)
    status: int = response.status_code
    return status
