"""REST for nodes that report: tokens of nodes open an intake and nothing else, tokens of persons do not."""

from abc import abstractmethod
from typing import Any, ClassVar

from django.contrib.auth.models import AnonymousUser
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from inventory.models import CdiToken, PodDeviceToken
from inventory.node_reports import MAX_REPORT_BYTES, UnableToAccept
from portal.api import Problem

NodeToken = CdiToken | PodDeviceToken


class NodeTokenAuthentication(BaseAuthentication):
    """A node by its token. Whatever is wrong with a token is told in one and the same way."""

    @abstractmethod
    def find(self, plain: str) -> NodeToken | None:
        """The live token of the sort that this intake takes."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, NodeToken] | None:
        words_sent = get_authorization_header(request).split()
        if not words_sent or words_sent[0].lower() != b"bearer":
            return None
        plain = words_sent[1].decode("latin-1") if len(words_sent) == 2 else ""
        token = self.find(plain)
        if token is None:
            raise exceptions.AuthenticationFailed(
                _("This is no token of a node, or it has expired or was revoked."), "token_unknown"
            )
        return AnonymousUser(), token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - DRF's signature
        return "Bearer"


def security_definition() -> dict[str, Any]:
    """How OpenAPI is told of a token of a node."""
    description = "A token that an administrator issued for one node and one sort of report."
    return {"type": "http", "scheme": "bearer", "description": description}


class HasNodeToken(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:  # noqa: ARG002 - DRF's signature
        return isinstance(request.auth, NodeToken)


class RawReport(BaseParser):
    """The bytes themselves, bounded: the intake decodes them into its own types."""

    media_type = "application/json"
    max_bytes: ClassVar = MAX_REPORT_BYTES

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:  # noqa: ARG002 - DRF's signature
        # One byte more than allowed is enough to see that it is too much.
        return stream.read(self.max_bytes + 1)


class TooOften(exceptions.Throttled):
    default_code = "too_often"


def answer_to(refused: UnableToAccept) -> exceptions.APIException:
    """A refusal as REST tells it."""
    if refused.wait is not None:
        return TooOften(wait=refused.wait, detail=refused.message)
    return Problem(refused.message, code=refused.code, status_code=refused.status)
