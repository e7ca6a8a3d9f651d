"""How many devices fit at a time: spans are half-open, and devices that several flavors share count once."""

from datetime import UTC, datetime, timedelta
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from claims.bookings.room import (
    Fleet,
    Group,
    Hold,
    Use,
    first_fit,
    room,
    room_at,
    shortage,
    spare,
    steps,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ONLY = frozenset({0})


def at(hours: float) -> datetime:
    return NOON + hours * HOUR


def use(count: int, start: float, end: float, *, target: int = 0, booked: bool = True) -> Use:
    return Use(target=target, count=count, start=at(start), end=at(end), booked=booked)


def test_a_span_begins_at_its_start_and_is_over_at_its_end() -> None:
    fleet = Fleet(usable={ONLY: 4}, uses=[use(3, 1, 2)])

    assert room_at(fleet, target=0, at=at(1) - timedelta(microseconds=1)) == 4
    assert room_at(fleet, target=0, at=at(1)) == 1
    assert room_at(fleet, target=0, at=at(2) - timedelta(microseconds=1)) == 1
    assert room_at(fleet, target=0, at=at(2)) == 4


def test_bookings_that_touch_do_not_overlap() -> None:
    fleet = Fleet(usable={ONLY: 2}, uses=[use(2, 0, 1), use(2, 2, 3)])

    assert room(fleet, target=0, start=at(1), end=at(2)) == 2
    assert room(fleet, target=0, start=at(1), end=at(2) + timedelta(microseconds=1)) == 0


def test_what_is_held_counts_until_it_is_released() -> None:
    fleet = Fleet(usable={ONLY: 2}, holds=[Hold(group=ONLY, count=1, until=at(3))])

    assert [(step.start, step.end, step.room) for step in steps(fleet, target=0, start=at(0), end=at(5))] == [
        (at(0), at(3), 1),
        (at(3), at(5), 2),
    ]


def test_the_same_devices_are_not_booked_as_two_flavors() -> None:
    either: Group = frozenset({0, 1})
    fleet = Fleet(usable={either: 2, frozenset({1}): 1}, uses=[use(2, 0, 1, target=1)])

    # The other flavor takes its own device first, and one of the two that both are made of.
    assert room(fleet, target=0, start=at(0), end=at(1)) == 1
    assert room(fleet, target=1, start=at(0), end=at(1)) == 1


def test_more_planned_than_there_is_leaves_nothing_and_never_less() -> None:
    fleet = Fleet(usable={ONLY: 1}, uses=[use(3, 0, 1)])

    assert room(fleet, target=0, start=at(0), end=at(1)) == 0


def test_the_first_fit_is_where_it_stays_free_for_long_enough() -> None:
    fleet = Fleet(usable={ONLY: 2}, uses=[use(2, 1, 2), use(1, 3, 8)])

    fit = first_fit(fleet, target=0, count=2, duration=2 * HOUR, start=at(0), until=at(24))
    assert fit == at(8)
    fit = first_fit(fleet, target=0, count=1, duration=3 * HOUR, start=at(0), until=at(24))
    assert fit == at(2)
    assert first_fit(fleet, target=0, count=3, duration=HOUR, start=at(0), until=at(24)) is None
    assert first_fit(fleet, target=0, count=2, duration=2 * HOUR, start=at(0), until=at(8)) is None


def test_a_shortage_is_only_what_the_bookings_cause() -> None:
    fleet = Fleet(usable={ONLY: 2}, uses=[use(2, 5, 6), use(2, 1, 2, booked=False)])

    assert shortage(fleet, target=0, count=1, start=at(0), end=at(5)) is None
    assert shortage(fleet, target=0, count=1, start=at(0), end=at(6)) == (at(5), 1)


@given(
    devices=st.dictionaries(
        st.frozensets(st.integers(0, 3), min_size=1), st.integers(0, 6), min_size=1, max_size=6
    ),
    demand=st.dictionaries(st.integers(0, 3), st.integers(0, 5)),
)
def test_what_is_left_is_what_halls_condition_leaves(
    devices: dict[Group, int], demand: dict[int, int]
) -> None:
    def surplus(targets: frozenset[int]) -> int:
        reach = sum(count for group, count in devices.items() if group & targets)
        return reach - sum(demand.get(target, 0) for target in targets)

    sets = [frozenset(found) for size in range(1, 5) for found in combinations(range(4), size)]
    if any(surplus(found) < 0 for found in sets):
        # Too much is planned already; the others' devices must not be given away all the same.
        left = spare(devices, demand, target=0)
        assert 0 <= left <= sum(count for group, count in devices.items() if 0 in group)
        return
    assert spare(devices, demand, target=0) == min(surplus(found) for found in sets if 0 in found)
