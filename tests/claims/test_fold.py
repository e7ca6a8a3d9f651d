"""The fold of observations into intervals, compared as whole values and against random histories."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claims.ledger.fold import DeviceKey, Event, Interval, Stay, fold

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
DEVICE = {
    "driver": "gpu.example",
    "pool": "n1",
    "device": "gpu-0",
    "request": "accelerator",
    "hardware_id": "u0",
}
KEY = DeviceKey(driver="gpu.example", pool="n1", device="gpu-0", share_id="", request="accelerator")


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def event(kind: str, seconds: float, *, epoch: int = 1, uid: str = "c1", **more: Any) -> Event:
    facts = {"epoch": epoch, **more.pop("facts", {})}
    if kind == "claim-allocated":
        facts = {"node": "n1", "devices": [DEVICE]} | facts
    return Event(
        key=f"{uid}/{epoch}/{kind}/{facts.get('consumer', {}).get('uid', '')}/{seconds}",
        kind=kind,
        at=at(seconds),
        source=more.pop("source", "observed"),
        observed_at=more.pop("observed_at", at(seconds)),
        namespace="ns",
        name="claim",
        uid=uid,
        facts=facts,
        **more,
    )


def test_a_detail_that_comes_later_completes_the_allocation_and_contradicts_nothing() -> None:
    told = {"driver": "gpu.example", "pool": "n1", "device": "gpu-0", "request": "accelerator"}
    unknown = {**told, "hardware_id": "", "product": "", "device_class": "gpu"}
    detail = {**told, "hardware_id": "u7", "product": "L4"}
    allocated = event("claim-allocated", 0, facts={"devices": [unknown]})
    detailed = event("allocation-detailed", 5, facts={"device": detail})
    for order in ([allocated, detailed], [detailed, allocated, detailed]):
        (found,) = fold(order).intervals
        assert found.facts == {**unknown, "hardware_id": "u7", "product": "L4"}
        assert (found.start, found.end) == (at(0), None)
    (known,) = fold([event("claim-allocated", 0), detailed]).intervals
    assert known.facts["hardware_id"] == "u0"


def interval(start: float, end: float | None, **more: Any) -> Interval:
    return Interval(
        **{
            "claim_uid": "c1",
            "epoch": 1,
            "namespace": "ns",
            "claim_name": "claim",
            "device": KEY,
            "node": "n1",
            "start": at(start),
            "start_source": "observed",
            "start_uncertainty_us": 0,
            "end": None if end is None else at(end),
            "end_source": "" if end is None else "observed",
            "end_uncertainty_us": 0,
            "facts": DEVICE,
            **more,
        }
    )


def test_an_allocation_and_its_release_are_one_interval() -> None:
    folded = fold([event("claim-allocated", 0), event("claim-released", 60)])
    assert folded.intervals == (interval(0, 60),)


def test_an_allocation_without_release_is_open() -> None:
    assert fold([event("claim-allocated", 0)]).intervals == (interval(0, None),)


def test_a_deletion_ends_it_like_a_release_and_the_earlier_counts() -> None:
    folded = fold([event("claim-allocated", 0), event("claim-deleted", 61), event("claim-released", 60)])
    assert folded.intervals == (interval(0, 60),)


def test_a_claim_that_lives_through_two_allocations_has_two_intervals() -> None:
    folded = fold(
        [
            event("claim-allocated", 0),
            event("claim-released", 60),
            event("claim-allocated", 100, epoch=2),
            event("claim-deleted", 130, epoch=2),
        ]
    )
    assert folded.intervals == (interval(0, 60), interval(100, 130, epoch=2))


def test_after_a_gap_the_earlier_bound_of_the_end_counts() -> None:
    folded = fold([event("claim-allocated", 0), event("claim-released", 60, uncertainty_us=25_000_000)])
    assert folded.intervals == (interval(0, 35, end_uncertainty_us=25_000_000),)


def test_an_end_is_never_before_the_start() -> None:
    folded = fold([event("claim-allocated", 50), event("claim-released", 60, uncertainty_us=25_000_000)])
    assert folded.intervals == (interval(50, 50, end_uncertainty_us=10_000_000),)


def test_a_clock_that_runs_ahead_does_not_start_it_after_it_was_seen() -> None:
    folded = fold([event("claim-allocated", 90, source="allocationTimestamp", observed_at=at(5))])
    assert folded.intervals == (interval(5, None, start_source="allocationTimestamp"),)


def test_a_release_that_nobody_saw_lies_before_the_next_allocation() -> None:
    folded = fold([event("claim-allocated", 0), event("claim-allocated", 100, epoch=2)])
    assert folded.intervals == (
        interval(0, 0, end_uncertainty_us=100_000_000),
        interval(100, None, epoch=2),
    )


def test_an_end_without_a_start_tells_of_no_device() -> None:
    assert fold([event("claim-released", 60), event("claim-deleted", 70, epoch=0)]).intervals == ()


def test_every_device_of_an_allocation_has_an_interval() -> None:
    other = DEVICE | {"device": "gpu-1"}
    folded = fold([event("claim-allocated", 0, facts={"devices": [other, DEVICE, DEVICE]})])
    assert [i.device.device for i in folded.intervals] == ["gpu-0", "gpu-1"]


def test_consumers_stay_within_the_allocation() -> None:
    pod = {"consumer": {"resource": "pods", "name": "work", "uid": "p1"}}
    other = {"consumer": {"resource": "pods", "name": "hold", "uid": "p2"}}
    folded = fold(
        [
            event("claim-allocated", 10),
            event("consumer-joined", 5, facts=pod),
            event("consumer-left", 40, facts=pod),
            event("consumer-joined", 20, facts=other),
            event("claim-released", 60),
        ]
    )
    stay = Stay(claim_uid="c1", epoch=1, resource="pods", name="work", uid="p1", joined=at(10), left=at(40))
    assert folded.stays[0] == stay
    assert (folded.stays[1].joined, folded.stays[1].left) == (at(20), at(60))


# --- random histories -----------------------------------------------------------------------------

_kinds = st.sampled_from(
    ["claim-allocated", "claim-released", "claim-deleted", "consumer-joined", "consumer-left"]
)


@st.composite
def events(draw: st.DrawFn) -> Event:
    kind = draw(_kinds)
    consumer = {"consumer": {"resource": "pods", "name": "p", "uid": draw(st.sampled_from("pq"))}}
    return event(
        kind,
        draw(st.integers(0, 1000)),
        epoch=draw(st.integers(0, 3)),
        uid=draw(st.sampled_from(["c1", "c2"])),
        uncertainty_us=draw(st.integers(0, 100)) * 1_000_000,
        observed_at=at(draw(st.integers(0, 1100))),
        facts=consumer if kind.startswith("consumer") else {},
    )


# However slow the machine is.
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
histories = st.lists(events(), max_size=14, unique_by=lambda e: e.key)


@QUIET
@given(histories, st.randoms())
def test_neither_order_nor_repetition_changes_the_outcome(history: Sequence[Event], random: Any) -> None:
    expected = fold(history)
    shuffled = [*history, *random.sample(list(history), len(history) // 2)]
    random.shuffle(shuffled)
    assert fold(shuffled) == expected


@QUIET
@given(histories)
def test_intervals_are_never_negative_and_epochs_of_a_claim_never_overlap(history: Sequence[Event]) -> None:
    folded = fold(history)
    for one in folded.intervals:
        assert one.end is None or one.end >= one.start
        assert one.end_uncertainty_us >= 0
    for uid in ("c1", "c2"):
        of_claim = [i for i in folded.intervals if i.claim_uid == uid]
        for earlier, later in pairwise(of_claim):
            assert earlier.end is not None
            assert earlier.end <= max(earlier.start, later.start)
    for stay in folded.stays:
        assert stay.left is None or stay.left >= stay.joined


@QUIET
@given(histories)
def test_claims_are_folded_independently_of_each_other(history: Sequence[Event]) -> None:
    together = fold(history)
    apart = [fold([e for e in history if e.uid == uid]) for uid in ("c1", "c2")]
    assert together.intervals == apart[0].intervals + apart[1].intervals
