"""What needs mail is offered only where the desk can send some."""

from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern


def only_with_mail(pattern: URLPattern) -> URLPattern:
    """The same address, which is not there (404) without CLAIMDESK_EMAIL_URL."""
    view = pattern.callback

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.MAIL_OFFERED:
            raise Http404
        response: HttpResponse = view(request, *args, **kwargs)
        return response

    return URLPattern(pattern.pattern, guarded, pattern.default_args, pattern.name)
