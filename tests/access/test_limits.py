"""What is too much is refused with the limit, and nothing of it is kept."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from portal.accounts.models import ApiToken
from portal.limits import MAX_ADDRESS, MAX_BODY_BYTES
from tests.cast import Cast, cast, cheap_passwords

__all__ = ["cast", "cheap_passwords"]

pytestmark = pytest.mark.django_db
MIB = 1024 * 1024


@pytest.fixture
def browser(client: Client, cast: Cast) -> Client:
    client.force_login(cast.administrator)
    return client


def test_a_form_that_is_too_large_says_how_large_it_may_be(browser: Client) -> None:
    answer = browser.post("/tokens/", {"name": "x" * 3 * MIB, "scopes": "inventory", "lifetime": "7"})

    assert answer.status_code == 413
    page = answer.content.decode()
    assert "at most 2.5\xa0MB" in page
    assert "Nothing was changed" in page
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert not ApiToken.objects.exists()


def test_an_upload_that_is_too_large_is_refused_before_it_is_read(browser: Client) -> None:
    """By its announced length: it is never written to the disk."""
    upload = SimpleUploadedFile("kubeconfig", b"x" * (MAX_BODY_BYTES + 1))

    answer = browser.post("/add-cluster/", {"name": "oslo", "kubeconfig_file": upload})

    assert answer.status_code == 413
    assert "at most 8.0\xa0MB" in answer.content.decode()


def test_it_is_said_in_the_readers_language(browser: Client, cast: Cast) -> None:
    cast.administrator.language = "zh-hans"
    cast.administrator.save()

    answer = browser.post("/tokens/", {"name": "x" * (MAX_BODY_BYTES + 1)})

    assert "一次最多" in answer.content.decode()


@pytest.mark.parametrize("length", ["-1", "many", "1e9"])
def test_a_length_that_is_none_is_refused(browser: Client, length: str) -> None:
    assert browser.post("/tokens/", {}, CONTENT_LENGTH=length).status_code == 413


def test_too_many_fields_are_refused_by_number(browser: Client) -> None:
    answer = browser.post("/tokens/", {f"f{n}": "" for n in range(1001)})

    assert answer.status_code == 400
    assert "At most 1000 fields" in answer.content.decode()


@pytest.mark.parametrize("path", ["/devices/", "/api/v1/devices/", "/history/", "/audit/"])
def test_an_address_that_is_too_long_is_refused(browser: Client, path: str) -> None:
    answer = browser.get(path, {"q": "x" * MAX_ADDRESS})

    assert answer.status_code == 414
    assert str(MAX_ADDRESS) in answer.content.decode()


@pytest.mark.parametrize("path", ["/devices/", "/api/v1/devices/"])
def test_too_many_parameters_are_refused(browser: Client, path: str) -> None:
    assert browser.get(f"{path}?{'&'.join('a=' for _ in range(1001))}").status_code == 400


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"[" * 100_000, 400, "parse_error"),
        (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, 400, "parse_error"),
        (b'{"count": ' + b"9" * 5_000 + b"}", 400, "parse_error"),
        (b'{"purpose": "' + b"x" * 300_000 + b'"}', 413, "too_large"),
        (b'{"purpose": "' + b"x" * MAX_BODY_BYTES + b'"}', 413, "too_large"),
    ],
    ids=["deep list", "deep object", "long number", "large", "too large to look at"],
)
def test_programs_are_told_in_problem_documents(browser: Client, body: bytes, status: int, code: str) -> None:
    answer = browser.post("/api/v1/requests/", body, content_type="application/json")

    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["code"] == code


@pytest.mark.parametrize("method", ["put", "patch", "delete", "trace"])
def test_pages_know_what_browsers_send(browser: Client, method: str) -> None:
    assert getattr(browser, method)("/tokens/").status_code == 405


def test_a_nul_in_an_address_is_nothing_that_is_there(browser: Client) -> None:
    assert browser.get("/tokens/%00/revoke/").status_code == 404
    assert browser.get("/api/v1/catalogue/%00/").json()["status"] == 404


def test_a_nul_in_a_parameter_is_not_looked_for(browser: Client) -> None:
    answer = browser.get("/devices/?q=gpu%00")
    assert answer.status_code == 200
    assert answer.wsgi_request.GET["q"] == "gpu"
