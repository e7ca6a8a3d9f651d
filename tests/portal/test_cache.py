"""The cache with its server, without it, and with it again."""

from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import Client, override_settings

from portal.stack import free_port
from tests.cast import Cast

AWAY: dict[str, Any] = {
    "default": {**settings.CACHES["default"], "LOCATION": f"redis://127.0.0.1:{free_port()}/0"}
}


def test_what_is_kept_is_in_valkey() -> None:
    from redis import Redis

    cache.set("portal:test", "here", timeout=60)
    with Redis.from_url(settings.REDIS_URL) as client:
        assert any(b"portal:test" in key for key in client.keys("*portal:test*"))
    assert cache.get("portal:test") == "here"
    cache.delete("portal:test")


@override_settings(CACHES=AWAY)
def test_without_a_server_the_memory_of_the_process_serves() -> None:
    assert cache.add("portal:once", 1, timeout=60)
    assert not cache.add("portal:once", 1, timeout=60)
    assert cache.incr("portal:once") == 2
    assert cache.get_many(["portal:once", "portal:never"]) == {"portal:once": 2}
    assert "portal:once" in cache
    cache.delete("portal:once")
    assert cache.get("portal:once", "gone") == "gone"


@pytest.mark.django_db
@override_settings(CACHES=AWAY)
def test_people_can_sign_in_without_a_server(client: Client, cast: Cast) -> None:
    cast.member.set_password("correct horse")
    cast.member.save()

    answer = client.post("/accounts/login/", {"login": cast.member.username, "password": "correct horse"})

    assert (answer.status_code, answer["Location"]) == (302, "/")
