"""Bookings as iCalendar (RFC 5545), for calendars that fetch an address."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from django.utils.translation import gettext as _

from claims.models import Booking

CONTENT_TYPE = "text/calendar; charset=utf-8"
_STATUS = {
    Booking.State.WAITING_FOR_APPROVAL: "TENTATIVE",
    Booking.State.BOOKED: "CONFIRMED",
    Booking.State.STARTED: "CONFIRMED",
    Booking.State.MISSED: "CANCELLED",
    Booking.State.CANCELLED: "CANCELLED",
    Booking.State.REFUSED: "CANCELLED",
}
# RFC 5545, 3.1: lines of at most 75 octets, continued by a space.
_OCTETS = 75


def calendar(bookings: Iterable[Booking], *, host: str) -> str:
    """The bookings as one calendar; `host` makes their identifiers unique in the world."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Claimdesk//Bookings//EN", "CALSCALE:GREGORIAN"]
    for booking in bookings:
        lines += [
            "BEGIN:VEVENT",
            f"UID:{booking.key}@{host}",
            f"DTSTAMP:{_utc(booking.changed_at)}",
            f"DTSTART:{_utc(booking.starts_at)}",
            f"DTEND:{_utc(booking.ends_at)}",
            f"SUMMARY:{_text(str(booking))}",
            f"DESCRIPTION:{_text(_description(booking))}",
            f"LOCATION:{_text(booking.cluster.name)}",
            f"STATUS:{_STATUS[Booking.State(booking.state)]}",
            "END:VEVENT",
        ]
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _description(booking: Booking) -> str:
    state = Booking.State(booking.state).label
    planned = _("A plan: the device is held from the start on if one is free then.")
    return f"{booking.project.name}: {booking.purpose}\n{state}. {planned}"


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(value: str) -> str:
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\r", ""), ("\n", "\\n")):
        value = value.replace(plain, escaped)
    return value


def _folded(line: str) -> Iterator[str]:
    """The line in pieces that fit, never within a character."""
    piece, size = "", 0
    for character in line:
        octets = len(character.encode())
        if size + octets > _OCTETS:
            yield piece
            piece, size = " ", 1
        piece += character
        size += octets
    yield piece
