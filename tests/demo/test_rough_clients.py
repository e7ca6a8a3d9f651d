"""Clients that send nonsense, hang up, do not read, or all write at once."""

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from tests.demo.api import CLAIMS, PODS, TOKENS, Api, claim, pod

MERGE = "application/merge-patch+json"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", CLAIMS, {"metadata": 7}),
        ("POST", CLAIMS, {"metadata": {"name": 7}}),
        ("POST", CLAIMS, {"metadata": {"name": "a", "labels": ["b"]}}),
        ("POST", CLAIMS, {"metadata": {"name": "a", "finalizers": {"b": "c"}}}),
        ("POST", CLAIMS, {"metadata": {"name": "a"}, "spec": {"devices": [1]}}),
        ("POST", CLAIMS, {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [None]}}}),
        ("POST", CLAIMS, claim(annotations={"a": None})),
        ("PUT", f"{PODS}/one", {"metadata": 7}),
        ("PUT", f"{PODS}/one", []),
        ("PUT", f"{PODS}/one", {}),
        ("POST", f"{PODS}/one/binding", {"target": "n1"}),
        ("DELETE", f"{PODS}/one", []),
        ("DELETE", f"{PODS}/one", {"preconditions": 1}),
        ("DELETE", f"{PODS}/one", {"gracePeriodSeconds": "soon"}),
        ("DELETE", f"{PODS}/one?gracePeriodSeconds=soon", None),
    ],
)
def test_bodies_of_a_wrong_shape_are_a_400(api: Api, method: str, path: str, body: object) -> None:
    api.ok("POST", PODS, pod())
    answer = api.call(method, path, body)
    assert (answer.code, answer.body["kind"]) == (400, "Status")
    assert api.call("GET", f"{PODS}/one").code == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b'{"metadata": {"name": "a"}} trailing',
        b'{"metadata": {"name": "\\ud800"}}',
        b'{"spec": {"devices": {"requests": [{"name": "a", "exactly": {"count": 1e400}}]}}}',
        b'{"spec": {"devices": {"requests": [{"name": "a", "exactly": {"count": 99999999999999999999}}]}}}',
    ],
)
def test_raw_nonsense_is_a_400(api: Api, raw: bytes) -> None:
    answer = api.call("POST", CLAIMS, raw)
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


def test_parameters_for_drivers_come_back_as_they_were_sent(api: Api) -> None:
    body = claim()
    parameters = {"huge": 2**80, "empty": {}, "nothing": None, "text": "ü"}
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": "a.example.com", "parameters": parameters}}]
    made = api.ok("POST", CLAIMS, body)
    assert made["spec"]["devices"]["config"][0]["opaque"]["parameters"] == parameters


@pytest.mark.parametrize("patch", [7, [], "x", None, {"metadata": None}, {"metadata": {"name": "two"}}])
def test_patches_of_a_wrong_shape_are_a_400(api: Api, patch: object) -> None:
    api.ok("POST", PODS, pod())
    answer = api.call("PATCH", f"{PODS}/one", json.dumps(patch).encode(), content_type=MERGE)
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


def test_names_of_unknown_fields_cannot_write_headers(api: Api) -> None:
    body = claim()
    body["spec"]["evil\r\nSet-Cookie: a"] = 1
    answer = api.call("POST", CLAIMS, body)
    assert answer.code == 201
    assert "Set-Cookie" not in answer.headers
    assert "evil\\r\\nSet-Cookie" in answer.headers["Warning"]


def test_a_time_that_never_was_is_a_400(api: Api) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"namespace": "lab"},
        "eventTime": "2026-13-45T99:99:99Z",
    }
    assert api.call("POST", "/api/v1/namespaces/lab/events", event).code == 400


def test_an_unknown_propagation_is_a_422(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    assert api.call("DELETE", f"{CLAIMS}/one", {"propagationPolicy": "Sideways"}).code == 422


def test_writers_that_race_lose_nothing(api: Api) -> None:
    api.ok("POST", CLAIMS, claim(labels={"count": "0"}))

    def count_up() -> None:
        for _ in range(10):
            while True:
                body = api.ok("GET", f"{CLAIMS}/one")
                body["metadata"]["labels"]["count"] = str(int(body["metadata"]["labels"]["count"]) + 1)
                if api.call("PUT", f"{CLAIMS}/one", body).code == 200:
                    break

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert api.ok("GET", f"{CLAIMS}/one")["metadata"]["labels"]["count"] == "40"


def test_one_of_many_creators_wins(api: Api) -> None:
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(api.call("POST", CLAIMS, claim()).code))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(codes) == [201, *[409] * 7]


def _open_watch(api: Api) -> socket.socket:
    address = urlsplit(api.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = f"GET {CLAIMS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['admin']}\r\n\r\n"
    connection.sendall(head.encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def test_a_watcher_that_does_not_read_holds_up_nobody(api: Api) -> None:
    with _open_watch(api), api.watch(f"{CLAIMS}?watch=1") as events:
        for number in range(60):
            api.ok("POST", CLAIMS, claim(f"c{number}", annotations={"fill": "x" * 50_000}))
        assert sum(1 for _, event in zip(range(60), events, strict=False) if event["type"] == "ADDED") == 60


def test_a_watcher_that_hangs_up_is_forgotten(api: Api) -> None:
    ended = threading.Event()
    connection = _open_watch(api)
    (task,) = api.run(lambda _store: list(api.server.watches))
    api.loop.call_soon_threadsafe(task.add_done_callback, lambda _task: ended.set())
    connection.close()
    assert ended.wait(10)
    assert not api.run(lambda _store: list(api.server.watches))


def test_a_watch_of_one_object_hears_of_no_other(api: Api) -> None:
    api.ok("POST", CLAIMS, claim("a"))
    with api.watch(f"{CLAIMS}/b?watch=1") as events:
        api.ok("POST", CLAIMS, claim("b"))
        assert next(events)["object"]["metadata"]["name"] == "b"
