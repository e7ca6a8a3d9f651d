"""Whatever the other side does, the desk has an answer within its bounds, or a cause and a way out."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from inventory.telemetry import answers, problems
from inventory.telemetry.asking import Address, Prometheus
from inventory.telemetry.problems import Problem, UnableToAsk
from tests.inventory_telemetry.servers import Asked, Fake, matrix, vector

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
Answer = Callable[[Asked, BaseHTTPRequestHandler], tuple[int, Any] | None]


@pytest.fixture
def ask(server: Fake) -> Callable[..., answers.Instant]:
    def asked(expression: str = "up", **bounds: Any) -> answers.Instant:
        with Prometheus(Address(server.url, token="s3cret"), **bounds) as prometheus:
            return answers.instant(prometheus.query(expression, at=NOW))

    return asked


def problem_of(call: Callable[[], object]) -> Problem:
    with pytest.raises(UnableToAsk) as caught:
        call()
    return caught.value.problem


def test_a_question_goes_to_the_api_with_token_and_time(ask: Callable[..., Any], server: Fake) -> None:
    server.answer = lambda _a, _h: (200, vector(({"job": "kubelet"}, 1)))
    assert ask("up").samples == [answers.Sample({"job": "kubelet"}, 1.0)]
    (asked,) = server.asked
    assert asked.path == "/api/v1/query"
    assert asked.fields["query"] == "up"
    assert float(asked.fields["time"]) == NOW.timestamp()
    assert asked.headers["Authorization"] == "Bearer s3cret"


def test_a_path_before_the_api_stays(server: Fake) -> None:
    with Prometheus(Address(f"{server.url}/prometheus")) as prometheus:
        prometheus.query("up", at=NOW)
    assert server.asked[0].path == "/prometheus/api/v1/query"
    assert "Authorization" not in server.asked[0].headers


def test_samples_that_are_no_numbers_are_none(ask: Callable[..., Any], server: Fake) -> None:
    samples = [({"n": str(n)}, value) for n, value in enumerate(("NaN", "+Inf", "-Inf", "1e400", "x", "2"))]
    server.answer = lambda _a, _h: (200, vector(*samples))
    answer = ask()
    assert [sample.value for sample in answer.samples] == [2.0]
    assert answer.nan == 5


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (200, b"<html>Welcome</html>", "unreadable"),
        (200, b"", "unreadable"),
        (200, b"\xff\xfe", "unreadable"),
        (200, b"[" * 100_000, "unreadable"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":5}}', "unreadable"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":[]}]}}', "unreadable"),
        (
            200,
            b'{"status":"success","data":{"resultType":"vector","result":[{"value":[1,2]}]}}',
            "unreadable",
        ),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}', "unreadable"),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "unreadable"),
        (200, b'{"status":"success"}', "unreadable"),
        (200, b'{"status":"error","errorType":"bad_data","error":"no"}', "rejected"),
        (400, b'{"status":"error","errorType":"bad_data","error":"parse error"}', "rejected"),
        (422, b'{"status":"error","errorType":"execution","error":"too many samples"}', "too-heavy"),
        (503, b'{"status":"error","errorType":"timeout","error":"query timed out"}', "too-heavy"),
        (503, b"upstream is away", "failing"),
        (500, b"", "failing"),
        (401, b"", "denied"),
        (403, b"", "denied"),
        (404, b"", "not-there"),
        (405, b"", "not-there"),
        (429, b"", "failing"),
    ],
)
def test_every_wrong_answer_has_a_name_and_a_cure(
    ask: Callable[..., Any], server: Fake, status: int, body: bytes, code: str
) -> None:
    server.answer = lambda _a, _h: (status, body)
    problem = problem_of(ask)
    assert problem.code == code
    assert str(problem.said)
    assert str(problem.cure)
    # It survives being kept.
    assert Problem.read(problem.as_json()) == problem


def test_what_it_says_of_a_wrong_query_is_shown(ask: Callable[..., Any], server: Fake) -> None:
    told = {"status": "error", "errorType": "bad_data", "error": "parse error: unexpected\n<b>%s"}
    server.answer = lambda _a, _h: (400, told)
    assert str(problem_of(ask).said) == "It rejects the query: bad_data: parse error: unexpected <b>%s"


def test_no_redirect_is_followed(ask: Callable[..., Any], server: Fake) -> None:
    def elsewhere(_asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"{server.url}/private")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.answer = elsewhere
    assert problem_of(ask).code == "redirect"
    assert len(server.asked) == 1


def test_a_huge_answer_is_cut_off(ask: Callable[..., Any], server: Fake) -> None:
    server.answer = lambda _a, _h: (200, b" " * (2 * 1024 * 1024))
    assert problem_of(lambda: ask(megabytes=1)).code == "too-large"


def test_an_endless_answer_is_cut_off(ask: Callable[..., Any], server: Fake) -> None:
    def forever(_asked: Asked, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 65_536)
        except OSError:
            pass

    server.answer = forever
    assert problem_of(lambda: ask(megabytes=1)).code == "too-large"


@pytest.fixture
def dripping() -> Iterator[tuple[str, list[bytes]]]:
    """An address where bytes come one at a time, and what comes."""
    listener = socket.create_server(("127.0.0.1", 0))
    told = [b"HTTP/1.1 200 OK\r\nX: "]
    stop = threading.Event()

    def serve() -> None:
        connection, _address = listener.accept()
        with connection:
            try:
                connection.sendall(told[0])
                while not stop.wait(0.05):
                    connection.sendall(b" ")
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", told
    stop.set()
    thread.join(30)
    listener.close()


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n", b""])
def test_who_sends_a_byte_at_a_time_is_not_waited_for(dripping: tuple[str, list[bytes]], head: bytes) -> None:
    url, told = dripping
    told[0] = head

    def call() -> None:
        with Prometheus(Address(url), whole_seconds=0.4) as prometheus:
            prometheus.query("up", at=NOW)

    begun = time.monotonic()
    assert problem_of(call).code == "timeout"
    # Cut off, and not at the end of what would never end.
    assert time.monotonic() - begun < 30


def test_a_closed_port_and_an_unknown_name_are_told_apart_from_a_wrong_certificate(server: Fake) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{probe.getsockname()[1]}"

    def call(url: str) -> Callable[[], object]:
        return lambda: Prometheus(Address(url)).query("up", at=NOW)

    refused = problem_of(call(closed))
    assert (refused.code, "refused" in str(refused.said)) == ("unreachable", True)
    assert problem_of(call("http://prometheus.invalid")).code == "unreachable"
    assert problem_of(call(server.url.replace("http:", "https:"))).code == "insecure"
    assert (
        problem_of(lambda: Prometheus(Address("https://x.example.org", ca="no PEM"))).code == "bad-authority"
    )


def test_a_token_is_in_no_representation() -> None:
    assert "s3cret" not in repr(Address("http://x.example.org", token="s3cret"))


def test_numbers_over_time_come_without_those_that_are_none() -> None:
    import json

    body = json.dumps(matrix(({"UUID": "a"}, [(60, 1), (120, "NaN"), (180, 3)]))).encode()
    (series,) = answers.over_time(body)
    assert list(series.points) == [(60.0, 1.0), (180.0, 3.0)]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (b"{}," * (2 * answers.MOST_SERIES) + b"{}", "too-large"),
        (b'{"values": [' + b'[1,"1"],' * answers.SERIES_BYTES + b'[1,"1"]]}', "unreadable"),
        (b'{"metric": {' + b'"a":"",' * answers.SERIES_BYTES + b'"b":""}}', "unreadable"),
    ],
)
def test_an_answer_is_no_more_than_what_it_may_be_made_of(result: bytes, code: str) -> None:
    """Decoded, an answer takes many times the memory that it had on the way."""
    body = b'{"status": "success", "data": {"resultType": "matrix", "result": [' + result + b"]}}"
    unable = problem_of(lambda: list(answers.over_time(body)))
    assert (unable.code, unable.code in problems.OF_QUERY) == (code, True)


def test_what_is_about_a_query_does_not_stop_the_others() -> None:
    assert not problems.rejected("x").of_source
    assert problems.timed_out(5).of_source
