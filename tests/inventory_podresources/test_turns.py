"""Whatever comes in whatever order: what is written down is what was seen, and brackets hold the truth."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.podresources.sightings import Key, PodKnown, Sighting
from inventory.podresources.turns import Before, Open, turn

pytestmark = pytest.mark.nodatabase

START = datetime(2026, 3, 1, tzinfo=UTC)
PATIENCE = 6
DEVICES = ("GPU-a", "GPU-b")


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Use:
    """What really happened: a Pod had a device for [start, end)."""

    device: str
    pod: str
    uid: str
    start: int
    end: int


@dataclass(frozen=True)
class Row:
    key: Key
    uid: str
    earliest: datetime | None
    first: datetime
    last: datetime | None = None
    gone: datetime | None = None


@dataclass
class Desk:
    """What the intake keeps, in memory."""

    mirror: Mapping[str, PodKnown] | None = None
    sent: datetime | None = None
    open: dict[Key, Row] = field(default_factory=dict)
    closed: list[Row] = field(default_factory=list)

    def take(
        self,
        seen: Iterable[Sighting],
        moment: datetime,
        pods: Mapping[tuple[str, str], PodKnown],
        same: tuple[datetime, datetime] | None = None,
    ) -> bool:
        if self.sent is not None and moment <= self.sent:
            return False
        before = None
        if self.sent is not None:
            until = max(self.sent, same[1]) if same and same[0] == self.sent else self.sent
            silent = moment - until > timedelta(seconds=PATIENCE)
            before = Before(reported_at=self.sent, same_until=until, silent=silent)
        change = turn(
            open_now={k: Open(uid=row.uid, first_seen_at=row.first) for k, row in self.open.items()},
            seen=seen,
            pods=pods,
            before=before,
            at=moment,
        )
        for key, ended in change.ended.items():
            self.closed.append(replace(self.open.pop(key), last=ended.last_seen_at, gone=ended.gone_at))
        for key, uid in change.named.items():
            self.open[key] = replace(self.open[key], uid=uid)
        for begun in change.begun:
            assert begun.sighting.key not in self.open
            self.open[begun.sighting.key] = Row(begun.sighting.key, begun.uid, begun.earliest_at, moment)
        self.sent = moment
        return True

    def rows(self) -> list[Row]:
        assert self.sent is not None
        return self.closed + [replace(row, last=self.sent) for row in self.open.values()]


def sighting(device: str, pod: str) -> Sighting:
    return Sighting(namespace="team", pod=pod, container="main", resource="nvidia.com/gpu", device_id=device)


def seen_at(uses: Sequence[Use], moment: int) -> list[Sighting]:
    return [sighting(use.device, use.pod) for use in uses if use.start <= moment < use.end]


def mirrored(uses: Sequence[Use], moment: int) -> dict[tuple[str, str], PodKnown]:
    """A mirror that is in step: the latest Pod of each name."""
    known = {}
    for use in sorted(uses, key=lambda use: use.start):
        if use.start <= moment:
            known["team", use.pod] = PodKnown(use.uid, at(use.start))
    return known


@st.composite
def histories(draw: st.DrawFn, *, names_return: bool) -> list[Use]:
    """Pods that had devices, one after another; a name is one Pod at a time."""
    uses: list[Use] = []
    free_from: dict[str, int] = {}
    for number in range(draw(st.integers(1, 6))):
        device = draw(st.sampled_from(DEVICES))
        pod = draw(st.sampled_from(["a-0", "b-0"])) if names_return else f"p-{number}"
        start = max(free_from.get(device, 0), free_from.get(pod, 0)) + draw(st.integers(0, 8))
        end = start + draw(st.integers(1, 12))
        uses.append(Use(device, pod, f"uid-{number}", start, end))
        free_from[device] = free_from[pod] = end
    return uses


def check(rows: Sequence[Row], uses: Sequence[Use]) -> None:
    """Every stretch lies within the truth, and its brackets around it."""
    for row in rows:
        assert row.last is not None
        (use,) = [use for use in uses if use.uid == row.uid]
        assert (use.device, use.pod) == (row.key.device_id, row.key.pod)
        assert at(use.start) <= row.first <= row.last < at(use.end)
        if row.earliest is not None:
            assert row.earliest <= at(use.start)
        if row.gone is not None:
            assert at(use.end) <= row.gone
    for one in rows:
        for other in rows:
            if one is not other and one.key == other.key:
                assert one.last is not None
                assert other.last is not None
                assert one.last <= other.first or other.last <= one.first


MOMENTS = st.lists(st.integers(0, 60), min_size=1, max_size=20)


@settings(deadline=None, max_examples=300)
@given(histories(names_return=True), MOMENTS)
def test_reports_in_any_order_and_any_number_give_what_the_latest_of_them_say(
    uses: list[Use], moments: list[int]
) -> None:
    desk, ordered = Desk(), Desk()
    latest = -1
    for moment in moments:
        taken = desk.take(seen_at(uses, moment), at(moment), mirrored(uses, moment))
        assert taken == (moment > latest)
        if taken:
            ordered.take(seen_at(uses, moment), at(moment), mirrored(uses, moment))
            latest = moment
    assert desk.rows() == ordered.rows()
    check(desk.rows(), uses)


@settings(deadline=None, max_examples=300)
@given(histories(names_return=True), MOMENTS)
def test_every_report_is_found_again_in_the_stretches(uses: list[Use], moments: list[int]) -> None:
    desk = Desk()
    for moment in sorted(set(moments)):
        desk.take(seen_at(uses, moment), at(moment), mirrored(uses, moment))
    for moment in set(moments):
        covering = {row.key for row in desk.rows() if row.last and row.first <= at(moment) <= row.last}
        assert covering >= {found.key for found in seen_at(uses, moment)}


@settings(deadline=None, max_examples=300)
@given(histories(names_return=False), st.lists(st.sampled_from(["sent", "lost", "unanswered"]), max_size=60))
def test_what_a_collector_saw_unchanged_narrows_the_brackets_and_stays_true(
    uses: list[Use], fates: list[str]
) -> None:
    """The collector looks every second, sends what changed, and what it sends may get lost or its answer."""
    desk, sent, same, differed = Desk(), None, None, False
    for moment, fate in enumerate(fates):
        seen = seen_at(uses, moment)
        if sent is not None and sent[1] == seen and not differed:
            same = (sent[0], at(moment))
            continue
        # What was different once is not "the same until now", even if it looks like before again.
        differed = True
        if fate != "lost":
            desk.take(seen, at(moment), mirrored(uses, moment), same)
        if fate == "sent":
            sent, same, differed = (at(moment), seen), (at(moment), at(moment)), False
    if desk.sent is not None:
        check(desk.rows(), uses)


def test_after_a_silence_nothing_is_said_of_the_time_between() -> None:
    desk = Desk()
    pods = {("team", "a-0"): PodKnown("uid-a", at(0)), ("team", "b-0"): PodKnown("uid-b", at(0))}
    desk.take([sighting("GPU-a", "a-0"), sighting("GPU-b", "b-0")], at(1), pods)
    desk.take([sighting("GPU-a", "a-0")], at(1 + PATIENCE + 1), pods)
    rows = {(row.key.device_id, row.first): row for row in desk.rows()}
    assert rows["GPU-a", at(1)].last == at(1)
    assert rows["GPU-a", at(1)].gone is None
    assert rows["GPU-a", at(8)].earliest is None
    # That it was gone by then is sure all the same.
    assert rows["GPU-b", at(1)].gone == at(8)


def test_a_pod_that_the_mirror_learns_of_later_is_named_then() -> None:
    desk = Desk()
    desk.take([sighting("GPU-a", "a-0")], at(5), {})
    assert [row.uid for row in desk.rows()] == [""]
    desk.take([sighting("GPU-a", "a-0")], at(6), {("team", "a-0"): PodKnown("uid-a", at(4))})
    assert [(row.uid, row.first) for row in desk.rows()] == [("uid-a", at(5))]


def test_a_pod_that_was_made_later_is_not_the_one_that_was_seen() -> None:
    desk = Desk()
    desk.take([sighting("GPU-a", "a-0")], at(2), {})
    desk.take([sighting("GPU-a", "a-0")], at(6), {("team", "a-0"): PodKnown("uid-b", at(4))})
    first, second = desk.rows()
    assert (first.uid, first.last, first.gone) == ("", at(2), at(6))
    assert (second.uid, second.earliest, second.first) == ("uid-b", at(2), at(6))


@pytest.mark.parametrize(
    ("told", "known", "uid"),
    [
        ("", PodKnown("uid-a", at(0)), "uid-a"),
        ("uid-a", PodKnown("uid-a", None), "uid-a"),
        ("uid-b", PodKnown("uid-a", at(0)), ""),
        ("uid-a", None, ""),
        ("", PodKnown("uid-a", at(9)), ""),
    ],
)
def test_whose_pod_it_is_only_the_mirror_tells(told: str, known: PodKnown | None, uid: str) -> None:
    one = replace(sighting("GPU-a", "a-0"), pod_uid=told)
    pods = {("team", "a-0"): known} if known else {}
    change = turn(open_now={}, seen=[one], pods=pods, before=None, at=at(5))
    assert [begun.uid for begun in change.begun] == [uid]
