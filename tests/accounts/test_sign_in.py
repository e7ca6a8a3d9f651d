"""Signing in and out."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.test import Client
from django.utils import timezone

from portal.accounts.models import AuditEntry
from tests.cast import PASSWORD, Cast

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"
NEW = "a quite different pass phrase"


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Attempts are counted in the cache, which outlives a test."""
    from django.core.cache import cache

    cache.clear()


@pytest.mark.parametrize("name", ["mina", "mina@example.org"])
def test_signing_in_by_name_or_address_leads_home(client: Client, cast: Cast, name: str) -> None:
    response = client.post(LOGIN, {"login": name, "password": PASSWORD})

    assert response.status_code == 302
    assert response["Location"] == "/"
    assert client.session["_auth_user_id"] == str(cast.member.pk)


def test_a_wrong_password_says_so_and_keeps_the_name(client: Client, cast: Cast) -> None:
    response = client.post(LOGIN, {"login": "mina", "password": "open sesame"})

    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    assert 'value="mina"' in response.content.decode()
    assert "open sesame" not in response.content.decode()


def test_a_person_who_left_cannot_sign_in(client: Client, cast: Cast) -> None:
    cast.member.is_active = False
    cast.member.save()

    client.post(LOGIN, {"login": "mina", "password": PASSWORD})

    assert "_auth_user_id" not in client.session


@pytest.fixture
def one_moment() -> Iterator[None]:
    """However long the attempts of a test take, they fall into the same minute."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


@pytest.mark.usefixtures("one_moment")
def test_many_wrong_passwords_are_slowed_down(client: Client, cast: Cast) -> None:
    for _ in range(5):
        assert client.post(LOGIN, {"login": "mina", "password": "open sesame"}).status_code == 200

    response = client.post(LOGIN, {"login": "mina", "password": PASSWORD})

    assert response.status_code == 429
    assert response["Retry-After"] == "300"
    assert "Please wait 5 minutes" in response.content.decode()
    assert "_auth_user_id" not in client.session


@pytest.mark.usefixtures("one_moment")
def test_an_account_is_counted_however_it_is_named_and_whatever_the_host(
    client: Client, cast: Cast, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = [".example.org"]
    names = ["mina", "mina@example.org", "MINA@example.org", "Mina", " mina"]

    for number, name in enumerate(names):
        wrong = {"login": name, "password": "open sesame"}
        assert client.post(LOGIN, wrong, headers={"host": f"desk{number}.example.org"}).status_code == 200

    right = {"login": "mina@example.org", "password": PASSWORD}
    assert client.post(LOGIN, right, headers={"host": "desk.example.org"}).status_code == 429


@pytest.mark.usefixtures("one_moment")
def test_one_address_does_not_try_everybody(client: Client, cast: Cast) -> None:
    answers = [
        client.post(LOGIN, {"login": f"nobody{n}", "password": "open sesame"}).status_code for n in range(11)
    ]

    assert answers == [200] * 10 + [429]
    other = client.post(LOGIN, {"login": "mina", "password": PASSWORD}, REMOTE_ADDR="192.0.2.7")
    assert other.status_code == 302


@pytest.mark.usefixtures("one_moment")
def test_nobody_escapes_the_count_by_naming_another_address(client: Client, cast: Cast) -> None:
    answers = [
        client.post(
            LOGIN,
            {"login": f"nobody{n}", "password": "open sesame"},
            headers={"X-Forwarded-For": f"192.0.2.{n}", "X-Real-IP": f"192.0.2.{n}"},
        ).status_code
        for n in range(11)
    ]

    assert answers[-1] == 429


@pytest.mark.usefixtures("one_moment")
@pytest.mark.parametrize(
    ("written", "slowed"),
    [
        # What the proxy saw is last; whatever stands before was sent by the visitor.
        ("192.0.2.{n}, 198.51.100.9", True),
        ("198.51.100.9, 192.0.2.{n}", False),
    ],
)
def test_behind_a_proxy_what_it_saw_counts(
    client: Client, cast: Cast, settings: object, written: str, slowed: bool
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1  # type: ignore[attr-defined] # pytest-django's settings

    answers = [
        client.post(
            LOGIN,
            {"login": f"nobody{n}", "password": "open sesame"},
            headers={"X-Forwarded-For": written.format(n=n)},
        ).status_code
        for n in range(11)
    ]

    assert (answers[-1] == 429) is slowed


@pytest.mark.parametrize("header", ["", "nonsense", "198.51.100.9"])
def test_a_header_that_the_proxies_did_not_write_breaks_nothing(
    client: Client, cast: Cast, settings: object, header: str
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2  # type: ignore[attr-defined] # pytest-django's settings

    response = client.post(
        LOGIN, {"login": "mina", "password": PASSWORD}, headers={"X-Forwarded-For": header}
    )

    assert response.status_code == 302


def test_a_password_is_reset_by_mail_where_there_is_mail(
    client: Client, cast: Cast, settings: object
) -> None:
    assert client.get("/accounts/password/reset/").status_code == 404
    assert "I do not know my password" not in client.get(LOGIN).content.decode()
    settings.MAIL_OFFERED = True  # type: ignore[attr-defined] # pytest-django's settings
    assert "I do not know my password" in client.get(LOGIN).content.decode()

    client.post("/accounts/password/reset/", {"email": "mina@example.org"})
    client.post("/accounts/password/reset/", {"email": "nobody@example.org"})

    assert [message.to for message in mail.outbox] == [["mina@example.org"]]
    link = re.search(r"http://testserver(/\S+)", str(mail.outbox[0].body))
    assert link is not None
    form = client.get(client.get(link[1])["Location"])
    assert "Choose a new password" in form.content.decode()
    client.post(form.wsgi_request.path, {"password1": NEW, "password2": NEW})
    assert client.post(LOGIN, {"login": "mina", "password": NEW}).status_code == 302
    assert AuditEntry.objects.get().action == "person.password"
    assert "works no longer" in client.get(link[1]).content.decode()


@pytest.mark.parametrize("path", ["email/", "confirm-email/", "password/reset/done/", "confirm-email/x/"])
def test_without_mail_nothing_that_needs_it_is_there(client: Client, cast: Cast, path: str) -> None:
    client.force_login(cast.member)

    assert client.get(f"/accounts/{path}").status_code == 404


def test_an_address_is_changed_once_it_is_confirmed(client: Client, cast: Cast, settings: object) -> None:
    settings.MAIL_OFFERED = True  # type: ignore[attr-defined] # pytest-django's settings
    client.force_login(cast.member)
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})

    client.post("/accounts/email/", {"action_add": "", "email": "mina@new.example.org"})

    cast.member.refresh_from_db()
    assert cast.member.email == "mina@example.org"
    link = re.search(r"http://testserver(/\S+)", str(mail.outbox[-1].body))
    assert link is not None
    client.post(link[1])
    cast.member.refresh_from_db()
    assert cast.member.email == "mina@new.example.org"


def test_pages_lead_to_the_sign_in_and_back(client: Client, cast: Cast) -> None:
    there = client.get("/tokens/")
    assert there.status_code == 302
    assert there["Location"] == "/accounts/login/?next=/tokens/"

    back = client.post(there["Location"], {"login": "mina", "password": PASSWORD, "next": "/tokens/"})

    assert back["Location"] == "/tokens/"


def test_a_part_of_a_page_is_refused_instead_of_becoming_a_sign_in_page(client: Client) -> None:
    assert client.get("/", headers={"HX-Request": "true"}).status_code == 401


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere_after_signing_in(client: Client, cast: Cast, target: str) -> None:
    response = client.post(LOGIN, {"login": "mina", "password": PASSWORD, "next": target})

    assert response["Location"] == "/"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/"])
def test_nobody_is_sent_elsewhere_after_choosing_a_language(client: Client, target: str) -> None:
    response = client.post("/language/", {"language": "zh-hans", "next": target})

    assert response["Location"] == "/"


def test_signing_out_takes_a_post(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    assert client.get("/accounts/logout/").status_code == 200
    assert "_auth_user_id" in client.session

    client.post("/accounts/logout/")
    assert "_auth_user_id" not in client.session


def test_sign_up_is_closed(client: Client) -> None:
    from portal.accounts.models import User

    form = {"email": "new@example.org", "username": "new", "password1": PASSWORD, "password2": PASSWORD}
    response = client.post("/accounts/signup/", form)

    assert "made by administrators" in response.content.decode()
    assert not User.objects.filter(username="new").exists()


def test_a_form_without_its_token_is_explained(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)

    response = client.post(LOGIN, {"login": "mina", "password": PASSWORD})

    assert response.status_code == 403
    assert "The form has expired" in response.content.decode()


@pytest.mark.parametrize("path", ["login/", "reauthenticate/", "password/change/"])
def test_without_mail_no_page_leads_to_a_reset_by_mail(client: Client, cast: Cast, path: str) -> None:
    if path != "login/":
        client.force_login(cast.member)

    page = client.get(f"/accounts/{path}")

    assert page.status_code == 200
    assert "password/reset" not in page.content.decode()
