"""The ledger on random histories: reordered, duplicated, gapped, with clocks that differ. It must say at
every instant what an independent oracle says (`ledger_oracle`), whatever the order, and conserve device
time."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claims.ledger.bounds import OPERATOR, Policies
from claims.ledger.conservation import SECOND, UNTOLD, WHOLE, Piece, Span, Use, add_up
from claims.ledger.contests import Held, judge
from claims.ledger.fold import Event, Interval, fold
from tests.claims.ledger_oracle import Holding, Oracle
from tests.claims.test_fold import NOON

QUIET = settings(
    deadline=None,
    max_examples=120,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
RESOURCE = "nvidia.com/gpu"
LATEST = 1_000


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


class History:
    """A world in which devices are handed out one after the other, and a watcher who sees it through a clock
    of its own, late, and not at all for a while."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.skew = self.random.choice([0, 0, -3, 7])
        self.gaps = [
            (start, start + self.random.randint(10, 150))
            for start in self.random.sample(range(LATEST), self.random.randint(0, 3))
        ]
        self.events: list[Event] = []
        for number in range(self.random.randint(1, 3)):
            self._device(f"gpu-{number}")
        for number in range(self.random.randint(0, 3)):
            self._pod(f"pod-{number}")

    def _device(self, name: str) -> None:
        now, claims = self.random.randint(0, 100), self.random.randint(1, 4)
        for number in range(claims):
            uid = f"{name}-claim-{number}"
            for epoch in range(1, self.random.randint(2, 4)):
                end = now + self.random.randint(1, 200)
                held = {
                    "driver": "d", "pool": "p", "device": name, "request": "r", "share_id": "",
                }  # fmt: skip
                stamp = self.random.random() < 0.5
                self._see("claim-allocated", uid, now, stamp=stamp, epoch=epoch, node="n", devices=[held])
                pod: dict[str, Any] = {"consumer": {"resource": "pods", "name": uid, "uid": f"{uid}-pod"}}
                self._see("consumer-joined", uid, now, epoch=epoch, **pod)
                last = self.random.random() < 0.1
                if not last and self.random.random() < 0.9:
                    kind = self.random.choice(["claim-released", "claim-deleted"])
                    self._see(kind, uid, end, epoch=epoch)
                    if self.random.random() < 0.2:
                        self._see("claim-deleted", uid, end + 5, epoch=epoch)
                now = end + self.random.randint(0, 60)

    def _pod(self, uid: str) -> None:
        start = self.random.randint(0, LATEST // 2)
        count = self.random.randint(0, 3)
        unit = {"resource": RESOURCE, "product": "A100", "replicas": self.random.choice([1, 4])}
        known = self.random.random() < 0.5
        self._see(
            "pod-scheduled", uid, start, stamp=True, node="n",
            extended={RESOURCE: count, "x/y": 1}, units=[unit] if known else [],
        )  # fmt: skip
        if not known:
            self._see("pod-detailed", uid, start + 3, units=[unit])
        if self.random.random() < 0.3:
            self._see("extended-claim", uid, start + 1, pod=uid, claim="c", resources={"r": RESOURCE})
        if self.random.random() < 0.8:
            self._see("pod-finished", uid, start + self.random.randint(0, 300), stamp=True)

    def _see(self, kind: str, uid: str, second: int, *, stamp: bool = False, **facts: Any) -> None:
        """Note what happened then: when it is seen, and how certain that is."""
        seen, width = second + self.random.choice([0, 0, 1]), 0
        for low, high in self.gaps:
            if low <= seen < high:
                seen, width = high, high - low
        told = second + self.skew if stamp else seen
        self.events.append(
            Event(
                key=f"{uid}/{facts.get('epoch', '')}/{kind}/{len(self.events)}",
                kind=kind,
                at=at(told),
                source="allocationTimestamp" if stamp else "observed",
                uncertainty_us=0 if stamp else width * 1_000_000,
                observed_at=at(seen),
                namespace="ns",
                name=uid,
                uid=uid,
                facts=facts,
            )
        )


def holdings(intervals: Sequence[Interval], instant: datetime) -> list[Holding]:
    found = []
    for one in intervals:
        if one.start <= instant and (one.end is None or instant < one.end):
            key = one.device
            what: tuple[str, ...] = (key.driver, key.pool, key.device, key.share_id, key.request)
            if one.kind == "units":
                what = (one.extended_resource, one.node)
            found.append(Holding(one.claim_uid, one.epoch, what, Fraction(one.units, one.replicas)))
    return sorted(found)


seeds = st.integers(0, 2**32)


@QUIET
@given(seeds)
def test_the_ledger_says_at_every_instant_what_the_oracle_says(seed: int) -> None:
    history = History(seed)
    intervals, oracle = fold(history.events).intervals, Oracle(history.events)
    for instant in oracle.instants():
        for near in (instant - timedelta(microseconds=1), instant, instant + timedelta(microseconds=1)):
            assert holdings(intervals, near) == oracle.holdings(near), near


@QUIET
@given(seeds, st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(seed: int, shuffle: random.Random) -> None:
    events = History(seed).events
    expected = fold(events)
    mixed = [*events, *shuffle.sample(events, len(events) // 2)]
    shuffle.shuffle(mixed)
    assert fold(mixed) == expected
    # Folded by and by, as the storage does it, it comes to the same.
    for uid in {event.uid for event in events}:
        mine = fold([event for event in mixed if event.uid == uid]).intervals
        assert mine == tuple(one for one in expected.intervals if one.claim_uid == uid)


@QUIET
@given(seeds)
def test_the_operators_bounds_take_in_the_tenants(seed: int) -> None:
    events = History(seed).events
    tenants = fold(events).intervals
    operators = fold(events, policies=Policies(((at(-1_000), OPERATOR),))).intervals
    assert len(tenants) == len(operators)
    for mine, theirs in zip(tenants, operators, strict=True):
        assert theirs.start <= mine.start
        # Unless the same claim's next allocation begins earlier, too.
        followed = any(o.claim_uid == theirs.claim_uid and o.epoch > theirs.epoch for o in operators)
        assert theirs.end is None or followed or (mine.end is not None and theirs.end >= mine.end)
        assert theirs.end is None or theirs.end >= theirs.start


def held(intervals: Sequence[Interval]) -> list[Held]:
    return [
        Held(
            device=(one.device.driver, one.device.pool, one.device.device),
            key=(one.claim_uid, one.epoch),
            start=one.start,
            end=one.end,
            start_uncertainty=timedelta(microseconds=one.start_uncertainty_us),
            end_uncertainty=timedelta(microseconds=one.end_uncertainty_us),
            bound=one.bound,
        )
        for one in intervals
        if one.kind == "claim"
    ]


@QUIET
@given(seeds, st.sampled_from(["tenant", OPERATOR]))
def test_no_two_sound_intervals_of_a_device_overlap(seed: int, bound: str) -> None:
    policies = Policies(((at(-1_000), bound),))
    found = held(fold(History(seed).events, policies=policies).intervals)
    verdicts = judge(found)
    assert judge(reversed(found)) == verdicts
    sound = []
    for one in found:
        verdict = verdicts.get(one.key)
        if verdict is None or not verdict.contested:
            end = one.end if one.end is None or verdict is None else one.end - verdict.cut
            assert end is None or end >= one.start
            sound.append((one.device, one.start, end))
    for device, start, end in sound:
        for other, begins, ends in sound:
            if device == other and (start, end) != (begins, ends) and start < begins:
                assert end is None or end <= begins or begins == ends, (device, start, end, begins)
                assert end is not None or begins == ends


def _takes(what: str) -> tuple[dict[str, Fraction], str]:
    """What a use takes, and whether it is apart from the others."""
    name, _, part = what.partition(" ")
    if part:
        return {name: Fraction(part)}, ""
    return {WHOLE: Fraction(1)}, {"whole": "", "untold": UNTOLD, "second": SECOND}[name]


def _in_use(uses: Sequence[str]) -> Fraction:
    """Of the whole: by who has it all, and on top of that by the shares of which most is taken; a share of
    which nobody knows how much it is may be all of it, and a second holder has no more than there is."""
    shares = {
        name: sum((Fraction(use.split()[1]) for use in uses if use.startswith(name)), Fraction(0))
        for name in ("memory", "cores")
    }
    shares["untold"] = Fraction("untold" in uses)
    return max(uses.count("whole") + max(shares.values()), Fraction("second" in uses))


@QUIET
@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.integers(1, 30),
            st.sampled_from(
                ["memory 1/4", "memory 1/2", "memory 1", "cores 1/2", "whole", "untold", "second"]
            ),
        ),
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=3),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=2),
    st.booleans(),
)
def test_device_time_is_conserved_and_agrees_with_counting_instants(
    uses: list[tuple[int, int, str]],
    blanks: list[tuple[int, int]],
    barred: list[tuple[int, int]],
    published: bool,
) -> None:
    piece = Piece(
        "gpu",
        uses=[Use(start, start + length, *_takes(what)) for start, length, what in uses],
        published=[Span(0, 100)] if published else [],
        barred=[Span(start, start + length) for start, length in barred],
    )
    unseen = [(start, start + length) for start, length in blanks if length]
    sums, excess = add_up(piece, unseen)
    assert sums.conserved
    counted: dict[str, Fraction] = dict.fromkeys(("allocated", "idle", "unavailable", "unknown"), Fraction(0))
    worst = Fraction(0)
    for instant in range(100):
        used = _in_use([what for start, length, what in uses if start <= instant < start + length])
        worst = max(worst, used)
        exists = published or used > 0
        rest = exists - used
        counted["allocated"] += used
        if rest > 0 and any(start <= instant < end for start, end in unseen):
            counted["unknown"] += rest
        elif rest > 0 and published and any(s <= instant < s + length for s, length in barred):
            counted["unavailable"] += rest
        else:
            counted["idle"] += rest
    assert {name: getattr(sums, name) for name in counted} == counted
    assert (excess is not None) == (worst > 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_adds_up_time_second_by_second(seed: int) -> None:
    history = History(seed)
    told = Oracle(history.events).held(start=at(0), end=at(400))
    mine: dict[Holding, timedelta] = {}
    for one in fold(history.events).intervals:
        start, end = max(one.start, at(0)), min(one.end or at(400), at(400))
        if start < end:
            (holding,) = holdings([one], one.start)
            mine[holding] = mine.get(holding, timedelta(0)) + (end - start)
    assert told == mine
