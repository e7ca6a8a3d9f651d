"""What holds for every page beside who may see it: languages, errors without secrets, cookies."""

import pytest
from django.test import Client

from tests.cast import Cast
from tests.pages.fleet import cluster, devices, request

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(cast: Cast) -> Cast:
    devices(cluster(), free=2, held=1)
    request(cast)
    return cast


def test_every_page_is_wanted_in_chinese_too(client: Client, world: Cast) -> None:
    world.administrator.language = "zh-hans"
    world.administrator.save()
    client.force_login(world.administrator)

    for url in ("/", "/projects/tides/", "/tokens/", "/audit/", "/search/?q=beam", "/api/docs/", "/nothing/"):
        text = client.get(url).content.decode()
        assert '<html lang="zh-hans">' in text, url
        assert "服务台" in text, url


def test_the_language_menu_changes_the_profile_of_who_is_signed_in(client: Client, world: Cast) -> None:
    client.force_login(world.member)

    assert client.get("/language/?language=zh-hans").status_code == 405
    client.post("/language/", {"language": "zh-hans", "next": "/projects/"})

    world.member.refresh_from_db()
    assert world.member.language == "zh-hans"


def test_an_error_page_tells_no_secret(
    world: Cast, monkeypatch: pytest.MonkeyPatch, settings: object
) -> None:
    from portal.pages import home

    def broken(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("token=cdesk_very_secret")

    monkeypatch.setattr(home, "_fleets", broken)
    client = Client(raise_request_exception=False)
    client.force_login(world.member)

    response = client.get("/")

    assert response.status_code == 500
    assert "cdesk_very_secret" not in response.content.decode()
    assert settings.SECRET_KEY not in response.content.decode()  # type: ignore[attr-defined] # pytest-django's
    assert "Something broke" in response.content.decode()
    assert "unsafe" not in response["Content-Security-Policy"]


@pytest.mark.parametrize(("away", "status"), [(True, 503), (False, 500)])
def test_without_a_database_the_desk_says_so_and_when_to_come_back(
    world: Cast, monkeypatch: pytest.MonkeyPatch, away: bool, status: int
) -> None:
    from django.db import OperationalError

    from portal import api
    from portal.pages import home

    def broken(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(home, "_fleets", broken)
    monkeypatch.setattr(api, "database_trouble", lambda: "unreachable" if away else "")
    client = Client(raise_request_exception=False)
    client.force_login(world.member)

    response = client.get("/", headers={"X-Request-ID": "request-7777"})

    assert response.status_code == status
    assert response.get("Retry-After") == ("30" if away else None)
    told = response.content.decode()
    assert ("does not answer" in told) is away
    assert "request-7777" in told
    assert "closed the connection" not in told


def test_a_page_that_is_not_there_keeps_the_frame(client: Client, world: Cast) -> None:
    client.force_login(world.member)

    response = client.get("/no/such/page/")

    assert response.status_code == 404
    assert "There is no such page" in response.content.decode()
    assert 'id="site-nav"' in response.content.decode()


def test_a_host_that_is_not_ours_is_refused(client: Client) -> None:
    response = client.get("/", headers={"Host": "evil.example"})

    assert response.status_code == 400


@pytest.mark.parametrize("url", ["/", "/tokens/"])
def test_pages_with_forms_are_not_framed_nor_cached_for_others(client: Client, world: Cast, url: str) -> None:
    client.force_login(world.member)

    assert "Cookie" in client.get(url)["Vary"]


def test_the_desk_keeps_secure_cookies_and_hsts_behind_tls(tmp_path: object) -> None:
    """`check --deploy` is clean when TLS ends in front of the portal."""
    import os
    import subprocess
    import sys

    env = os.environ | {
        "CLAIMDESK_BEHIND_TLS": "true",
        "CLAIMDESK_SECRET_KEY": "".join(chr(33 + (7 * n) % 90) for n in range(64)),
        "CLAIMDESK_ALLOWED_HOSTS": "desk.example.org",
        "CLAIMDESK_DATA_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
