"""What the desk takes: methods of pages, sizes of bodies and addresses; and what it says to all else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    JsonResponse,
)
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.views import defaults
from rest_framework import exceptions

from portal.api import API_PREFIX, PROBLEM_TYPE, problem_document

PAGE_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
# The largest form is an import with three files of 1 MiB.
MAX_BODY_BYTES = 8 * 1024 * 1024
# Path and query: the longest of ours holds 50 values in each of ten facets.
MAX_ADDRESS = 16 * 1024


class LimitsMiddleware:
    """Refuses before any view, and before anything of the body is read."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # No text has a NUL, and PostgreSQL fails where one is looked for. Browsers send it as %00 only.
        query = request.META.get("QUERY_STRING", "")
        request.META["QUERY_STRING"] = query.replace("%00", "").replace("\0", "")
        return self.get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> HttpResponseBase | None:
        """Here and not earlier, since the reader's language is known by now."""
        of_rest = hasattr(view, "cls")
        if request.method not in PAGE_METHODS and not of_rest:
            # Views of libraries know PUT and treat it like POST, without what POST is guarded with.
            return HttpResponseNotAllowed(PAGE_METHODS)
        if any(isinstance(value, str) and "\0" in value for value in kwargs.values()):
            if request.path_info.startswith(API_PREFIX):
                return _refuse(request, 404, str(exceptions.NotFound.default_detail), code="not_found")
            raise Http404
        length = request.META.get("CONTENT_LENGTH") or "0"
        if not length.isdecimal() or int(length[:12]) > MAX_BODY_BYTES:
            return _refuse(request, 413, _too_large(MAX_BODY_BYTES), code="too_large")
        address = len(request.path_info) + len(request.META.get("QUERY_STRING", ""))
        if address > MAX_ADDRESS:
            said = _("An address has at most %(limit)s characters.") % {"limit": MAX_ADDRESS}
            return _refuse(request, 414, said, code="address_too_long")
        return None


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's handler400: what was too much is told with the limit, by page or problem document."""
    if isinstance(exception, RequestDataTooBig):
        said = _too_large(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0)
        return _refuse(request, 413, said, code="too_large")
    if isinstance(exception, TooManyFieldsSent | TooManyFilesSent):
        said = _("At most %(limit)s fields can be sent at once.") % {
            "limit": settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
        }
        return _refuse(request, 400, said, code="too_many_fields")
    if request.path_info.startswith(API_PREFIX):
        return _refuse(request, 400, _("The desk cannot make sense of what was sent."), code="bad_request")
    return defaults.bad_request(request, exception)


def _too_large(limit: int) -> str:
    return _("This is too large: at most %(limit)s can be sent at once.") % {"limit": filesizeformat(limit)}


def _refuse(request: HttpRequest, status: int, said: str, *, code: str) -> HttpResponseBase:
    if request.path_info.startswith(API_PREFIX):
        error = exceptions.APIException(said, code)
        error.status_code = status
        return JsonResponse(problem_document(error), status=status, content_type=PROBLEM_TYPE)
    return render(None, "too_much.html", {"text": said, "code": status}, status=status)
