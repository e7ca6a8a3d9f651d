"""The first page after signing in."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from portal import htmx


def home(request: HttpRequest, **_: Any) -> HttpResponse:
    return htmx.render(request, "pages/home.html")
