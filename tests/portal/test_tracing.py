"""A click is one trace from the answer over the task to the cluster; and no trace tells a secret."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from celery import shared_task
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from portal import tracing, work_ids
from portal.accounts.models import User
from portal.pages.doctor import examine
from portal.tracing import tasks
from portal.tracing.answers import TracingMiddleware
from tests.cast import NOW, PASSWORD, Cast

COLLECTOR = "http://collector.example.org:4318"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def kept() -> Iterator[InMemorySpanExporter]:
    """Traces are on; what they tell."""
    exporter = InMemorySpanExporter()
    assert tracing.begin(exporter=exporter)
    yield exporter
    tracing.end()


def span(kept: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [one for one in kept.get_finished_spans() if one.name == name]
    return found


def told(kept: InMemorySpanExporter) -> str:
    """Everything that would leave the desk."""
    return "".join(one.to_json() for one in kept.get_finished_spans())


@pytest.mark.django_db
def test_an_answer_is_a_span_with_its_view_status_and_questions(
    kept: InMemorySpanExporter, cast: Cast
) -> None:
    client = Client()
    client.force_login(cast.member)
    kept.clear()

    answer = client.get(f"/projects/{cast.project.slug}/", headers={"X-Request-ID": "request-4711"})

    assert answer.status_code == 200
    whole = span(kept, "GET project-detail")
    assert whole.kind == SpanKind.SERVER
    assert dict(whole.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/projects/<slug:slug>/",
        "http.response.status_code": 200,
        "claimdesk.request_id": "request-4711",
    }
    questions = [one for one in kept.get_finished_spans() if one.kind == SpanKind.CLIENT]
    assert "SELECT accounts_project" in {one.name for one in questions}
    assert whole.context is not None
    assert {one.parent.span_id for one in questions if one.parent} == {whole.context.span_id}
    assert all((one.attributes or {})["claimdesk.request_id"] == "request-4711" for one in questions)


@pytest.mark.django_db
def test_no_span_tells_what_was_typed_or_opens_anything(kept: InMemorySpanExporter, cast: Cast) -> None:
    client = Client()

    client.post("/accounts/login/", {"login": cast.member.username, "password": PASSWORD})
    client.get("/search/?q=very+private")
    client.get("/invitations/a-secret-of-forty-characters-and-more-1234/")
    client.get("/api/v1/requests/", headers={"Authorization": "Bearer cdesk_abcdefghijklmnop"})

    text = told(kept)
    assert "POST account_login" in text
    for secret in (
        PASSWORD,
        cast.member.username,
        "very",
        "private",
        "a-secret",
        "cdesk_",
        client.session.session_key,
    ):
        assert secret is not None
        assert secret not in text, secret


def test_an_error_is_named_by_its_kind_and_not_by_its_words(kept: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="token"), tracing_of("whole"), tracing.step("inside"):
        raise ValueError("token=cdesk_very_secret")

    inside = span(kept, "inside")
    assert inside.status.status_code == StatusCode.ERROR
    assert (inside.attributes or {})["error.type"] == "ValueError"
    assert "secret" not in told(kept)


@pytest.mark.parametrize(("proxies", "joined"), [(0, False), (1, True)])
def test_only_a_proxy_whose_word_counts_gives_the_trace(
    kept: InMemorySpanExporter, settings: Any, proxies: int, joined: bool
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = proxies
    answering = TracingMiddleware(lambda _request: HttpResponse(status=503))

    answering(RequestFactory().get("/", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}))

    (one,) = kept.get_finished_spans()
    assert one.context is not None
    assert (f"{one.context.trace_id:032x}" == TRACE) is joined
    assert one.status.status_code == StatusCode.ERROR


@pytest.mark.parametrize(
    "header", ["", "00-x", "\x00", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "f" * 9999]
)
def test_a_header_that_is_none_begins_a_trace_of_its_own(
    kept: InMemorySpanExporter, settings: Any, header: str
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    request = HttpRequest()
    request.method, request.META["HTTP_TRACEPARENT"] = "BREW", header

    TracingMiddleware(lambda _request: HttpResponse())(request)

    assert span(kept, "other").parent is None


@shared_task(name="tests.tracing.work")
def work(*, fails: bool = False) -> None:
    if fails:
        raise RuntimeError("password=hunter22")


def test_a_task_is_part_of_the_trace_that_asked_for_it(kept: InMemorySpanExporter) -> None:
    headers: dict[str, Any] = {}
    with work_ids.during(request_id="request-4711"), tracing_of("whole"):
        tasks._pass_on(headers=headers)
        work_ids._pass_on(headers=headers)

    work.apply(headers=headers)
    work.apply(kwargs={"fails": True}, headers=headers)

    whole = span(kept, "whole")
    done, failed = [one for one in kept.get_finished_spans() if one.name == "tests.tracing.work"]
    assert whole.context is not None
    for one in (done, failed):
        assert one.parent is not None
        assert one.parent.span_id == whole.context.span_id
        assert (one.attributes or {})["claimdesk.request_id"] == "request-4711"
        assert (one.attributes or {})["claimdesk.task"] == "tests.tracing.work"
    assert failed.status.status_code == StatusCode.ERROR
    assert "hunter22" not in told(kept)
    # Nothing of it is left for the next task of the thread.
    assert not tracing.has_parent()
    assert tasks._running == {}


def test_following_a_cluster_for_hours_is_no_span(kept: InMemorySpanExporter) -> None:
    from inventory.tasks import follow_cluster

    tasks._task_begins(task_id="1", task=follow_cluster)
    tasks._task_ended(task_id="1")

    assert not kept.get_finished_spans()


def test_a_call_to_a_cluster_tells_host_method_and_status(
    kept: InMemorySpanExporter, httpserver: "tuple[str, int]"
) -> None:
    host, port = httpserver
    with urllib3.PoolManager() as pool, tracing_of("whole"):
        pool.request("GET", f"http://{host}:{port}/api/secret-namespace?token=abcdefgh", retries=False)

    call = span(kept, "GET")
    assert dict(call.attributes or {}) == {
        "http.request.method": "GET", "server.address": host, "server.port": port,
        "http.response.status_code": 404, "error.type": "404",
    }  # fmt: skip
    assert "secret-namespace" not in told(kept)


@pytest.mark.django_db
def test_outside_of_a_trace_nothing_is_told(kept: InMemorySpanExporter) -> None:
    User.objects.count()
    assert not kept.get_finished_spans()


@pytest.mark.django_db
def test_without_a_collector_nothing_is_done(monkeypatch: pytest.MonkeyPatch, cast: Cast) -> None:
    for name in tracing.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert not tracing.begin()
    assert not tracing.is_on()
    assert Client().get("/accounts/login/").status_code == 200
    assert [wrapper.__module__ for wrapper in connection.execute_wrappers] == []
    assert "traces" not in {result.check for result in examine(now=NOW)}


@pytest.mark.django_db
def test_without_the_packages_the_desk_runs_and_the_doctor_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(tracing.ENDPOINTS[0], COLLECTOR)
    monkeypatch.setattr(tracing, "find_spec", lambda _name: None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.setitem(sys.modules, name, None)

    assert not tracing.begin()
    assert "not installed" in caplog.text
    assert Client().get("/accounts/login/").status_code == 200
    (result,) = [result for result in examine(now=NOW) if result.check == "traces"]
    assert "requirements/tracing.txt" in json.dumps(result.cure)


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), (tracing.ENDPOINTS[0], " ")],
)
def test_what_turns_opentelemetry_off_elsewhere_does_here(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(tracing.ENDPOINTS[0], COLLECTOR)
    assert tracing.is_wanted()
    monkeypatch.setenv(name, value)
    assert not tracing.is_wanted()


def tracing_of(name: str) -> Any:
    """A span that others belong to."""
    from opentelemetry.trace import use_span

    whole = tracing.start(name, kind=SpanKind.SERVER, attributes={})
    assert whole is not None
    return use_span(whole, end_on_exit=True, record_exception=False, set_status_on_exception=False)


@pytest.fixture
def httpserver() -> Iterator["tuple[str, int]"]:
    """Answers 404 to everything."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
            pass

    with HTTPServer(("127.0.0.1", 0), Nothing) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield "127.0.0.1", server.server_port
        server.shutdown()
        thread.join(30)
