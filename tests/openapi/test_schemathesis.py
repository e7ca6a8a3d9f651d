"""The OpenAPI document against the desk itself: Schemathesis makes calls of all kinds from what the document
says, and every answer has to be one that it says: status, type of content and every value. Never a 5xx."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from portal.wsgi import application
from tests.access import calls
from tests.access.bodies import body_of
from tests.access.routes import Route, routes
from tests.access.table import Row, read
from tests.access.world import World, world

__all__ = ["world"]

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("access"), pytest.mark.timeout(600)]

BY_NAME: dict[str, Route] = {route.name: route for route in routes() if route.pattern.startswith("api/v1/")}
# Its answer is no JSON but what Prometheus reads, and it is in no document.
OUTSIDE = {"api-metrics"}
ROWS = {str(row): row for row in read() if row.name in BY_NAME and row.name not in OUTSIDE}
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# How many calls are made up for each operation; of money there are more.
FEW, SOME, MANY = 2, 10, 150
MONEY = {"chargeback", "prices"}
# What a made-up call would hardly hit upon, by the name of the parameter.
KNOWN: dict[str, tuple[str, ...]] = {
    "from": ("2026-01-01", "2026-01-02T12:34:56Z"),
    "to": ("2026-01-31", "2026-01-03T00:00:00.000001Z"),
    "billed": ("2026-01",),
    "month": ("2026-01",),
    "project": ("tides", "unattributed"),
    "cluster": ("berlin",),
    "class": ("gpu.nvidia.com",),
    "person": ("mina",),
    "group_by": ("project", "day,product", "hour,person", "month,cost_centre,class,profile,cluster,kind", ""),
}


@pytest.fixture(autouse=True)
def one_connection() -> Iterator[None]:
    """Calls go to WSGI itself, within a test's transaction: the end of an answer would close its connection.
    (Django's own test client does the same.)"""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(scope="module")
def api() -> Any:
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call] # has no types
    loaded = schemathesis.openapi.from_dict(document)
    loaded.app = application
    return loaded


@pytest.mark.parametrize("call", list(ROWS))
def test_what_the_table_calls_is_answered_as_the_document_says(call: str, api: Any, world: World) -> None:
    row = ROWS[call]
    case = operation_of(api, row).Case(path_parameters=arguments_of(row, world))
    if row.method != "GET":
        case.body, case.media_type = body_of(call, world), "application/json"
    ask(case, world)


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("call", list(ROWS))
def test_whatever_the_document_allows_is_answered_as_it_says(
    call: str, many: bool, api: Any, world: World
) -> None:
    row = ROWS[call]
    operation = operation_of(api, row)
    arguments = arguments_of(row, world)
    some = SOME if MONEY & set(operation.tags or ()) else FEW

    @settings(
        max_examples=MANY if many else some, derandomize=True, database=None, deadline=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(), known=st.booleans(), data=st.data())
    def made_up(case: "Case[Any]", known: bool, data: st.DataObject) -> None:
        if known:
            case.path_parameters = dict(arguments)
            case.query = {
                name: data.draw(st.sampled_from(KNOWN[name])) if name in KNOWN else value
                for name, value in (case.query or {}).items()
            }
        ask(case, world)

    made_up()


@pytest.mark.parametrize(
    "query", [{"group_by": "project,day"}, {"group_by": "class,person", "billed": "2026-01", "limit": 1}]
)
def test_allocations_put_together_are_answered_as_the_document_says(
    query: dict[str, Any], api: Any, world: World
) -> None:
    """What is asked for one of two forms only is hardly ever made up without the other's."""
    month = {"from": "2026-01-01", "to": "2026-01-31"}
    for form in ("json", "csv", "ndjson"):
        asked = {**month, **query, "format": form}
        response = ask(api["/api/v1/allocations/"]["GET"].Case(query=asked), world)
        assert response.status_code == 200
        assert form != "json" or response.json()["allocations"] > 0


def operation_of(api: Any, row: Row) -> Any:
    """The row's call in the document, which calls primary keys `id`."""
    path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", "/" + BY_NAME[row.name].pattern).replace("{pk}", "{id}")
    return api[path][row.method]


def arguments_of(row: Row, world: World) -> dict[str, str]:
    """The parameters of its path, with things of the world in the place of their names."""
    return {
        "id" if name == "pk" else name: str(world.things.get(value, value))
        for name, value in row.arguments.items()
    }


def ask(case: "Case[Any]", world: World) -> Any:
    """The answer to the call as an administrator's program makes it; undone, and held to the document."""
    # Attempts are counted there.
    cache.clear()
    world.answering.reset()
    with calls.undone():
        response = case.call(headers={"Authorization": f"Bearer {world.passes['administrator']}"})
        case.validate_response(response, checks=CHECKS)
    return response
