"""The bell of the top bar."""

from functools import cache
from typing import Any

from django.http import HttpRequest

from portal.accounts.models import User
from portal.accounts.notifications.inbox import MOST_COUNTED, unread_count


def bell(request: HttpRequest) -> dict[str, Any]:
    """`unread_notifications()`: how many ("99+" beyond), asked for once and only where a bell is drawn."""

    @cache
    def count() -> str:
        user = getattr(request, "user", None)
        if not isinstance(user, User):
            return ""
        found = unread_count(user)
        return f"{MOST_COUNTED}+" if found > MOST_COUNTED else str(found or "")

    return {"unread_notifications": count}
