"""What every REST view has unless it says otherwise; named in the settings.

Apart from `portal.api`, since Django REST framework loads these while it is itself being imported.
"""

from typing import TYPE_CHECKING, Any

from django.core.exceptions import RequestDataTooBig
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.parsers import JSONParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from portal.accounts.models import ApiToken, User

if TYPE_CHECKING:
    from rest_framework.views import APIView

Scope = ApiToken.Scope

# No body of ours is larger; a purpose has 1,000 characters and a CEL expression 10 Ki.
MAX_BODY_BYTES = 256 * 1024


class BoundedJSONParser(JSONParser):
    """JSON up to MAX_BODY_BYTES; larger bodies are refused before they are read."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        request = (parser_context or {}).get("request")
        length = request.META.get("CONTENT_LENGTH") if request is not None else None
        if not length or not str(length).isdigit() or int(length) > MAX_BODY_BYTES:
            raise RequestDataTooBig
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise exceptions.ParseError(_("The body is nested too deeply.")) from None


# A token that was made for reading changes nothing, whatever its owner may.
READING_SCOPES = (Scope.INVENTORY, Scope.CHARGEBACK, Scope.METRICS)
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def needed_scope(view: object, method: str | None) -> Scope | None:
    """The scope that a token needs for a call of `view`; None: no token may call it."""
    scope: Scope | None = getattr(view, "required_scope", None)
    if scope in READING_SCOPES and (method or "").upper() not in SAFE_METHODS:
        return Scope.ADMINISTRATION
    return scope


class HasScope(BasePermission):
    """A signed-in person; a token must carry the scope that the call needs."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        if not isinstance(request.user, User):
            return False
        if isinstance(request.auth, ApiToken):
            scope = needed_scope(view, request.method)
            if scope is None or scope not in request.auth.scopes:
                needed = scope.value if scope is not None else "–"
                raise exceptions.PermissionDenied(
                    _("This token lacks the scope “%(scope)s”.") % {"scope": needed}, "scope_missing"
                )
        return True
