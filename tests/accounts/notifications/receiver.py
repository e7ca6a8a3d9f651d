"""A real HTTP server on loopback that plays the receiver of webhooks, well or badly behaved."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Receiver:
    """`status` is what it answers next; `requests` are (path, headers, body) as they came."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    # Never answers until the test is over.
    silent: bool = False
    # Sends its answer for ever.
    endless: bool = False
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@contextmanager
def listening() -> Iterator[Receiver]:
    """A receiver that listens while the block lasts."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            sent = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append((self.path, sent, self.rfile.read(length)))
            if receiver.silent:
                receiver.over.wait(60)
                return
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(receiver.body)
                while receiver.endless:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                # The desk hung up.
                receiver.over.set()

        def log_message(self, *_args: object) -> None:
            """Nothing to the screen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
