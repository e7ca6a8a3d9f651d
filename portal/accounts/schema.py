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
