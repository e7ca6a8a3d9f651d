"""A tiny HTTP server on a real socket whose every answer, and every way of breaking off, a test writes
down."""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Received:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """An answer: a whole `body`, or a `stream` of pieces sent as chunks; `cut` breaks the connection off
    after it."""

    status: int = 200
    body: bytes | dict[str, Any] | None = None
    stream: Iterable[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    @property
    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body or {}).encode()


Script = Callable[[Received], Reply]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: "ScriptedServer"

    def setup(self) -> None:
        super().setup()
        self.owner.sockets.add(self.connection)

    def finish(self) -> None:
        self.owner.sockets.discard(self.connection)
        try:
            super().finish()
        except OSError:
            return

    def log_message(self, *args: object) -> None:
        """Nothing: a test's output is its result."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        request = Received(
            self.command,
            parts.path,
            {key: values[0] for key, values in parse_qs(parts.query).items()},
            {key.lower(): value for key, value in self.headers.items()},
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        self.owner.received.append(request)
        self._send(self.owner.script(request))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.stream is None:
            self.send_header("Content-Length", str(len(reply.payload) + (1 if reply.cut else 0)))
            self.end_headers()
            self.wfile.write(reply.payload)
        else:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in reply.stream:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if not reply.cut:
                self.wfile.write(b"0\r\n\r\n")
        if reply.cut:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - names of the base class


class ScriptedServer:
    """Answers every request with what `script` returns for it, and keeps what it received."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.received: list[Received] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._http.daemon_threads = True
        self.sockets: set[socket.socket] = set()
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def kubeconfig(self, *, token: str = "s3cret-token") -> str:
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "main",
                "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me"}}],
                "clusters": [{"name": "here", "cluster": {"server": self.url}}],
                "users": [{"name": "me", "user": {"token": token}}],
            }
        )

    def stop(self) -> None:
        self._http.shutdown()
        for held in list(self.sockets):
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._http.server_close()
        self._thread.join(timeout=5)


@contextmanager
def scripted(script: Script) -> Iterator[ScriptedServer]:
    server = ScriptedServer(script)
    try:
        yield server
    finally:
        server.stop()


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    """A `metav1.Status` of a failure."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def line(kind: str, obj: dict[str, Any]) -> bytes:
    """One event of a watch."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"
