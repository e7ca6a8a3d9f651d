"""The readable documentation is made from the schema and from nothing else."""

import pytest
from django.test import Client

from portal.pages.api_docs import describe
from tests.cast import Cast

SCHEMA = {
    "openapi": "3.1.0",
    "paths": {
        "/api/v1/boats/": {
            "get": {
                "operationId": "boats_list",
                "description": "All boats.\n\nNewest first.",
                "tags": ["boats"],
                "x-scope": "inventory",
                "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer"}}],
                "responses": {
                    "200": {
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}
                    }
                },
            },
            "post": {
                "operationId": "boats_create",
                "tags": ["boats"],
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Boat"}}}
                },
                "responses": {
                    "201": {
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Boat"}}}
                    }
                },
            },
        }
    },
    "components": {
        "schemas": {
            "Page": {
                "type": "object",
                "properties": {
                    "next": {"type": ["string", "null"]},
                    "results": {"type": "array", "items": {"$ref": "#/components/schemas/Boat"}},
                },
            },
            "Boat": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "description": "Bow's paint.", "example": "Queen's Hope"},
                    "hull": {
                        "allOf": [{"$ref": "#/components/schemas/Hull"}],
                        "description": "What it is of.",
                    },
                    "twin": {"$ref": "#/components/schemas/Boat"},
                },
            },
            "Hull": {"enum": ["wood", "steel"], "type": "string"},
        }
    },
}


def test_endpoints_come_with_parameters_fields_scope_and_a_curl_line() -> None:
    (group,) = describe(SCHEMA, base="https://desk.example.org")
    listing, create = group.endpoints

    assert (listing.method, listing.path, listing.scope) == ("GET", "/api/v1/boats/", "inventory")
    assert (listing.summary, listing.description) == ("All boats.", "Newest first.")
    assert listing.answer_is_list
    assert [(row.name, row.kind, row.required) for row in listing.answer] == [
        ("id", "integer", False),
        ("name", "string", True),
        ("hull", "wood | steel", False),
        ("twin", "object", False),
    ]
    assert listing.curl == (
        'curl "https://desk.example.org/api/v1/boats/" \\\n'
        '  --header "Authorization: Bearer $CLAIMDESK_TOKEN"'
    )
    assert "curl --request POST" in create.curl


def test_an_example_body_has_no_read_only_field_and_survives_the_shell() -> None:
    (group,) = describe(SCHEMA, base="")

    data = group.endpoints[1].curl.rpartition("--data ")[2]

    assert '"id"' not in data.partition('"twin"')[0]
    assert "Queen'\\''s Hope" in data


def test_what_follows_a_summary_is_not_lost_and_given_examples_are_shown() -> None:
    operation = {
        "operationId": "boats_sink",
        "summary": "Sink it",
        "description": "Sink it. It\ncannot be raised.\n\nThink twice.",
        "responses": {
            "200": {
                "content": {
                    "application/json": {
                        "schema": {"type": "object"},
                        "examples": {"Usual": {"value": {"depth": 40}}},
                    }
                }
            }
        },
    }

    ((endpoint,),) = [group.endpoints for group in describe({"paths": {"/": {"post": operation}}}, base="")]

    assert (endpoint.summary, endpoint.description) == ("Sink it", "It cannot be raised.\n\nThink twice.")
    assert '"depth": 40' in endpoint.example


def test_a_schema_that_refers_to_itself_ends() -> None:
    (group,) = describe(SCHEMA, base="")

    assert group.endpoints[0].example.count('"twin"') <= 5


@pytest.mark.django_db
def test_the_page_shows_every_operation_of_the_schema(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    schema = client.get("/api/schema/?format=json").json()
    page = client.get("/api/docs/").content.decode()

    operations = [
        operation["operationId"]
        for item in schema["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict) and "operationId" in operation
    ]
    assert operations
    assert all(f'id="{operation}"' in page for operation in operations)


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.django_db
def test_the_document_is_one_for_every_language_and_is_sent_once(
    client: Client, cast: Cast, form: str
) -> None:
    client.force_login(cast.member)
    first = client.get("/api/schema/", {"format": form})
    chinese = client.get("/api/schema/", {"format": form}, headers={"Accept-Language": "zh-hans"})
    again = client.get("/api/schema/", {"format": form}, headers={"If-None-Match": first["ETag"]})

    assert b"/api/v1/devices/" in first.content
    assert first["Content-Disposition"] == f'inline; filename="claimdesk.{form}"'
    assert chinese.content == first.content
    assert (again.status_code, again.content) == (304, b"")
