"""Errors are in the log, secrets are not."""

import io
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from portal.logs import HIDDEN, redacted
from tests.cast import Cast

# Its values have no types of their own.
LOGGING: dict[str, Any] = settings.LOGGING

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("refused cdesk_0123456789abcdef0123 of nobody", "0123456789abcdef"),
        ("{'Authorization': 'Bearer abc.DEF-123_45'}", "abc.DEF"),
        (f"the token {JWT} has expired", "c2lnbmF0dXJl"),
        (f"bad key {KEY} in kubeconfig", "MIIEow"),
        ("users: [{user: {token: kube-secret-token}}]", "kube-secret-token"),
        ("client-key-data: TFMwdExTMUNSVWRK", "TFMwdExTMUNSVWRK"),
        ('{"client_secret": "s3cr3t-of-oidc"}', "s3cr3t-of-oidc"),
        ("POST /x?code=1&id_token=abcdefgh&x=y", "abcdefgh"),
        ("password1=open+sesame", "open+sesame"),
        ("cannot reach redis://desk:hunter22@broker:6379/0", "hunter22"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(line: str, secret: str) -> None:
    told = redacted(line)

    assert secret not in told
    assert HIDDEN in told


@pytest.mark.parametrize(
    "line",
    [
        "Internal Server Error: /tokens/",
        "This token is not known.",
        "GET /api/v1/devices/?q=h100 took 3 s",
        "pool gpu-01: generation 7, 3 of 4 slices",
        "https://berlin.example.org:6443 did not answer",
    ],
)
def test_other_words_stay(line: str) -> None:
    assert redacted(line) == line


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the desk's own handler writes, as the settings set it up."""
    stream = io.StringIO()
    made = logging.config.DictConfigurator(LOGGING)
    formatter = made.configure_formatter(LOGGING["formatters"]["line"])
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


@pytest.mark.django_db
def test_an_error_is_logged_with_its_traceback(
    cast: Cast, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal.pages import home

    def broken(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("token=cdesk_very_secret_indeed")

    monkeypatch.setattr(home, "_fleets", broken)
    client = Client(raise_request_exception=False)
    client.force_login(cast.member)

    client.get("/")

    told = written.getvalue()
    assert "Internal Server Error: /" in told
    assert "Traceback" in told
    assert "very_secret" not in told


def test_errors_have_somewhere_to_go_without_debug() -> None:
    """Django by itself writes them only with DEBUG on, or mails them."""
    assert "stderr" in LOGGING["root"]["handlers"]
    assert not LOGGING["loggers"]["django"]["handlers"]
    assert LOGGING["loggers"]["django"]["propagate"]
