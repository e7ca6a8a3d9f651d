"""Too many attempts: the page that says so, and when to try again."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

# As long as django-allauth remembers failed attempts at an account.
WAIT_SECONDS = 300


def too_many(request: HttpRequest) -> HttpResponse:
    """429. It is the project's `handler429` too, which django-allauth asks for its other limits."""
    response = render(request, "429.html", {"minutes": WAIT_SECONDS // 60}, status=429)
    response["Retry-After"] = str(WAIT_SECONDS)
    return response
