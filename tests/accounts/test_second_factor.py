"""A second factor: set up, asked for, recovered; and required of administrators where that is wanted."""

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.test import Client

from portal.accounts.mfa import MfaAdapter, has_second_factor
from portal.accounts.models import AuditEntry, User
from tests.cast import PASSWORD, Cast, person

pytestmark = pytest.mark.django_db
LOGIN = {"login": "mina", "password": PASSWORD}


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    from django.core.cache import cache

    cache.clear()


def code_of(secret: str, *, step: int = 0) -> str:
    """What an app shows now (or some steps later: a code works once)."""
    return str(format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time())) + step)))


def with_app(client: Client, name: str = "mina") -> str:
    """Signs in and sets an app up; its secret."""
    client.post("/accounts/login/", {"login": name, "password": PASSWORD})
    there = client.get("/accounts/mfa/totp/activate/")
    assert there["Location"].startswith("/accounts/reauthenticate/?next=")
    back = client.post(there["Location"], {"password": PASSWORD})
    assert back["Location"] == "/accounts/mfa/totp/activate/"
    page = client.get("/accounts/mfa/totp/activate/").content.decode()
    secret = re.search(r'class="cd-secret">([A-Z2-7]+)<', page)
    assert secret is not None
    answer = client.post("/accounts/mfa/totp/activate/", {"code": code_of(secret[1])})
    assert answer["Location"] == "/accounts/mfa/recovery-codes/"
    return secret[1]


def test_an_app_is_set_up_and_asked_for_at_the_next_sign_in(
    client: Client, cast: Cast, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        secret = with_app(client)
    codes = client.get("/accounts/mfa/recovery-codes/").content.decode()
    client.post("/accounts/logout/")

    there = client.post("/accounts/login/", LOGIN | {"next": "/tokens/"})
    assert there["Location"] == "/accounts/mfa/authenticate/"
    assert "_auth_user_id" not in client.session
    assert client.get("/tokens/").status_code == 302

    wrong = client.post("/accounts/mfa/authenticate/", {"code": "000000"})
    assert "cd-field-error" in wrong.content.decode()
    answer = client.post("/accounts/mfa/authenticate/", {"code": code_of(secret, step=1)})

    assert answer["Location"] == "/tokens/"
    assert client.session["_auth_user_id"] == str(cast.member.pk)
    assert len(re.findall(r"\b[0-9]{8}\b", codes)) == 10
    added = AuditEntry.objects.filter(action="person.mfa-add").order_by("pk")
    assert [entry.after for entry in added] == [{"type": "totp"}, {"type": "recovery_codes"}]


def test_recovery_codes_are_shown_once_and_work_once(client: Client, cast: Cast) -> None:
    with_app(client)
    code = re.findall(r"\b[0-9]{8}\b", client.get("/accounts/mfa/recovery-codes/").content.decode())[0]
    assert code not in client.get("/accounts/mfa/recovery-codes/").content.decode()

    for works in (True, False):
        client.post("/accounts/logout/")
        client.post("/accounts/login/", LOGIN)
        client.post("/accounts/mfa/authenticate/", {"code": code})
        assert ("_auth_user_id" in client.session) is works


def test_secrets_are_sealed_in_the_database(client: Client, cast: Cast) -> None:
    secret = with_app(client)

    stored = Authenticator.objects.get(type="totp")

    assert secret not in str(stored.data)
    assert MfaAdapter().decrypt(stored.data["secret"]) == secret


def test_without_the_key_no_code_fits(client: Client, cast: Cast, settings: Any) -> None:
    from cryptography.fernet import Fernet

    secret = with_app(client)
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]

    factor = TOTP(Authenticator.objects.get(type="totp"))

    assert not factor.validate_code(code_of(secret, step=1))
    assert not factor.validate_code(code_of("", step=1))


def test_guessing_codes_is_slowed_down(client: Client, cast: Cast) -> None:
    secret = with_app(client)
    client.post("/accounts/logout/")
    client.post("/accounts/login/", LOGIN)
    for _ in range(6):
        client.post("/accounts/mfa/authenticate/", {"code": "000000"})

    client.post("/accounts/mfa/authenticate/", {"code": code_of(secret, step=1)})

    assert "_auth_user_id" not in client.session


def test_removing_the_app_asks_and_is_written_down(client: Client, cast: Cast) -> None:
    with_app(client)
    assert "no longer asked for" in client.get("/accounts/mfa/totp/deactivate/").content.decode()

    client.post("/accounts/mfa/totp/deactivate/")

    assert not has_second_factor(cast.member)
    assert AuditEntry.objects.filter(action="person.mfa-remove", before={"type": "totp"}).exists()


def test_an_administrator_resets_what_somebody_lost(client: Client, cast: Cast) -> None:
    with_app(client)
    client.post("/accounts/logout/")
    client.force_login(cast.administrator)
    url = f"/people/{cast.member.pk}/reset-factor/"
    assert "Make sure that it is Mina" in client.get(url).content.decode()

    client.post(url)

    assert not Authenticator.objects.exists()
    assert AuditEntry.objects.filter(action="person.mfa-reset", actor=cast.administrator).count() == 1
    client.logout()
    client.post("/accounts/login/", LOGIN)
    assert client.session["_auth_user_id"] == str(cast.member.pk)


@pytest.mark.parametrize(
    "path",
    [
        "/accounts/mfa/",
        "/accounts/mfa/totp/activate/",
        "/accounts/mfa/webauthn/",
        "/accounts/mfa/webauthn/add/",
        "/accounts/reauthenticate/",
    ],
)
def test_its_pages_are_of_this_desk_and_keep_the_policy(client: Client, cast: Cast, path: str) -> None:
    client.post("/accounts/login/", LOGIN)
    if "reauthenticate" not in path:
        client.post("/accounts/reauthenticate/", {"password": PASSWORD})

    page = client.get(path)
    text = page.content.decode()

    assert page.status_code == 200
    assert "cd-shell" in text
    assert not re.search(r"<[^>]+\sstyle=|<style|\son[a-z]+=|javascript:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert "unsafe" not in page["Content-Security-Policy"]


# --- required of administrators --------------------------------------------------------------------


@pytest.fixture
def required(settings: Any) -> None:
    settings.REQUIRE_MFA = True


def test_an_administrator_without_one_gets_only_to_setting_one_up(
    client: Client, cast: Cast, required: None
) -> None:
    client.post("/accounts/login/", {"login": "anouk", "password": PASSWORD})

    for path in ("/", "/people/", "/projects/tides/"):
        assert client.get(path)["Location"] == "/accounts/mfa/"
    assert "need a second factor" in client.get("/accounts/mfa/").content.decode()
    assert client.post(f"/people/{cast.member.pk}/", {"roles": ["finance"]})["Location"] == "/accounts/mfa/"
    assert not User.objects.get(pk=cast.member.pk).is_finance
    answer = client.get("/api/v1/devices/")
    assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_missing")
    partial = client.get("/", headers={"HX-Request": "true"})
    assert partial["HX-Redirect"] == "/accounts/mfa/"
    # The ways out.
    assert client.get("/profile/").status_code == 200
    assert client.post("/language/", {"language": "en", "next": "/"}).status_code == 302
    assert client.post("/accounts/logout/").status_code == 302


def test_with_one_everything_is_open(client: Client, cast: Cast, required: None) -> None:
    with_app(client, "anouk")

    assert client.get("/people/").status_code == 200
    assert "need a second factor" not in client.get("/accounts/mfa/").content.decode()


@pytest.mark.parametrize("role", ["member", "finance", "auditor"])
def test_others_are_not_asked(client: Client, cast: Cast, required: None, role: str) -> None:
    client.force_login(getattr(cast, role))

    assert client.get("/").status_code == 200


def test_where_it_is_not_required_nobody_is_asked(client: Client, cast: Cast) -> None:
    client.force_login(person("second", is_administrator=True))

    assert client.get("/people/").status_code == 200
