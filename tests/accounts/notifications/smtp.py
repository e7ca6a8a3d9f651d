"""A mail server on a real socket that takes mails, or refuses their receivers."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class MailServer:
    """`mails` are the messages as they came; `refusal` ("550 …") is what receivers are answered."""

    port: int = 0
    refusal: bytes = b""
    # Takes a mail and hangs up before it says so: as if the desk had died in that moment.
    breaks_off: bool = False
    mails: list[bytes] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[MailServer]:
    """A server that listens while the block lasts."""
    found = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 mail.example.org\r\n")
            while line := self.rfile.readline():
                word = line.split(maxsplit=1)[0].upper() if line.strip() else b""
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    found.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                    if found.breaks_off:
                        return
                elif word == b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                elif word == b"RCPT" and found.refusal:
                    self.wfile.write(found.refusal + b"\r\n")
                    continue
                self.wfile.write(b"250 fine\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
