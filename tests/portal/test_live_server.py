"""The live server of these tests: nothing of one test is still at work when the next one begins."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.live import Door

pytestmark = pytest.mark.timeout(60)


class Desk:
    """An application that remembers what it was asked, and fails on request."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.asked.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] == "/fault/":
            raise ValueError("a fault")
        start_response("200 OK", [])
        return [b"answer"]


def ask(door: Door, path: str) -> tuple[str, Any]:
    """Its status line, and the answer that is still to be closed."""
    statuses: list[str] = []
    answer = door({"PATH_INFO": path}, lambda status, _: statuses.append(status))
    return "".join(statuses), answer


def test_the_end_of_a_test_waits_for_answers_that_are_not_closed() -> None:
    desk = Desk()
    door = Door(desk)
    held: list[Any] = []
    over = threading.Event()

    def test() -> None:
        with door.opened():
            held.append(ask(door, "/slow/")[1])
            held.append(ask(door, "/slow/")[1])
        over.set()

    running = threading.Thread(target=test)
    running.start()
    assert not over.wait(0.2)
    assert b"".join(held[0]) == b"answer"
    held[0].close()
    held[0].close()  # as servers may
    assert not over.wait(0.2)
    held[1].close()
    assert over.wait(30)
    running.join()


def test_between_tests_no_request_reaches_the_desk() -> None:
    desk = Desk()
    door = Door(desk)
    assert ask(door, "/early/") == ("503 Service Unavailable", [])
    with door.opened():
        status, answer = ask(door, "/during/")
        answer.close()
    assert status == "200 OK"
    assert ask(door, "/late/") == ("503 Service Unavailable", [])
    assert desk.asked == ["/during/"]


def test_a_request_that_failed_is_over() -> None:
    door = Door(Desk())
    with door.opened(patience=1), pytest.raises(ValueError, match="a fault"):
        ask(door, "/fault/")


def test_a_request_that_never_ends_is_named() -> None:
    door = Door(Desk())
    with pytest.raises(AssertionError, match="/slow/"), door.opened(patience=0.05):
        ask(door, "/slow/")
