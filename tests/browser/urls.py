"""The portal's addresses, and some at which it fails in each way that it can."""

from typing import NoReturn

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, URLResolver, path
from django.views.csrf import csrf_failure

from portal.urls import handler404, handler500
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


urlpatterns: list[URLPattern | URLResolver] = [
    *portal_patterns,
    path("fail/400/", bad_request),
    path("fail/403/", forbidden),
    path("fail/csrf/", expired_form),
    path("fail/429/", too_many),
    path("fail/500/", broken),
]

__all__ = ["handler404", "handler500", "urlpatterns"]
