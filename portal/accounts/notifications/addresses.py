"""Where the desk is found from outside: mails and webhooks carry whole addresses."""

from django.conf import settings


def absolute(path: str) -> str:
    """The path with the desk's own address before it; the path alone where nobody said what that is."""
    return f"{settings.PUBLIC_URL.rstrip('/')}{path}" if path else ""
