"""The desk behind a socket, for `curl`: ``python -m tests.documents.serve PORT``."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from portal.wsgi import application


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of the base
        pass


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Quiet) as server:
        server.set_app(application)
        server.serve_forever()
