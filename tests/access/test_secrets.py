"""When something breaks, neither the page, nor the log, nor a report about it tells a secret."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.core.signals import got_request_exception
from django.test import Client
from django.utils import timezone
from django.views.debug import ExceptionReporter

from inventory import clusters, node_tokens
from portal.accounts import tokens
from portal.logs import RedactingFormatter
from tests.access.bodies import KUBECONFIG
from tests.cast import PASSWORD, Cast, cast, cheap_passwords
from tests.inventory_pages.factories import make_cluster, make_node

__all__ = ["cast", "cheap_passwords"]

pytestmark = pytest.mark.django_db
KUBE_TOKEN = KUBECONFIG.split("token: ")[1].split("}")[0]


def broken(*_args: object, **_kwargs: object) -> None:
    raise RuntimeError("something is broken")


Break = Callable[[pytest.MonkeyPatch], None]


CASES: dict[str, tuple[str, dict[str, Any], Break, list[str]]] = {
    "a password": (
        "/accounts/login/",
        {"login": "mina", "password": PASSWORD},
        lambda patch: patch.setattr("django.contrib.auth.backends.ModelBackend.authenticate", broken),
        [PASSWORD],
    ),
    "a kubeconfig": (
        "/add-cluster/",
        {"name": "oslo", "credentials": "stored", "kubeconfig_text": KUBECONFIG},
        lambda patch: patch.setattr(clusters, "add", broken),
        [KUBE_TOKEN],
    ),
    "a kubeconfig deeper down": (
        "/add-cluster/",
        {"name": "oslo", "credentials": "stored", "kubeconfig_text": KUBECONFIG},
        lambda patch: patch.setattr(clusters, "introduce", broken),
        [KUBE_TOKEN],
    ),
    "a token": (
        "/tokens/",
        {"name": "export", "scopes": ["inventory"], "lifetime": "30"},
        lambda patch: patch.setattr(tokens, "record", broken),
        ["cdesk_"],
    ),
    "a node's token": (
        "/cdi/token/",
        {"cluster": "berlin", "node": "gpu-01", "lifetime": "30"},
        lambda patch: patch.setattr(node_tokens, "record", broken),
        ["cdnode_"],
    ),
    "a token of a node that tells of its Pods": (
        "/clusters/berlin/pod-devices/token/",
        {"node": "gpu-01", "lifetime": "30"},
        lambda patch: patch.setattr(node_tokens, "record", broken),
        ["pdnode_"],
    ),
    "a new password": (
        "/accounts/password/change/",
        {"oldpassword": PASSWORD, "password1": "hush hush hush", "password2": "hush hush hush"},
        lambda patch: patch.setattr("portal.accounts.models.User.set_password", broken),
        [PASSWORD, "hush hush hush"],
    ),
}


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Attempts are counted in the cache, which outlives a test."""
    cache.clear()


@pytest.fixture
def reports() -> Iterator[list[str]]:
    """What a service that collects errors, or a mail about one, would be told."""
    told: list[str] = []

    def report(sender: object, request: Any = None, **_: object) -> None:
        reporter = ExceptionReporter(request, *sys.exc_info())
        told.append(reporter.get_traceback_text())
        told.append(reporter.get_traceback_html())

    got_request_exception.connect(report, weak=False)
    yield told
    got_request_exception.disconnect(report)


@pytest.mark.parametrize("case", CASES)
def test_what_breaks_tells_no_secret(
    case: str,
    cast: Cast,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    reports: list[str],
) -> None:
    path, body, breaks, secrets = CASES[case]
    make_node(make_cluster(), "gpu-01")
    client = Client(raise_request_exception=False)
    if path != "/accounts/login/":
        client.force_login(cast.administrator)
    breaks(monkeypatch)

    with caplog.at_level(logging.DEBUG):
        answer = client.post(path, body)

    assert answer.status_code == 500
    assert reports
    written = "".join(RedactingFormatter().format(record) for record in caplog.records)
    assert "something is broken" in written
    for place in (answer.content.decode(), written, *reports):
        for secret in secrets:
            assert secret not in place, f"{case}: {place[max(0, place.find(secret) - 200) :][:300]}"


def test_a_program_is_told_no_more(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.api.coverage_of_all", broken)
    client = Client(raise_request_exception=False)
    _token, plain = tokens.issue_token(
        user=cast.member, name="n", scopes=["inventory"], lifetime=tokens.MAX_LIFETIME, now=timezone.now()
    )

    answer = client.get("/api/v1/clusters/", headers={"Authorization": f"Bearer {plain}"})

    assert answer.status_code == 500
    assert plain not in answer.content.decode()
    assert "broken" not in answer.content.decode()
    assert answer.json()["status"] == 500


def test_no_page_nor_program_is_told_how_the_desk_signs_in_to_a_cluster(client: Client, cast: Cast) -> None:
    """Whoever may see a cluster sees neither its kubeconfig nor what is sealed of it."""
    cluster = make_cluster(kubeconfig_encrypted=b"sealed-kubeconfig", kubeconfig_path="/etc/desk/secret-path")
    client.force_login(cast.member)

    told = [client.get("/clusters/"), client.get("/clusters/berlin/"), client.get("/api/v1/clusters/")]

    for answer in told:
        assert b"sealed-kubeconfig" not in answer.content
        assert b"secret-path" not in answer.content
    assert json.loads(told[2].content)["results"][0]["name"] == cluster.name
