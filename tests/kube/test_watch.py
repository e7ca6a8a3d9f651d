"""The watch loop: lines from any pieces, bookmarks, errors, and every way in which a watch may end."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from portal.kube import errors
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import NODES
from portal.kube.watch import Bookmark, Event, Watch
from tests.kube.scripted import Reply, line, scripted, status


def node(name: str, version: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "resourceVersion": version}}


@contextmanager
def watching(stream: Iterable[bytes], *, cut: bool = False, idle_seconds: float = 5.0) -> Iterator[Watch]:
    with (
        scripted(lambda _: Reply(stream=stream, cut=cut)) as server,
        Client(Credentials.from_text(server.kubeconfig())) as client,
        client.watch(NODES, resource_version="5", idle_seconds=idle_seconds) as watch,
    ):
        assert server.received[0].query == {
            "watch": "true",
            "resourceVersion": "5",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "240",
        }
        yield watch


def flat(watch: Watch) -> list[Event | Bookmark]:
    return [event for events in watch for event in events]


def test_lines_are_put_together_from_any_pieces() -> None:
    whole = line("ADDED", node("a", "6")) + line("MODIFIED", node("ä", "7")) + line("DELETED", node("a", "8"))
    for size in (1, 7, 64, len(whole)):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        with watching(pieces) as watch:
            found = flat(watch)
        assert [event.type for event in found if isinstance(event, Event)] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_bookmark_tells_from_where_to_go_on() -> None:
    with watching([line("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": "99"}})]) as watch:
        assert flat(watch) == [Bookmark("99")]


def test_an_unfinished_line_at_the_end_is_dropped() -> None:
    with watching([line("ADDED", node("a", "6")) + line("ADDED", node("b", "7"))[:-9]], cut=True) as watch:
        assert len(flat(watch)) == 1


def test_an_error_event_is_raised_as_what_it_stands_for() -> None:
    with (
        watching([line("ERROR", status(410, "Expired", "too old"))]) as watch,
        pytest.raises(errors.Gone, match="too old"),
    ):
        flat(watch)


@pytest.mark.parametrize(
    "bad",
    [
        b"not json\n",
        b"null\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "PAINTED", "object": {}}\n',
        b'{"type": "BOOKMARK", "object": {}}\n',
    ],
)
def test_a_line_that_makes_no_sense_is_a_protocol_error(bad: bytes) -> None:
    with watching([bad]) as watch, pytest.raises(errors.ProtocolError):
        flat(watch)


def test_blank_lines_are_nothing() -> None:
    with watching([b"\n\r\n", line("ADDED", node("a", "6"))]) as watch:
        assert len(flat(watch)) == 1


def test_silence_ends_the_watch() -> None:
    release = threading.Event()

    def silent() -> Iterator[bytes]:
        yield line("ADDED", node("a", "6"))
        release.wait(5)

    with watching(silent(), idle_seconds=0.1) as watch:
        assert len(flat(watch)) == 1
        release.set()


def test_closing_from_another_thread_wakes_a_read_that_waits() -> None:
    release = threading.Event()

    def silent() -> Iterator[bytes]:
        yield line("ADDED", node("a", "6"))
        release.wait(30)

    with watching(silent(), idle_seconds=30) as watch:
        seen = threading.Event()
        done = threading.Event()

        def read() -> None:
            for _ in watch:
                seen.set()
            done.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert seen.wait(5)
        watch.close()
        assert done.wait(2)
        release.set()


def test_a_watch_that_is_refused_raises_at_once() -> None:
    reply = Reply(status=403, body=status(403, "Forbidden", "may not watch"))
    with (
        scripted(lambda _: reply) as server,
        Client(Credentials.from_text(server.kubeconfig())) as client,
        pytest.raises(errors.Forbidden, match="may not watch"),
    ):
        client.watch(NODES, resource_version="5")
