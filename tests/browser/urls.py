"""The portal's addresses, and some at which it fails in each way that it can."""

from typing import NoReturn

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import get_template
from django.urls import URLPattern, URLResolver, path
from django.views.csrf import csrf_failure

from portal.urls import handler400, handler404, handler500
from portal.urls import urlpatterns as portal_patterns


@login_not_required
def bad_request(_request: HttpRequest) -> NoReturn:
    raise SuspiciousOperation("the test asked for it")


def forbidden(_request: HttpRequest) -> NoReturn:
    raise PermissionDenied


@login_not_required
def expired_form(request: HttpRequest) -> HttpResponse:
    return csrf_failure(request)


@login_not_required
def too_many(request: HttpRequest) -> HttpResponse:
    return render(request, "429.html", status=429)


@login_not_required
def broken(_request: HttpRequest) -> NoReturn:
    raise RuntimeError("the test asked for it")


@login_not_required
def too_large(_request: HttpRequest) -> NoReturn:
    raise RequestDataTooBig


@login_not_required
def database_away(_request: HttpRequest) -> HttpResponse:
    """As `portal.api.handle_server_error` answers; the database of this test answers."""
    return HttpResponse(get_template("503.html").render({"request_id": "0b5e7a91"}), status=503)


urlpatterns: list[URLPattern | URLResolver] = [
    *portal_patterns,
    path("fail/400/", bad_request),
    path("fail/403/", forbidden),
    path("fail/csrf/", expired_form),
    path("fail/413/", too_large),
    path("fail/429/", too_many),
    path("fail/500/", broken),
    path("fail/503/", database_away),
]

__all__ = ["handler400", "handler404", "handler500", "urlpatterns"]
