"""Batches of a live watch are put together without losing, reordering or misdating anything."""

from datetime import UTC, datetime, timedelta
from typing import Any

from inventory.mirror.batches import TOGETHER, Batch, Gap, Item, Unreadable, merged
from portal.kube.resources import NODES, RESOURCE_CLAIMS, Resource

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
MOMENT = timedelta(milliseconds=10)


def batch(*names: str, resource: Resource = RESOURCE_CLAIMS, at: datetime = NOW, **more: Any) -> Batch:
    items = [Item(namespace="", name=name, uid=name, resource_version="1", raw=b"{}") for name in names]
    return Batch(resource=resource, received_at=at, items=items, **more)


def names(batches: list[Batch]) -> list[list[str]]:
    return [[item.name for item in one.items] for one in batches]


def test_what_one_watch_delivers_in_a_moment_is_one_batch_as_of_its_last() -> None:
    bad = Unreadable("no name")
    told = merged(
        [
            batch("a", checkpoint="7"),
            batch("n", resource=NODES),
            batch("b", "a", at=NOW + MOMENT, checkpoint="9", unreadable=[bad]),
            batch("c", at=NOW + 2 * MOMENT),
        ]
    )
    assert names(told) == [["a", "b", "a", "c"], ["n"]]
    assert (told[0].checkpoint, told[0].received_at) == ("9", NOW + 2 * MOMENT)
    assert told[0].unreadable == [bad]


def test_no_change_is_dated_much_later_than_it_came() -> None:
    times = [NOW, NOW + TOGETHER, NOW + TOGETHER + MOMENT]
    assert names(merged([batch(str(n), at=at) for n, at in enumerate(times)])) == [["0", "1"], ["2"]]


def test_lists_gaps_and_what_was_missed_stay_by_themselves_and_in_their_place() -> None:
    specials: list[dict[str, Any]] = [
        {"present": {}},
        {"gap": Gap(since=NOW, lost=True)},
        {"since": NOW},
        {"force": True},
    ]
    for special in specials:
        told = merged([batch("a"), batch("b", **special), batch("c"), batch("d")])
        assert names(told) == [["a"], ["b"], ["c", "d"]]


def test_given_batches_are_left_as_they_were() -> None:
    first = batch("a")
    merged([first, batch("b")])
    assert names([first]) == [["a"]]
