"""What controllers see of the store: always the present, whatever happened in between."""

import asyncio
from typing import Any

import pytest

from portal.demo.controllers.loop import Controller, Queue
from portal.demo.controllers.view import Delta, Index, View, decoder
from portal.demo.errors import ApiError
from portal.demo.fleet import build
from portal.demo.store import Store
from portal.dra.model import Node, Pod
from tests.demo_world.conftest import SPACE, fresh_store


def nodes_of(store: Store) -> View[Node]:
    return View(store, "nodes", decoder(Node))


def add(store: Store, short: str) -> str:
    return str(
        store.create("nodes", build.node(short, zone="hall", cpu=8, memory="64Gi"))["metadata"]["name"]
    )


def test_a_view_tells_what_came_changed_and_went() -> None:
    store, seen = fresh_store(), []
    view = nodes_of(store)
    view.subscribe(lambda delta: seen.append((delta.key[1], delta.old is not None, delta.new is not None)))
    name = add(store, "one")
    view.refresh()
    store.patch("nodes", name, {"spec": {"unschedulable": True}})
    view.refresh()
    store.delete("nodes", name)
    view.refresh()
    assert seen == [(name, False, True), (name, True, True), (name, True, False)]
    assert view.objects == {}


def test_a_subscriber_that_comes_late_is_told_what_is_there() -> None:
    store, seen = fresh_store(), []
    name = add(store, "one")
    view = nodes_of(store)
    view.refresh()
    view.subscribe(lambda delta: seen.append(delta.key[1]))
    assert seen == [name]


def test_a_view_that_fell_behind_what_the_store_remembers_compares_everything() -> None:
    store = Store(history_limit=4)
    view, seen = nodes_of(store), []
    gone, kept = add(store, "gone"), add(store, "kept")
    view.refresh()
    view.subscribe(lambda delta: seen.append((delta.key[1], delta.new is not None)) if delta.old else None)
    store.delete("nodes", gone)
    for turn in range(20):
        store.patch("nodes", kept, {"metadata": {"labels": {"turn": str(turn)}}})
    view.refresh()
    assert seen == [(gone, False), (kept, True)]
    assert view.objects["", kept].metadata.labels["turn"] == "19"


def test_an_object_that_cannot_be_read_is_not_there() -> None:
    store = fresh_store()
    body = build.pod("odd", SPACE, build.pod_spec())
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "plenty"
    store.load([body])
    view = View(store, "pods", decoder(Pod))
    view.refresh()
    assert view.objects == {}


def test_a_subscriber_that_stumbles_keeps_no_other_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    store, seen = fresh_store(), []
    view = nodes_of(store)

    def stumble(_delta: Delta[Node]) -> None:
        raise RuntimeError("over my own feet")

    view.subscribe(stumble)
    view.subscribe(lambda delta: seen.append(delta.key))
    add(store, "one")
    view.refresh()
    assert len(seen) == 1
    assert "stumbled" in caplog.text


def test_an_index_follows_its_view() -> None:
    store = fresh_store()
    view = nodes_of(store)
    by_zone = Index(view, lambda node: [node.metadata.labels["topology.kubernetes.io/zone"]])
    name = add(store, "one")
    view.refresh()
    assert by_zone["hall"] == {("", name)}
    store.patch("nodes", name, {"metadata": {"labels": {"topology.kubernetes.io/zone": "cellar"}}})
    view.refresh()
    assert by_zone["hall"] == frozenset()
    assert by_zone["cellar"] == {("", name)}


def test_a_queue_gives_each_key_once_and_the_earliest_first() -> None:
    async def story() -> list[str]:
        queue: Queue[str] = Queue()
        queue.add("late", after=0.02)
        queue.add("soon")
        queue.add("later", after=60)
        queue.add("later", after=0.04)
        queue.add("soon", after=1)
        return [await queue.take() for _ in range(3)]

    assert asyncio.run(story()) == ["soon", "late", "later"]


def test_a_controller_tries_again_after_any_kind_of_failure() -> None:
    class Clumsy(Controller[str]):
        attempts = 0

        def sync(self, key: str) -> float | None:
            assert key == "key"
            self.attempts += 1
            if self.attempts == 1:
                raise ApiError(409, "Conflict", "somebody was faster")
            if self.attempts == 2:
                raise RuntimeError("a surprise")
            done.set()
            return None

    done = asyncio.Event()

    async def story() -> int:
        controller = Clumsy()
        controller.queue.add("key")
        working = asyncio.create_task(controller.run())
        await asyncio.wait_for(done.wait(), 5)
        working.cancel()
        return controller.attempts

    assert asyncio.run(story()) == 3


def test_no_two_reads_of_one_step_disagree() -> None:
    store = fresh_store()
    view: View[Any] = nodes_of(store)
    name = add(store, "one")
    view.refresh()
    first = view.objects["", name]
    view.refresh()
    assert view.objects["", name] is first
