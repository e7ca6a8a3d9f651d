"""The reader's language and time zone, for the time of a request."""

import zoneinfo
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

from portal.accounts.models import User


class PersonMiddleware:
    """Activates what a signed-in person chose; without a choice the browser's language and UTC stand.

    Comes after LocaleMiddleware (whose cookie serves those who are not signed in) and after authentication.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        zone = settings.TIME_ZONE
        if isinstance(user, User):
            if user.language in dict(settings.LANGUAGES):
                translation.activate(user.language)
                request.LANGUAGE_CODE = user.language
            zone = user.time_zone or zone
        with timezone.override(_zone(zone)):
            return self.get_response(request)


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, zoneinfo.ZoneInfoNotFoundError):
        # A zone that this machine's data no longer has must not lock anybody out.
        return zoneinfo.ZoneInfo("UTC")
