"""What needs mail is offered only where the desk can send some."""

from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern

from portal.accounts.models import User


def only_with_mail(pattern: URLPattern) -> URLPattern:
    """The same address, which is not there (404) without CLAIMDESK_EMAIL_URL."""
    view = pattern.callback

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.MAIL_OFFERED:
            raise Http404
        user = request.user
        before = (user.pk, user.email) if isinstance(user, User) else None
        response: HttpResponse = view(request, *args, **kwargs)
        if before is not None:
            # django-allauth drops an address that was never confirmed as soon as another one is asked for;
            # here the old one stays until the new one is confirmed.
            User.objects.filter(pk=before[0], email="").update(email=before[1])
        return response

    return URLPattern(pattern.pattern, guarded, pattern.default_args, pattern.name)
