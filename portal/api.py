"""The base of the REST API: who may call, what an error looks like, how lists are paged.

- Tokens (``Authorization: Bearer …``) are checked for expiry and scope; a view without a scope admits no
  token. A browser session may be used too; changes then need the CSRF token.
- Every error is a problem document (RFC 9457, ``application/problem+json``) with a stable ``code`` and, for
  bad input, one entry per field in ``errors``.
- Lists are paged by cursor: ``{"next": …, "previous": …, "results": […]}``.
- Every POST may carry an ``Idempotency-Key``: see `portal.idempotency.keeping`.
"""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template import loader
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views import defaults
from rest_framework import exceptions, status
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, set_rollback

from portal import access, work_ids
from portal.accounts.audit import source_ip
from portal.accounts.models import User
from portal.cursors import CursorPages
from portal.health import database_trouble
from portal.idempotency.keeping import Attempt, once
from portal.rest_defaults import BoundedJSONParser, HasScope, Scope

__all__ = [
    "ApiGenericView",
    "ApiListView",
    "ApiView",
    "CursorPages",
    "Problem",
    "Scope",
    "handle_exception",
    "handle_not_found",
    "handle_server_error",
    "problem_document",
]

PROBLEM_TYPE = "application/problem+json"
# When to come back after the database was away.
RETRY_SECONDS = 30
API_PREFIX = "/api/v"


# --- errors ----------------------------------------------------------------------------------------


class Problem(exceptions.APIException):
    """An error that a domain function found: a field (or "" for the whole), a message, a stable code."""

    status_code: int = status.HTTP_422_UNPROCESSABLE_ENTITY

    def __init__(
        self, message: str, *, code: str, field: str = "", status_code: int | None = None, **extra: object
    ) -> None:
        super().__init__(message, code)
        self.message, self.code, self.field, self.extra = message, code, field, extra
        if status_code is not None:
            self.status_code = status_code


def handle_exception(error: Exception, context: Mapping[str, Any]) -> Response | None:  # noqa: ARG001 - DRF passes it
    """DRF's exception handler: any expected error as a problem document; None (a 500) for the rest."""
    if isinstance(error, Http404):
        error = exceptions.NotFound(_("There is no such object, or you may not know of it."))
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(str(error) or None)
    elif isinstance(error, RequestDataTooBig):
        error = exceptions.APIException(_("The body of the request is too large."), "too_large")
        error.status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    if not isinstance(error, exceptions.APIException):
        return None
    set_rollback()
    headers = {}
    if header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = header
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    return Response(
        problem_document(error), status=error.status_code, headers=headers, content_type=PROBLEM_TYPE
    )


def handle_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's handler404: no page for a program that asked for an address that there is not."""
    if request.path_info.startswith(API_PREFIX):
        error = exceptions.NotFound(_("There is no such object, or you may not know of it."))
        return JsonResponse(problem_document(error), status=error.status_code, content_type=PROBLEM_TYPE)
    return defaults.page_not_found(request, exception)


def handle_server_error(request: HttpRequest) -> HttpResponseBase:
    """Django's handler500, in the same way. Where the database is away it is not the desk that is at fault: a
    503, with the advice to try again."""
    away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError) and bool(database_trouble())
    code = status.HTTP_503_SERVICE_UNAVAILABLE if away else status.HTTP_500_INTERNAL_SERVER_ERROR
    response: HttpResponse
    if request.path_info.startswith(API_PREFIX):
        error = exceptions.APIException()
        if away:
            error = Problem(
                _("The desk's database does not answer. Try again in a minute."),
                code="database_unavailable",
                status_code=code,
            )
        response = JsonResponse(problem_document(error), status=code, content_type=PROBLEM_TYPE)
    else:
        template = loader.get_template(f"{code}.html")
        # Not with the request: what its context processors look up may be what broke.
        told = {"request_id": work_ids.current().get("request_id", "")}
        response = HttpResponse(template.render(told), status=code)
    if away:
        response["Retry-After"] = str(RETRY_SECONDS)
    return response


def problem_document(error: exceptions.APIException) -> dict[str, Any]:
    """The RFC 9457 document of an error."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": _title(error.status_code),
        "status": error.status_code,
    }
    if isinstance(error, exceptions.ValidationError):
        errors = list(_flatten(error.detail))
        document |= {
            "code": "invalid",
            "detail": errors[0]["message"] if len(errors) == 1 else _("Some fields are not valid."),
            "errors": errors,
        }
    elif isinstance(error, Problem):
        document |= {"code": error.code, "detail": error.message, **error.extra}
        if error.field:
            document["errors"] = [{"field": error.field, "message": error.message, "code": error.code}]
    else:
        detail = error.detail
        document |= {"code": getattr(detail, "code", error.default_code), "detail": str(detail)}
    whole: dict[str, Any] = _sayable(document)
    return whole


def _sayable(value: Any) -> Any:
    """The same with a replacement for each half of a character: what was sent comes back in messages and
    names of fields, JSON lets it through, and no UTF-8 text can hold it."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_sayable(key): _sayable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(entry) for entry in value]
    return value


def _title(code: int) -> str:
    return {
        400: _("Bad request"),
        401: _("Not signed in"),
        403: _("Not permitted"),
        404: _("Not found"),
        405: _("Method not allowed"),
        406: _("Not acceptable"),
        409: _("Conflict"),
        413: _("Too large"),
        415: _("Unsupported media type"),
        422: _("Cannot be done"),
        429: _("Too many requests"),
        503: _("Not available"),
    }.get(code, _("Error"))


def _flatten(detail: Any, path: str = "") -> "list[dict[str, str]]":
    """DRF's nested details as a flat list: [{"field": "devices.0.count", "message", "code"}]."""
    if isinstance(detail, Mapping):
        found = []
        for key, value in detail.items():
            name = "" if key == "non_field_errors" else str(key)
            found += _flatten(value, ".".join(part for part in (path, name) if part))
        return found
    if isinstance(detail, list):
        found = []
        for index, value in enumerate(detail):
            nested = isinstance(value, (Mapping, list))
            found += _flatten(value, f"{path}.{index}".strip(".") if nested else path)
        return found
    return [{"field": path, "message": str(detail), "code": getattr(detail, "code", "invalid")}]


# --- views -----------------------------------------------------------------------------------------


class ApiView(APIView):
    """Base of single endpoints. Subclasses name the scope that a token needs; where that is one for reading,
    changes need the scope of administrators."""

    required_scope: ClassVar[Scope | None] = None
    permission_classes = (HasScope,)
    parser_classes = (BoundedJSONParser,)
    # Whether POST talks to a cluster and so opens transactions of its own: it then calls `keep` in the one
    # that makes the effect. Else all of it is one transaction when an Idempotency-Key comes along.
    post_talks_to_cluster: ClassVar[bool] = False
    attempt: Attempt | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if (post := cls.__dict__.get("post")) is not None:
            cls.post = _once(post)  # type: ignore[attr-defined] # of subclasses that have it

    def keep(self, response: Response) -> None:
        """Write down what is answered to a POST; inside the transaction that makes its effect."""
        if self.attempt is not None:
            self.attempt.keep(response)

    @property
    def person(self) -> User:
        """Who calls. `HasScope` has made sure that there is somebody."""
        user = self.request.user
        if not isinstance(user, User):
            raise exceptions.NotAuthenticated
        return user

    def administrator(self) -> None:
        """Lets only administrators go on."""
        access.demand_administrator(self.person)

    def reader(self) -> None:
        """Lets only those go on who read everything."""
        if not access.may_read_everything(self.person):
            raise PermissionDenied(_("Only platform administrators and auditors may read this."))

    def values(self) -> Mapping[str, Any]:
        """The body, for domain functions that read and check it themselves."""
        if not isinstance(body := self.request.data, Mapping):
            raise exceptions.ParseError(_("The body must be a JSON object."))
        return body

    def who(self) -> dict[str, Any]:
        """Who changes something, when and from where, as domain functions take it."""
        return {"user": self.person, "now": timezone.now(), "source_ip": source_ip(self.request)}


def _once(post: Callable[..., Response]) -> Callable[..., Response]:
    """The method `post` of a view, done at most once for an Idempotency-Key."""

    @wraps(post)
    def guarded(self: ApiView, request: Request, *args: Any, **kwargs: Any) -> Response:
        def act(attempt: Attempt | None) -> Response:
            self.attempt = attempt
            return post(self, request, *args, **kwargs)

        if self.attempt is not None:
            # Called by the method of a subclass, which is guarded itself.
            return post(self, request, *args, **kwargs)
        return once(request=request, person=self.person, act=act, whole=not self.post_talks_to_cluster)

    return guarded


class ApiGenericView(ApiView, GenericAPIView[Any]):
    """The same over a queryset and a serializer."""


class ApiListView(ApiView, ListAPIView[Any]):
    """A list, paged by cursor. `ordering` (a field or a tuple ending in a unique one) may be set."""

    pagination_class = CursorPages
