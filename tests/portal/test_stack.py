"""Ports that several desks on one machine share out among themselves."""

import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from portal.stack import Part, Stack, UnableToStart, free_port

pytestmark = pytest.mark.nodatabase


@pytest.fixture
def make_stack(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], Stack]:
    def make() -> Stack:
        stack = Stack(tmp_path, web_port=0, cluster_port=None)
        request.addfinalizer(stack.stop)
        return stack

    return make


def test_desks_that_start_together_take_different_ports_before_any_of_them_listens(
    make_stack: Callable[[], Stack],
) -> None:
    start = free_port()
    first, second = make_stack(), make_stack()
    taken = first.claim_port(start)
    assert second.claim_port(start) > taken


def test_a_desk_that_stopped_gives_its_port_back(make_stack: Callable[[], Stack]) -> None:
    start = free_port()
    first = make_stack()
    taken = first.claim_port(start)
    first.stop()
    assert make_stack().claim_port(start) == taken


def test_a_port_on_which_another_program_listens_is_passed_over(make_stack: Callable[[], Stack]) -> None:
    start = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", start))
        other.listen()
        assert make_stack().claim_port(start) > start


def test_no_free_port_is_told_with_the_range(
    make_stack: Callable[[], Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.stack.port_is_free", lambda _: False)
    with pytest.raises(UnableToStart, match="between 8000 and 8199"):
        make_stack().claim_port(8000)


def test_a_part_can_be_ended_by_signal_although_none_interrupts_its_start(tmp_path: Path) -> None:
    part = Part("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    part.start({})
    assert part.process is not None
    part.signal(signal.SIGTERM)
    assert part.process.wait(30) == -signal.SIGTERM
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGTERM}


def test_an_interrupt_that_python_dropped_ends_the_desk_at_the_next_look(
    make_stack: Callable[[], Stack],
) -> None:
    stack = make_stack()
    stack.check()
    stack.is_ending = True
    with pytest.raises(KeyboardInterrupt):
        stack.check()
