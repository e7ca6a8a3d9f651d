"""Calls to an API server: what they send, and what each kind of answer (or of silence) becomes."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from portal.kube import errors
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS
from tests.kube.scripted import Received, Reply, Script, ScriptedServer, scripted, status


@contextmanager
def client_of(script: Script, **options: float) -> Iterator[tuple[Client, ScriptedServer]]:
    with scripted(script) as server, Client(Credentials.from_text(server.kubeconfig()), **options) as client:
        yield client, server


def always(**reply: Any) -> Script:
    return lambda _: Reply(**reply)


def in_turn(*replies: Reply) -> Script:
    left = iter(replies)
    return lambda _: next(left)


def test_a_read_carries_the_token_and_gives_the_object() -> None:
    with client_of(always(body={"metadata": {"name": "n1"}})) as (client, server):
        assert client.get(NODES, "n1") == {"metadata": {"name": "n1"}}
    (request,) = server.received
    assert (request.method, request.path) == ("GET", "/api/v1/nodes/n1")
    assert request.headers["authorization"] == "Bearer s3cret-token"


def test_names_are_escaped_in_paths() -> None:
    assert RESOURCE_CLAIMS.path(namespace="a/b", name="c?d") == (
        "/apis/resource.k8s.io/v1/namespaces/a%2Fb/resourceclaims/c%3Fd"
    )


@pytest.mark.parametrize(
    ("call", "expected", "body"),
    [
        (
            lambda client: client.create(RESOURCE_CLAIMS, {"a": 1}, namespace="ns", dry_run=True),
            (
                "POST",
                "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims",
                {"dryRun": "All"},
                "application/json",
            ),
            {"a": 1},
        ),
        (
            lambda client: client.replace(DEVICE_CLASSES, "gpu", {"a": 1}),
            ("PUT", "/apis/resource.k8s.io/v1/deviceclasses/gpu", {}, "application/json"),
            {"a": 1},
        ),
        (
            lambda client: client.patch(
                RESOURCE_CLAIMS, "c", {"status": {}}, namespace="ns", subresource="status"
            ),
            (
                "PATCH",
                "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status",
                {},
                "application/merge-patch+json",
            ),
            {"status": {}},
        ),
        (
            lambda client: client.apply(DEVICE_CLASSES, "gpu", {"a": 1}, field_manager="desk", force=True),
            (
                "PATCH",
                "/apis/resource.k8s.io/v1/deviceclasses/gpu",
                {"fieldManager": "desk", "force": "true"},
                "application/apply-patch+yaml",
            ),
            {"a": 1},
        ),
        (
            lambda client: client.delete(
                RESOURCE_CLAIMS, "c", namespace="ns", uid="u1", grace_period_seconds=0
            ),
            ("DELETE", "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c", {}, "application/json"),
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u1"},
                "gracePeriodSeconds": 0,
            },
        ),
    ],
)
def test_writes_are_sent_as_the_api_wants_them(
    call: Callable[[Client], Any], expected: tuple[str, str, dict[str, str], str], body: dict[str, Any]
) -> None:
    with client_of(always(body={"ok": True})) as (client, server):
        assert call(client) == {"ok": True}
    (request,) = server.received
    sent = (request.method, request.path, request.query, request.headers["content-type"])
    assert sent == expected
    assert request.json() == body


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
def test_every_failure_has_its_name_and_the_clusters_words(
    code: int, reason: str, kind: type[Exception]
) -> None:
    with (
        client_of(always(status=code, body=status(code, reason, "said so"))) as (client, _),
        pytest.raises(errors.ApiStatusError) as caught,
    ):
        client.get(NODES, "n1")
    assert type(caught.value) is kind
    assert "said so" in caught.value.message
    assert (caught.value.status, caught.value.reason) == (code, reason)


def test_an_invalid_object_names_its_fields() -> None:
    cause = {
        "reason": "FieldValueInvalid",
        "field": "spec.devices.requests[0].count",
        "message": "must be > 0",
    }
    reply = always(status=422, body=status(422, "Invalid", "no", causes=[cause]))
    with client_of(reply) as (client, _), pytest.raises(errors.Invalid) as caught:
        client.create(RESOURCE_CLAIMS, {}, namespace="ns")
    assert caught.value.causes == [errors.Cause("spec.devices.requests[0].count", "must be > 0")]


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("soon", None), ("nan", None), ("-1", None)])
def test_retry_after_is_passed_on_where_it_is_a_number(header: str, seconds: float | None) -> None:
    reply = always(status=429, body=status(429, "TooManyRequests"), headers={"Retry-After": header})
    with client_of(reply) as (client, _), pytest.raises(errors.TooManyRequests) as caught:
        client.get(NODES, "n1")
    assert caught.value.retry_after == seconds


def test_an_error_page_of_a_proxy_is_still_a_named_error() -> None:
    with (
        client_of(always(status=502, body=b"<html>Bad Gateway</html>")) as (client, _),
        pytest.raises(errors.ServerError, match="HTTP 502"),
    ):
        client.version()


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b"", b'{"a":', b"\xff\xfe", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_a_protocol_error(body: bytes) -> None:
    with client_of(always(body=body)) as (client, _), pytest.raises(errors.ProtocolError):
        client.version()


def test_a_redirect_is_not_followed_so_that_the_token_stays_here() -> None:
    with scripted(always(body={})) as elsewhere:
        redirect = always(status=302, headers={"Location": f"{elsewhere.url}/login?x=1"})
        with (
            client_of(redirect) as (client, _),
            pytest.raises(errors.ProtocolError, match=r"redirects to .*/login"),
        ):
            client.version()
        assert elsewhere.received == []


def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        }
    )
    with Client(Credentials.from_text(server)) as client, pytest.raises(errors.Unreachable, match="refused"):
        client.version()


def test_a_plain_server_behind_https_is_unreachable_with_the_reason() -> None:
    with scripted(always(body={})) as server:
        text = server.kubeconfig().replace("http://", "https://")
        with (
            Client(Credentials.from_text(text)) as client,
            pytest.raises(errors.Unreachable, match="No secure connection"),
        ):
            client.version()


def test_a_silent_server_is_given_up_in_time() -> None:
    release = threading.Event()

    def script(request: Received) -> Reply:
        release.wait(5)
        return Reply(body={})

    with client_of(script, timeout=0.1) as (client, _):
        with pytest.raises(errors.Unreachable, match="did not answer within"):
            client.version()
        release.set()


def test_an_answer_that_drips_is_given_up_in_time() -> None:
    def drip() -> Iterator[bytes]:
        for _ in range(200):
            time.sleep(0.02)
            yield b" "

    started = time.monotonic()
    with (
        client_of(lambda _: Reply(stream=drip()), timeout=0.2) as (client, _),
        pytest.raises(errors.Unreachable, match="did not answer within"),
    ):
        client.version()
    assert time.monotonic() - started < 3


def test_an_answer_that_breaks_off_is_unreachable() -> None:
    with (
        client_of(always(body=b'{"gitVersion": "v1', cut=True)) as (client, _),
        pytest.raises(errors.Unreachable, match="broke off"),
    ):
        client.version()


def test_a_401_reads_a_file_again_once(tmp_path: Path) -> None:
    def script(request: Received) -> Reply:
        if request.headers["authorization"] == "Bearer new":
            return Reply(body={"gitVersion": "v1.36.2"})
        # The operator renews the file at this moment.
        path.write_text(server.kubeconfig(token="new"))
        return Reply(status=401, body=status(401, "Unauthorized"))

    path = tmp_path / "config"
    with scripted(script) as server:
        path.write_text(server.kubeconfig(token="old"))
        with Client(Credentials.from_kubeconfig(path)) as client:
            assert client.version() == {"gitVersion": "v1.36.2"}


def page(names: list[str], *, version: str = "7", token: str = "") -> Reply:
    items = [{"metadata": {"name": name}} for name in names]
    return Reply(body={"metadata": {"resourceVersion": version, "continue": token}, "items": items or None})


def names_of(items: list[Any]) -> list[str]:
    return [json.loads(bytes(item))["metadata"]["name"] for item in items]


def test_a_list_comes_page_by_page() -> None:
    with client_of(in_turn(page(["a", "b"], token="t1"), page(["c"]))) as (client, server):
        pages = list(client.list_pages(NODES, limit=2, field_selector="metadata.name=x"))
    assert [(names_of(p.items), p.first, p.last) for p in pages] == [
        (["a", "b"], True, False),
        (["c"], False, True),
    ]
    assert pages[-1].resource_version == "7"
    assert pages[0].date is not None
    assert server.received[0].query == {"limit": "2", "fieldSelector": "metadata.name=x"}
    assert server.received[1].query["continue"] == "t1"


def test_a_list_that_expires_in_the_middle_starts_anew_and_says_so() -> None:
    gone = Reply(status=410, body=status(410, "Expired", "too old"))
    with client_of(in_turn(page(["a"], token="t1"), gone, page(["b"], token="t2"), page(["c"]))) as (
        client,
        _,
    ):
        assert [(names_of(p.items), p.first) for p in client.list_pages(NODES)] == [
            (["a"], True),
            (["b"], True),
            (["c"], False),
        ]


def test_a_list_that_keeps_expiring_is_given_up() -> None:
    gone = Reply(status=410, body=status(410, "Expired", "too old"))
    replies = itertools.cycle([page(["a"], token="t1"), gone])
    with client_of(lambda _: next(replies)) as (client, _), pytest.raises(errors.Gone):
        list(client.list_pages(NODES))


def test_an_empty_list_may_be_null() -> None:
    with client_of(in_turn(page([]))) as (client, _):
        assert client.list_all(NODES) == []


def test_discovery_puts_the_preferred_version_first() -> None:
    def script(request: Received) -> Reply:
        if request.path == "/apis/resource.k8s.io":
            versions = [{"groupVersion": f"resource.k8s.io/{v}"} for v in ("v1beta2", "v1")]
            return Reply(
                body={"versions": versions, "preferredVersion": {"groupVersion": "resource.k8s.io/v1"}}
            )
        claims = {"name": "resourceclaims", "namespaced": True, "kind": "ResourceClaim"}
        return Reply(body={"resources": [claims, {"name": "resourceclaims/status", "namespaced": True}]})

    with client_of(script) as (client, _):
        served = client.served("resource.k8s.io")
    assert list(served) == ["resource.k8s.io/v1", "resource.k8s.io/v1beta2"]
    assert served["resource.k8s.io/v1"] == {"resourceclaims": RESOURCE_CLAIMS}


def test_a_group_that_is_not_served_is_empty() -> None:
    with client_of(always(status=404, body=b"404 page not found")) as (client, _):
        assert client.served("kueue.x-k8s.io") == {}
