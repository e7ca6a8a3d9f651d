"""Months as money knows them: calendar months in the organisation's time zone, half-open, in UTC.

A month has as many hours as it has there: one less or more where the clocks change.
"""

import re
from datetime import UTC, datetime, time, tzinfo
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _

_WRITTEN = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)
# Nothing was observed before or is planned after; the calendar's own ends cannot be reckoned with.
FIRST_YEAR, LAST_YEAR = 1970, 2999


class NoMonth(ValueError):
    """What was typed is no month; the message is for people."""


class Month(NamedTuple):
    """A calendar month, wherever."""

    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "2026-11"; raises NoMonth."""
        found = _WRITTEN.fullmatch(text.strip())
        if found is None or not FIRST_YEAR <= int(found[1]) <= LAST_YEAR:
            raise NoMonth(_("Write a month such as 2026-11."))
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def of(cls, moment: datetime, zone: tzinfo) -> Self:
        """The month in which a moment is there."""
        there = moment.astimezone(zone)
        return cls(there.year, there.month)

    def __str__(self) -> str:
        return f"{self.year:04}-{self.number:02}"

    def start(self, zone: tzinfo) -> datetime:
        """Its first instant, in UTC."""
        return datetime(self.year, self.number, 1, tzinfo=zone).astimezone(UTC)

    def bounds(self, zone: tzinfo) -> tuple[datetime, datetime]:
        """[start, end) in UTC."""
        return self.start(zone), self.next().start(zone)

    def next(self) -> "Month":
        return Month(self.year + self.number // 12, self.number % 12 + 1)

    def previous(self) -> "Month":
        return Month(self.year - (self.number == 1), (self.number - 2) % 12 + 1)


def zone_named(name: str) -> tzinfo:
    """An IANA time zone; UTC as Python's own, which is the fastest."""
    return UTC if name == "UTC" else ZoneInfo(name)


def months(start: datetime, end: datetime, zone: tzinfo) -> list[Month]:
    """Every month that [start, end) touches, in order."""
    found = []
    month = Month.of(start, zone)
    while month.start(zone) < end:
        found.append(month)
        month = month.next()
    return found


def midnight_of(typed: str, zone: tzinfo) -> datetime | None:
    """When a typed date ("2026-03-01") begins in `zone`, in UTC; None where it is no date that the desk
    keeps."""
    try:
        day = parse_date(typed)
    except ValueError:
        return None
    if day is None or not FIRST_YEAR < day.year <= LAST_YEAR:
        return None
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)
