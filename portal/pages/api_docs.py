"""The REST API's schema, and a page that makes it readable: endpoints, parameters, fields, curl lines.

The page is ours because the usual viewers need inline styles, which the portal's policy forbids.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import translation
from django.utils.cache import get_conditional_response
from django.utils.encoding import force_bytes
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from portal import htmx
from portal.examples import METHODS, example, resolved


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document, which is one for everybody and in English: made once in the life of a process,
    since it takes seconds."""
    generator: Any = SchemaGenerator  # not annotated by drf-spectacular
    with translation.override("en"):
        made: dict[str, Any] = generator().get_schema(request=None, public=True)
    return made


@cache
def written(media_type: str) -> tuple[bytes, str]:
    """The document as one of the media types that the schema is served in, with its ETag."""
    (renderer,) = (known for known in SpectacularAPIView.renderer_classes if known.media_type == media_type)
    content = force_bytes(renderer().render(document()))
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


class SchemaView(SpectacularAPIView):
    """The OpenAPI 3.1 document as YAML or JSON, for anybody who is signed in and for every token."""

    permission_classes = (IsAuthenticated,)

    @extend_schema(exclude=True)
    def get(self, request: Request, *_args: Any, **_kwargs: Any) -> HttpResponseBase:
        renderer = request.accepted_renderer
        content, etag = written(renderer.media_type)
        name = f'inline; filename="claimdesk.{renderer.format}"'
        response = HttpResponse(
            content, content_type=renderer.media_type, headers={"Content-Disposition": name, "ETag": etag}
        )
        return get_conditional_response(request._request, etag=etag, response=response) or response


@dataclass(frozen=True)
class Row:
    """A parameter or a field: `place` is path, query or "" (body)."""

    name: str
    place: str
    kind: str
    required: bool
    description: str


@dataclass(frozen=True)
class Endpoint:
    """One operation as the page shows it."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    scope: str
    parameters: list[Row]
    body: list[Row]
    answer: list[Row]
    answer_is_list: bool
    example: str
    curl: str


@dataclass
class Group:
    name: str
    endpoints: list[Endpoint] = field(default_factory=list)


@require_safe
def api_docs(request: HttpRequest) -> HttpResponse:
    """All endpoints, grouped by what they are about."""
    base = request.build_absolute_uri("/").rstrip("/")
    groups = describe(document(), base=base)
    return htmx.render(request, "pages/api_docs.html", {"groups": groups, "base": base})


def describe(schema: dict[str, Any], *, base: str) -> list[Group]:
    """The operations of an OpenAPI document, grouped by their first tag in order of appearance."""
    groups: dict[str, Group] = {}
    for path, item in schema.get("paths", {}).items():
        for method in METHODS:
            if operation := item.get(method):
                name = (operation.get("tags") or ["api"])[0]
                groups.setdefault(name, Group(name)).endpoints.append(
                    _endpoint(schema, path, method, operation, base)
                )
    return list(groups.values())


def _endpoint(
    schema: dict[str, Any], path: str, method: str, operation: dict[str, Any], base: str
) -> Endpoint:
    first, _, rest = (operation.get("description") or "").strip().partition("\n\n")
    first = " ".join(first.split())
    summary = operation.get("summary") or first
    # What follows the summary in the paragraph that it was taken from.
    more = first.removeprefix(summary).lstrip(".:; ") if first.startswith(summary) else first
    asked = _json(operation.get("requestBody", {}))
    answered = next(
        (_json(response) for code, response in operation.get("responses", {}).items() if code < "300"), {}
    )
    body, answer = asked.get("schema"), answered.get("schema")
    results = _properties(schema, answer).get("results")
    is_list = (results or answer or {}).get("type") == "array"
    item = (results or answer or {}).get("items") if is_list else answer
    return Endpoint(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=summary,
        description="\n\n".join(part for part in (more, rest.strip()) if part),
        scope=operation.get("x-scope", ""),
        parameters=[
            Row(
                name=parameter["name"],
                place=parameter["in"],
                kind=_kind(schema, parameter.get("schema", {})),
                required=parameter.get("required", False),
                description=parameter.get("description", ""),
            )
            for parameter in operation.get("parameters", [])
            if parameter["in"] in {"path", "query"}
        ],
        body=_rows(schema, body),
        answer=_rows(schema, item),
        answer_is_list=is_list,
        example=_dump(_given(schema, answered)) if answer else "",
        curl=_curl(schema, base + path, method, asked),
    )


def _json(content_holder: dict[str, Any]) -> dict[str, Any]:
    """What is said of JSON: `schema`, `example` or `examples`; empty where there is none."""
    for media, content in content_holder.get("content", {}).items():
        if media.endswith("json"):
            found: dict[str, Any] = content
            return found
    return {}


def _given(schema: dict[str, Any], content: dict[str, Any], *, is_sent: bool = False) -> Any:
    """The example that the document gives, or one of the schema's."""
    if "example" in content:
        return content["example"]
    for given in content.get("examples", {}).values():
        return given["value"]
    return example(schema, content.get("schema"), is_sent=is_sent)


def _properties(schema: dict[str, Any], part: dict[str, Any] | None) -> dict[str, Any]:
    properties: dict[str, Any] = resolved(schema, part).get("properties", {})
    return properties


def _rows(schema: dict[str, Any], part: dict[str, Any] | None) -> list[Row]:
    required = resolved(schema, part).get("required", [])
    return [
        Row(name, "", _kind(schema, value), name in required, resolved(schema, value).get("description", ""))
        for name, value in _properties(schema, part).items()
    ]


def _kind(schema: dict[str, Any], part: dict[str, Any]) -> str:
    """A type in a few words: "string (date-time)", "array of string", "a | b | c"."""
    whole = resolved(schema, part)
    if values := whole.get("enum"):
        return " | ".join(
            json.dumps(value) if not isinstance(value, str) else value or '""' for value in values
        )
    kind = whole.get("type", "object")
    kinds = kind if isinstance(kind, list) else [kind]
    if "array" in kinds:
        return f"array of {_kind(schema, whole.get('items', {}))}"
    if shape := whole.get("format"):
        kinds = [f"{kinds[0]} ({shape})", *kinds[1:]]
    return " | ".join(kinds)


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _curl(schema: dict[str, Any], url: str, method: str, body: dict[str, Any]) -> str:
    parts = ["curl", *(["--request", method.upper()] if method != "get" else [])]
    lines = [f'{" ".join(parts)} "{url}"', '--header "Authorization: Bearer $CLAIMDESK_TOKEN"']
    if body:
        lines.append('--header "Content-Type: application/json"')
        sent = _given(schema, body, is_sent=True)
        # An apostrophe would end the shell's quoting.
        lines.append("--data '" + json.dumps(sent, ensure_ascii=False).replace("'", "'\\''") + "'")
    return " \\\n  ".join(lines)
