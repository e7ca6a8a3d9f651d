"""An hour of use, five minutes by five minutes, in 60 bytes; and the use within any span of time.

A sample at t speaks for the minute that ends at t, so the slot that begins at s holds samples of
(s, s + 5 min]. A slot is part of a span only where it lies in it entirely: the one in which a hold began has
also measured who was there before.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

STEP = timedelta(minutes=1)
SLOT = timedelta(minutes=5)
HOUR = timedelta(hours=1)
PER_HOUR = HOUR // SLOT
MINUTES_PER_SLOT = SLOT // STEP
# How many minutes were measured (0 = none), their mean and the highest, in hundredths of a percent.
_SLOT = struct.Struct("<BHH")
_FINE = 100


@dataclass(frozen=True)
class Slot:
    """What was measured in five minutes: at least one minute of them."""

    minutes: int
    mean: float
    highest: float


@dataclass(frozen=True)
class Use:
    """How busy a device was, as far as it was measured. `mean` and `highest` in percent."""

    measured: timedelta
    mean: float
    highest: float


def floor(at: datetime, unit: timedelta) -> datetime:
    """The latest multiple of `unit` (which divides a day) that is not after `at`."""
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return start + (at - start) // unit * unit


def slot_of(values: Iterable[float]) -> Slot | None:
    """Of the values of its minutes, in percent; None where there are none."""
    found = list(values)
    if not found:
        return None
    return Slot(min(len(found), MINUTES_PER_SLOT), sum(found) / len(found), max(found))


def packed(slots: Mapping[int, Slot]) -> bytes:
    """By their places in the hour, 0 to 11."""
    return b"".join(
        _SLOT.pack(slot.minutes, round(slot.mean * _FINE), round(slot.highest * _FINE))
        if (slot := slots.get(place))
        else _SLOT.pack(0, 0, 0)
        for place in range(PER_HOUR)
    )


def unpacked(raw: bytes | memoryview) -> dict[int, Slot]:
    """What `packed` made."""
    found = {}
    for place, (minutes, mean, highest) in enumerate(_SLOT.iter_unpack(bytes(raw))):
        if minutes:
            found[place] = Slot(minutes, mean / _FINE, highest / _FINE)
    return found


def within(
    hours: Iterable[tuple[datetime, bytes | memoryview]], *, start: datetime, end: datetime
) -> Iterator[tuple[datetime, Slot]]:
    """Slots that lie in [start, end), with their beginnings; in the order of `hours`."""
    for hour, raw in hours:
        for place, slot in unpacked(raw).items():
            begins = hour + place * SLOT
            if begins >= start and begins + SLOT <= end:
                yield begins, slot


def summed(slots: Iterable[Slot]) -> Use | None:
    """None where nothing was measured."""
    minutes, total, highest = 0, 0.0, 0.0
    for slot in slots:
        minutes += slot.minutes
        total += slot.minutes * slot.mean
        highest = max(highest, slot.highest)
    return Use(minutes * STEP, total / minutes, highest) if minutes else None
