"""What the OpenAPI document says about signing in and scopes."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from portal.rest_defaults import needed_scope


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # registers itself by metaclass
    target_class = "portal.accounts.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:  # noqa: ARG002 - the interface
        return {"type": "http", "scheme": "bearer", "description": "A token made on the page “API tokens”."}


class Schema(AutoSchema):
    """Names the scope that a token needs for each operation."""

    def get_extensions(self) -> dict[str, Any]:
        scope = needed_scope(self.view, self.method)
        return {"x-scope": scope.value} if scope is not None else {}
