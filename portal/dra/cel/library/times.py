"""Durations and timestamps: Go's duration syntax, RFC 3339, and the calendar."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from portal.dra.cel.errors import CelEvaluationError
from portal.dra.cel.library.registry import declare
from portal.dra.cel.values import MAX_INT, NANOS, Duration, Timestamp

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
}
_PART: Final = re.compile(
    r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>ns|us|µs|μs|ms|s|m|h)", re.ASCII
)
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse_duration(text: str) -> Duration:
    """Go's syntax: "1h30m", "-1.5s", "100ms", "0"."""
    wrong = CelEvaluationError(f'time: invalid duration "{text}"')
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") and text else text
    if rest == "0":
        return Duration(0)
    nanos, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match["whole"] or match["fraction"]) or len(match[0]) > 64:
            raise wrong
        fraction = match["fraction"] or ""
        unit = _UNITS[match["unit"]]
        nanos += int(match["whole"] or 0) * unit + (int(fraction or 0) * unit) // 10 ** len(fraction)
        at = match.end()
    if not rest or nanos > MAX_INT + (1 if sign < 0 else 0):
        raise wrong
    return Duration(sign * nanos)


def parse_timestamp(text: str) -> Timestamp:
    """RFC 3339 with capital T and Z."""
    wrong = CelEvaluationError(
        f'parsing time "{text}" as RFC 3339: it does not look like 2006-01-02T15:04:05Z'
    )
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise wrong
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    offset_hours, offset_minutes = int(match[9] or 0), int(match[10] or 0)
    if offset_hours > 24 or offset_minutes > 59:
        raise wrong
    try:
        # Year zero is a date in Go, though no timestamp in CEL.
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        raise wrong from None
    offset = (offset_hours * 60 + offset_minutes) * 60 * (-1 if match[8] == "-" else 1)
    seconds = (moment - _EPOCH) // datetime.timedelta(seconds=1) - offset
    fraction = (match[7] or "")[:9].ljust(9, "0")
    return Timestamp(seconds * NANOS + int(fraction))


def seconds_text(nanos: int) -> str:
    """A duration as seconds, "1.5s"."""
    whole = abs(nanos) // NANOS
    seconds = whole + (abs(nanos) % NANOS) / 1e9
    text = format(Decimal(repr(float(seconds))), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{'-' if nanos < 0 else ''}{text}s"


def timestamp_text(nanos: int) -> str:
    """RFC 3339 in UTC with as many digits as needed."""
    seconds, rest = divmod(nanos, NANOS)
    moment = _EPOCH + datetime.timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def _zone(name: str) -> datetime.tzinfo:
    if name in ("", "UTC"):
        return datetime.UTC
    match = _OFFSET.fullmatch(name)
    if match:
        minutes = int(match[2]) * 60 + int(match[3])
        if minutes >= 24 * 60:
            raise CelEvaluationError(f"unknown time zone {name}")
        return datetime.timezone(datetime.timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelEvaluationError(f"unknown time zone {name}") from None


Field = Callable[[datetime.datetime], int]


def _getter(field: Field) -> Callable[..., int]:
    def get(moment: Timestamp, zone: str = "UTC") -> int:
        try:
            local = (_EPOCH + datetime.timedelta(seconds=moment.nanos // NANOS)).astimezone(_zone(zone))
        except OverflowError:
            raise CelEvaluationError("timestamp overflow") from None
        return field(local)

    return get


_FIELDS: Final[dict[str, Field]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
for _name, _field in _FIELDS.items():
    declare(f"timestamp::{_name}() -> int", _getter(_field))
    declare(f"timestamp::{_name}(string) -> int", _getter(_field))


def _milliseconds(moment: Timestamp, zone: str = "UTC") -> int:
    _zone(zone)
    return moment.nanos % NANOS // 10**6


declare("timestamp::getMilliseconds() -> int", _milliseconds)
declare("timestamp::getMilliseconds(string) -> int", _milliseconds)


def _whole(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


declare("duration::getHours() -> int", lambda d: _whole(d.nanos, 3600 * NANOS))
declare("duration::getMinutes() -> int", lambda d: _whole(d.nanos, 60 * NANOS))
declare("duration::getSeconds() -> int", lambda d: _whole(d.nanos, NANOS))
declare("duration::getMilliseconds() -> int", lambda d: _whole(d.nanos, 10**6))
