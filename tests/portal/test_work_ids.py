"""One search in the logs finds everything that one click did."""

import json
import logging
import logging.config
from typing import Any
from uuid import UUID

import pytest
from celery import shared_task
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from portal import work_ids
from portal.celery import app
from portal.logs import JsonFormatter, RedactingFormatter
from tests.cast import Cast

LINE = "%(levelname)s %(name)s%(ids)s: %(message)s"


def record(message: str = "it happened", **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("claims", logging.WARNING, "file.py", 1, message, (), None)
    made.__dict__.update(more)
    return made


@pytest.mark.django_db
def test_an_answer_carries_the_id_that_the_proxy_gave() -> None:
    answer = Client().get("/accounts/login/", headers={"X-Request-ID": "01J8ZQ-abc.7"})
    assert answer["X-Request-ID"] == "01J8ZQ-abc.7"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "given", ["", "short", "a" * 65, "with space in it", "line\u2028break-0", "<script>alert"]
)
def test_an_id_that_is_none_is_replaced(given: str) -> None:
    headers = {"X-Request-ID": given.encode("utf-8").decode("latin-1")}
    answer = Client().get("/accounts/login/", headers=headers)
    assert UUID(answer["X-Request-ID"]).version == 4


def test_lines_carry_the_ids_of_what_they_belong_to() -> None:
    with work_ids.during(request_id="0123456789", task="claims.tasks.sweep"):
        line = RedactingFormatter(LINE).format(record())
        told = json.loads(JsonFormatter().format(record()))
    assert line == "WARNING claims [request_id=0123456789 task=claims.tasks.sweep]: it happened"
    assert (told["request_id"], told["task"], told["message"]) == (
        "0123456789",
        "claims.tasks.sweep",
        "it happened",
    )
    assert RedactingFormatter(LINE).format(record()) == "WARNING claims: it happened"


def test_a_json_line_is_one_line_and_has_no_secret() -> None:
    error = ValueError("first\nBearer abcdefghijklmnop")
    line = record("two\nlines", exc_info=(ValueError, error, None), told={"path": "/?token=abcdefgh"})
    text = JsonFormatter().format(line)
    assert "\n" not in text
    told = json.loads(text)
    assert told["message"] == "two\nlines"
    assert "ValueError" in told["error"]
    assert "abcdefgh" not in text


@pytest.mark.django_db
def test_every_answer_is_one_line(cast: Cast, caplog: pytest.LogCaptureFixture) -> None:
    person = cast.teammate
    client = Client()
    client.force_login(person)
    with caplog.at_level(logging.INFO, logger="portal.answered"):
        client.get("/tokens/?q=what+they+typed", headers={"X-Request-ID": "request-0001"})
        client.get("/a%0Ab/")
    first, second = (entry for entry in caplog.records if entry.name == "portal.answered")
    told: dict[str, Any] = first.__dict__["told"]
    assert (told["method"], told["path"], told["view"], told["status"]) == (
        "GET",
        "/tokens/",
        "token-list",
        200,
    )
    assert told["person"] == person.pk
    assert "typed" not in first.getMessage()
    assert second.__dict__["told"]["status"] == 404
    assert "\n" not in second.getMessage()


def test_a_task_remembers_the_request_that_asked_for_it() -> None:
    seen: list[dict[str, str]] = []

    @shared_task(name="tests.remember", bind=True)
    def remember(_self: Any) -> None:
        seen.append(work_ids.current())

    headers: dict[str, Any] = {}
    with work_ids.during(request_id="request-0002"):
        work_ids._pass_on(headers=headers)
    assert headers == {"claimdesk_request_id": "request-0002"}
    task = app.tasks["tests.remember"]
    task.apply(headers=headers, task_id="task-1")
    (ids,) = seen
    assert ids == {"task": "tests.remember", "task_id": "task-1", "request_id": "request-0002"}
    assert work_ids.current() == {}


def test_nothing_is_passed_on_where_nobody_asked() -> None:
    headers: dict[str, Any] = {}
    work_ids._pass_on(headers=headers)
    assert headers == {}


def test_the_page_of_an_error_names_it(rf: RequestFactory) -> None:
    from portal.api import handle_server_error

    with work_ids.during(request_id="request-0003"):
        answer = handle_server_error(rf.get("/devices/"))
    assert isinstance(answer, HttpResponse)
    assert answer.status_code == 500
    assert "request-0003" in answer.content.decode()


def test_the_middleware_stands_before_all_that_logs() -> None:
    first, second, *_others = settings.MIDDLEWARE
    # Probes come every few seconds and are not logged.
    assert (first, second) == ("portal.health.HealthMiddleware", "portal.work_ids.RequestIdMiddleware")


def test_ids_end_with_the_request(rf: RequestFactory) -> None:
    def broken(_request: HttpRequest) -> HttpResponse:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        work_ids.RequestIdMiddleware(broken)(rf.get("/"))
    assert work_ids.current() == {}
