"""The description of the REST API explains itself: each operation with a summary, a description and examples
that it allows itself."""

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from portal.examples import example, first_sentence, operations
from portal.pages.api_docs import document


@pytest.fixture(scope="module")
def described() -> list[tuple[str, dict[str, Any]]]:
    found = [(operation["operationId"], operation) for operation in operations(document())]
    assert len(found) > 200
    return found


def contents(operation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What is sent as JSON, and what is answered when it succeeds."""
    answers = [answer for status, answer in operation["responses"].items() if status < "300"]
    return [
        (where, content)
        for where, holder in (
            ("body", operation.get("requestBody", {})),
            *(("answer", one) for one in answers),
        )
        for media, content in holder.get("content", {}).items()
        if media.endswith("json") and content.get("schema")
    ]


def test_every_operation_has_a_summary_and_a_description(described: list[tuple[str, dict[str, Any]]]) -> None:
    for name, operation in described:
        assert 3 <= len(operation["summary"]) <= 160, (name, operation["summary"])
        assert operation["description"].strip(), name
        assert all(parameter.get("schema") for parameter in operation.get("parameters", ())), name


def test_every_example_is_what_its_schema_allows(described: list[tuple[str, dict[str, Any]]]) -> None:
    whole = document()
    faults = []
    for name, operation in described:
        for where, content in contents(operation):
            given = [one["value"] for one in content.get("examples", {}).values()]
            shown = given or [content["example"]]
            validator = Draft202012Validator({**content["schema"], "components": whole["components"]})
            faults += [
                f"{name} {where} {error.instance_path}: {error.message[:200]}"
                for one in shown
                for error in validator.iter_errors(one)
            ]
    assert faults == []


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("All boats.\n\nNewest first.", "All boats"),
        ("Set it. Then it is set.", "Set it"),
        ("Ask `/api/v1/x/` instead", "Ask `/api/v1/x/` instead"),
        ("One to 1.5 of them: or more.", "One to 1.5 of them"),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_sentence(text: str, summary: str) -> None:
    assert first_sentence(text) == summary


def test_an_example_keeps_to_pattern_length_and_bounds() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^[0-9]+$"},
            "project": {"type": "string", "maxLength": 3},
            "count": {"type": "integer", "minimum": 4},
            "id": {"type": "integer", "readOnly": True},
            "clusters": {"type": "array", "items": {"type": "string"}},
        },
    }
    assert example({}, schema, is_sent=True) == {
        "code": "1",
        "project": "1",
        "count": 4,
        "clusters": ["northern"],
    }
