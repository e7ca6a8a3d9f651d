"""The live server of browser tests, with a door that is shut between tests."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Door:
    """Lets requests in while a test runs, and waits for those that are inside when it ends.

    A browser that is closed leaves requests behind which the server still answers, or has not even read. The
    tables are emptied then, on SQLite through the very connection that such a request uses: one that is still
    at work makes that fail, and the test after it starts in the data of this one.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._changed = threading.Condition()
        self._inside: list[str] = []
        self._open = False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = str(environ["PATH_INFO"])
        with self._changed:
            if not self._open:
                start_response("503 Service Unavailable", [("Content-Length", "0")])
                return []
            self._inside.append(path)
        try:
            answer = self._application(environ, start_response)
        except BaseException:
            self._left(path)
            raise
        return _Answer(answer, lambda: self._left(path))

    def _left(self, path: str) -> None:
        with self._changed:
            self._inside.remove(path)
            self._changed.notify_all()

    @contextmanager
    def opened(self, patience: float = 60) -> Iterator[None]:
        """Open inside the block. Raises `AssertionError` with the paths that were not answered ``patience``
        seconds after it."""
        with self._changed:
            self._open = True
        try:
            yield
        finally:
            with self._changed:
                self._open = False
                emptied = self._changed.wait_for(lambda: not self._inside, patience)
                assert emptied, f"still at work {patience:.0f} s after the test: {self._inside}"


class _Answer:
    """The answer of a request, which is over once the server has closed it."""

    def __init__(self, answer: Iterable[bytes], left: Callable[[], None]) -> None:
        self._answer = answer
        self._left: Callable[[], None] | None = left

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        """Called once by the server, also when the client has gone away."""
        left, self._left = self._left, None
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            if left is not None:
                left()


def with_door(server: Any) -> Door:
    """The door of ``server`` (pytest-django's `LiveServer`), which is put there the first time."""
    httpd = server.thread.httpd
    found = httpd.get_app()
    if isinstance(found, Door):
        return found
    door = Door(found)
    httpd.set_app(door)
    return door
