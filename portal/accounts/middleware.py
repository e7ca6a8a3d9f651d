"""The reader's language and time zone, for the time of a request."""

import zoneinfo
from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from django.utils import timezone, translation
from django.utils.translation import gettext as _

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
        if request.method not in {"GET", "HEAD"}:
            # Such an address may answer nothing but a form: back to where that was, to send it again.
            messages.warning(request, _("You were no longer signed in, so what you sent was not kept."))
            return redirect_to_login(_page_before(request))
        return super().handle_no_permission(request, view_func)


def _page_before(request: HttpRequest) -> str:
    """The page of ours that the request came from."""
    before = urlsplit(request.headers.get("Referer", ""))
    if before.netloc != request.get_host() or not before.path:
        return resolve_url(settings.LOGIN_REDIRECT_URL)
    return f"{before.path}?{before.query}" if before.query else before.path


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
