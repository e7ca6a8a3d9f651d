"""The reader's language and time zone, for the time of a request."""

import zoneinfo
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone, translation

from portal.accounts.models import User

ZONE_COOKIE = "claimdesk-zone"
LONGEST_ZONE = 64


class SignInMiddleware(LoginRequiredMiddleware):
    """Every page needs a sign-in unless its view says otherwise (`login_not_required`).

    A part of a page that htmx asks for is refused (401) instead: a redirect would be followed and put the
    whole sign-in page into the middle of the one that is open.
    """

    def handle_no_permission(  # type: ignore[override] # the stubs only know the redirect
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseBase:
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=401)
        return super().handle_no_permission(request, view_func)


class PersonMiddleware:
    """Activates what a signed-in person chose; without a choice the browser's language and time zone stand.

    Comes after LocaleMiddleware (whose cookie serves those who are not signed in) and after authentication.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        # What `claimdesk.js` found out; UTC until it has, and where no script runs.
        zone = request.COOKIES.get(ZONE_COOKIE) or settings.TIME_ZONE
        if isinstance(user, User):
            if user.language in dict(settings.LANGUAGES):
                translation.activate(user.language)
                request.LANGUAGE_CODE = user.language
            zone = user.time_zone or zone
        with timezone.override(_zone(zone)):
            return self.get_response(request)


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name if len(name) <= LONGEST_ZONE else "UTC")
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        # A zone that this machine's data no longer has, or that somebody made up, must not lock anybody out.
        return zoneinfo.ZoneInfo("UTC")
