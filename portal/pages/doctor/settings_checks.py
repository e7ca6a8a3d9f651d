"""Settings: what an installation that others use must not leave as the demo has it."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from cryptography.fernet import Fernet
from django.conf import settings

from portal import tracing
from portal.pages.doctor.results import Result, bad, good, warning

LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
SHORTEST_KEY = 50


def settings_checks() -> Iterator[Result]:
    """Only the environment is looked at: nothing here needs a database."""
    yield _debug()
    yield _secret_key()
    yield _credential_keys()
    yield from _addresses()
    yield _mail()
    yield from _traces()


def _debug() -> Result:
    if settings.DEBUG:
        return bad(
            "debug", "CLAIMDESK_DEBUG is on: errors show settings to everybody.", "Unset CLAIMDESK_DEBUG."
        )
    return good("debug", "Errors tell strangers nothing.")


def _secret_key() -> Result:
    if len(settings.SECRET_KEY) < SHORTEST_KEY or len(set(settings.SECRET_KEY)) < 10:
        return bad(
            "secret key",
            "CLAIMDESK_SECRET_KEY can be guessed: whoever does signs in as anybody.",
            'Set it to what python3 -c "import secrets; print(secrets.token_urlsafe(50))" prints. '
            "Everybody has to sign in again.",
        )
    if not os.environ.get("CLAIMDESK_SECRET_KEY"):
        return warning(
            "secret key",
            f"It is kept in {settings.DATA_DIR}: another web server would have another one.",
            "Set CLAIMDESK_SECRET_KEY for all processes where there is more than one machine or container.",
        )
    return good("secret key", "It comes from the environment and is long enough.")


def _credential_keys() -> Result:
    cure = "Set CLAIMDESK_CREDENTIAL_KEYS to Fernet keys, newest first, separated by commas."
    try:
        for key in settings.CREDENTIAL_KEYS:
            Fernet(key)
    except ValueError:
        return bad(
            "credential keys", "CLAIMDESK_CREDENTIAL_KEYS holds something that is no Fernet key.", cure
        )
    if not os.environ.get("CLAIMDESK_CREDENTIAL_KEYS"):
        return warning(
            "credential keys",
            f"They are kept in {settings.DATA_DIR}, which a backup of the database does not hold.",
            f"{cure} Begin with the one in that directory, so that stored kubeconfigs can still be read.",
        )
    return good("credential keys", f"{len(settings.CREDENTIAL_KEYS)} from the environment.")


def _addresses() -> Iterator[Result]:
    hosts = set(settings.ALLOWED_HOSTS)
    if hosts <= LOOPBACK:
        yield warning(
            "addresses",
            "The desk answers on this machine only.",
            "Set CLAIMDESK_ALLOWED_HOSTS to the host names by which people reach it.",
        )
        return
    if "*" in hosts:
        yield bad(
            "addresses",
            "CLAIMDESK_ALLOWED_HOSTS has “*”: links in mails can be made to lead anywhere.",
            "Name the host names by which people reach the desk.",
        )
    if not settings.BEHIND_TLS:
        yield bad(
            "TLS",
            "Passwords and sessions travel in the clear: CLAIMDESK_BEHIND_TLS is off.",
            "Put a proxy that ends TLS in front, and set CLAIMDESK_BEHIND_TLS=true.",
        )
    else:
        yield good("TLS", "Only over TLS.")
    origins = {urlsplit(origin).hostname or "" for origin in settings.CSRF_TRUSTED_ORIGINS}
    unreachable = sorted(host for host in hosts - LOOPBACK if host.lstrip(".") not in origins)
    if settings.BEHIND_TLS and unreachable and "*" not in hosts:
        yield bad(
            "origins",
            f"Forms sent from {', '.join(unreachable)} are refused.",
            "Add https://HOST of each to CLAIMDESK_TRUSTED_ORIGINS.",
        )
    if settings.BEHIND_TLS and not settings.ALLAUTH_TRUSTED_PROXY_COUNT:
        yield warning(
            "proxies",
            "All attempts to sign in seem to come from the proxy: one attacker locks everybody out.",
            "Set CLAIMDESK_TRUSTED_PROXIES to the number of proxies that write X-Forwarded-For.",
        )


def _mail() -> Result:
    if not settings.MAIL_OFFERED:
        return warning(
            "mail",
            "There is none: nobody is reminded, invited or gets a forgotten password back by mail.",
            "Set CLAIMDESK_EMAIL_URL, such as submission://user:password@mail.example.org.",
        )
    return good("mail", f"By {settings.EMAIL_HOST}.")


def _traces() -> Iterator[Result]:
    if tracing.is_wanted() and not tracing.is_installed():
        yield warning(
            "traces",
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed: nothing is sent.",
            "Run: .venv/bin/python -m pip install --require-hashes -r requirements/tracing.txt",
        )
    elif tracing.is_wanted():
        yield good("traces", "They are sent where the environment says.")
