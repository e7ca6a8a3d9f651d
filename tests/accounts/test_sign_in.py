"""Signing in and out."""

import pytest
from django.test import Client

from tests.cast import PASSWORD, Cast

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


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


def test_many_wrong_passwords_are_slowed_down(client: Client, cast: Cast) -> None:
    for _ in range(5):
        client.post(LOGIN, {"login": "mina", "password": "open sesame"})

    client.post(LOGIN, {"login": "mina", "password": PASSWORD})

    assert "_auth_user_id" not in client.session


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
