"""What the desk asks: a server that answers as it is told to, and a real Prometheus where there is one."""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import urllib3

PROMETHEUS = shutil.which("prometheus")


@dataclass
class Asked:
    path: str
    fields: dict[str, str]
    headers: dict[str, str]


@dataclass
class Fake:
    """`answer` is called with what was asked; it gives a status and a JSON value, or bytes; or it writes to
    the handler itself and gives None."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked, BaseHTTPRequestHandler], tuple[int, Any] | None] = lambda _a, _h: (200, vector())


def vector(*samples: tuple[Mapping[str, str], object], at: float = 0.0) -> dict[str, Any]:
    """The answer to an instant query."""
    result = [{"metric": dict(labels), "value": [at, str(value)]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def matrix(*series: tuple[Mapping[str, str], list[tuple[float, object]]]) -> dict[str, Any]:
    """The answer to a range query."""
    result = [
        {"metric": dict(labels), "values": [[at, str(value)] for at, value in points]}
        for labels, points in series
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


@contextmanager
def fake() -> Iterator[Fake]:
    told = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.path, dict(parse_qsl(body.decode())), dict(self.headers))
            told.asked.append(asked)
            if (answer := told.answer(asked, self)) is None:
                return
            status, value = answer
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST  # noqa: N815 - the name that http.server asks for

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def exporter(text: str) -> Iterator[str]:
    """host:port of what serves these metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def prometheus(targets: str, directory: Path) -> Iterator[str]:
    """A real one that scrapes `targets` every second; it answers when this begins."""
    assert PROMETHEUS is not None
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "external_labels": {}},
                "scrape_configs": [
                    {
                        "job_name": "exporter",
                        "static_configs": [{"targets": [targets], "labels": {"cluster": "berlin"}}],
                    }
                ],
            }
        )
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _until_it_has_samples(url, process, directory / "log")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _until_it_has_samples(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    pool = urllib3.PoolManager(retries=False)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(log.read_text())
        try:
            answer = pool.request("GET", f"{url}/api/v1/query", fields={"query": "up == 1"}, timeout=5)
            if answer.status == 200 and answer.json()["data"]["result"]:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())
