"""What the OpenAPI document says about signing in and scopes."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from portal.api import ApiView
from portal.idempotency.keeping import HEADER
from portal.rest_defaults import needed_scope

IDEMPOTENCY_KEY = OpenApiParameter(
    HEADER,
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description=(
        "Chosen by the client (best a UUID in quotes); holds for 24 hours for this person and endpoint. Sent "
        "again with the same body, the answer is the same and nothing is done twice (the header "
        "`Idempotency-Replayed` says so). 409 `idempotency_key_in_use`: the first attempt still runs. 422 "
        "`idempotency_key_reused`: it was used with another body. What was refused leaves the key free."
    ),
)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # registers itself by metaclass
    target_class = "portal.accounts.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:  # noqa: ARG002 - the interface
        return {"type": "http", "scheme": "bearer", "description": "A token made on the page “API tokens”."}


class Schema(AutoSchema):
    """Names the scope that a token needs for each operation, and the key with which a POST is sent again."""

    def get_override_parameters(self) -> list[Any]:
        found = list(super().get_override_parameters())
        if self.method == "POST" and isinstance(self.view, ApiView):
            found.append(IDEMPOTENCY_KEY)
        return found

    def get_extensions(self) -> dict[str, Any]:
        scope = needed_scope(self.view, self.method)
        return {"x-scope": scope.value} if scope is not None else {}


# Whatever is called may be answered so.
_ALWAYS = {"401": "Not signed in.", "403": "Not permitted."}
_WITH_PATH = {"404": "There is no such object, or the caller may not know of it."}
_WITH_INPUT = {"400": "Something that was sent cannot be read."}
_WITH_POST = {
    "409": "In conflict with what there is; or the Idempotency-Key is in use.",
    "422": "Cannot be done; or the Idempotency-Key was used with another body.",
}
_METHODS = ("get", "post", "put", "patch", "delete")


def with_problems(
    result: dict[str, Any],
    generator: object,  # noqa: ARG001 - the hook's signature
    request: object,  # noqa: ARG001
    public: bool,  # noqa: ARG001, FBT001
) -> dict[str, Any]:
    """Every operation says what it answers with when it does not succeed: a problem document (RFC 9457)."""
    if "Problem" not in result["components"]["schemas"]:
        return result
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for method in _METHODS:
            if method in path:
                _add_problems(path[method], method, content)
    return result


def with_anything(
    result: dict[str, Any],
    generator: object,  # noqa: ARG001 - the hook's signature
    request: object,  # noqa: ARG001
    public: bool,  # noqa: ARG001, FBT001
) -> dict[str, Any]:
    """A field of JSON that may be null is described as one of {anything, null}: but null is anything, too, so
    that it would be both. It is anything."""
    for schema in result.get("components", {}).get("schemas", {}).values():
        for field in schema.get("properties", {}).values():
            if field.get("oneOf") == [{}, {"type": "null"}]:
                del field["oneOf"]
    return result


def _add_problems(operation: dict[str, Any], method: str, content: dict[str, Any]) -> None:
    parameters = operation.get("parameters", [])
    said = dict(_ALWAYS)
    if any(parameter["in"] == "path" for parameter in parameters):
        said |= _WITH_PATH
    if "requestBody" in operation or any(parameter["in"] == "query" for parameter in parameters):
        said |= _WITH_INPUT
    if method == "post":
        said |= _WITH_POST
    responses = operation["responses"]
    for status, description in (*said.items(), ("default", "Any other problem.")):
        responses.setdefault(status, {"description": description})
    for status, response in responses.items():
        if status == "default" or status.startswith("4"):
            response["content"] = content
            response["description"] = response.get("description") or said.get(status, "A problem.")
    operation["responses"] = dict(sorted(responses.items()))
