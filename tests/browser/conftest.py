from typing import Any

import pytest

from tests.cast import cast, cheap_passwords

__all__ = ["cast", "cheap_passwords"]


@pytest.fixture(autouse=True)
def everything_offered(settings: Any) -> None:
    """Pages that are only there where the desk can send mail are there, too."""
    settings.MAIL_OFFERED = True


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Attempts to sign in are counted in the cache, which outlives a test."""
    from django.core.cache import cache

    cache.clear()
