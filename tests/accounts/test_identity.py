"""What the environment says of the identity provider and of mail, and what it may not say."""

import pytest
from environs import Env

from portal.env import email
from portal.identity import BadIdentitySettings, IdentityProvider, identity_provider, read_grants

FULL = {
    "ISSUER": "https://id.example.org/realms/harbour",
    "CLIENT_ID": "claimdesk",
    "CLIENT_SECRET": "s",
    "NAME": "Harbour ID",
    "SCOPES": "email,groups",
    "GROUPS_CLAIM": "realm_access.roles",
    "GRANTS": '{"gpu": ["administrator", "sea-ice:lead"], "money": "finance"}',
    "REQUIRED_GROUPS": "desk,gpu",
    "NEW_PEOPLE": "0",
    "LINK_BY_EMAIL": "1",
    "SESSION_HOURS": "0.5",
}


def provider(monkeypatch: pytest.MonkeyPatch, **values: str) -> IdentityProvider | None:
    for name, value in values.items():
        monkeypatch.setenv(f"CLAIMDESK_OIDC_{name}", value)
    return identity_provider(Env(expand_vars=False))


def test_without_an_issuer_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provider(monkeypatch, CLIENT_ID="claimdesk") is None


def test_everything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = provider(monkeypatch, **FULL)

    assert found is not None
    assert found.scopes == ("openid", "email", "groups")
    assert found.grants == {"gpu": ("administrator", "sea-ice:lead"), "money": ("finance",)}
    assert (found.new_people, found.link_by_email, found.session.total_seconds()) == (False, True, 1800)
    assert found.admits(["gpu"])
    assert not found.admits(["money"])
    assert found.groups_in({"realm_access": {"roles": ["gpu", 7]}}) == ["gpu"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ISSUER": "id.example.org"}, "CLAIMDESK_OIDC_ISSUER"),
        ({"ISSUER": "http://id.example.org"}, "https"),
        ({"CLIENT_ID": ""}, "CLAIMDESK_OIDC_CLIENT_ID"),
        ({"GRANTS": "gpu=administrator"}, "not JSON"),
        ({"GRANTS": "[]"}, "object"),
        ({"GRANTS": '{"gpu": "emperor"}'}, "'gpu' gives 'emperor'"),
        ({"GRANTS": '{"gpu": ["sea-ice:boss"]}'}, "sea-ice:boss"),
        ({"GRANTS": '{"gpu": [7]}'}, "'gpu' gives 7"),
        ({"SESSION_HOURS": "0"}, "CLAIMDESK_OIDC_SESSION_HOURS"),
    ],
)
def test_what_cannot_work_is_named(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], message: str
) -> None:
    with pytest.raises(BadIdentitySettings, match=message):
        provider(monkeypatch, **(FULL | wrong))


def test_on_this_machine_an_issuer_may_do_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert provider(monkeypatch, ISSUER="http://127.0.0.1:5556", CLIENT_ID="c") is not None


def test_no_grants_are_none() -> None:
    assert read_grants(" ") == {}


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("submission://u:p@mail.example.org", {"EMAIL_PORT": 587, "EMAIL_USE_TLS": True}),
        ("smtp://mail.example.org:465?ssl=True", {"EMAIL_PORT": 465, "EMAIL_USE_SSL": True}),
        ("", {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}),
    ],
)
def test_mail_servers_are_read(monkeypatch: pytest.MonkeyPatch, url: str, wanted: dict[str, object]) -> None:
    if url:
        monkeypatch.setenv("CLAIMDESK_EMAIL_URL", url)

    assert wanted.items() <= email().items()


def test_a_mail_server_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIMDESK_EMAIL_URL", "smtp+tls://mail.example.org")

    with pytest.raises(ValueError, match="submission://"):
        email()
