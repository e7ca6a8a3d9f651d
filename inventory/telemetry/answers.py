"""What the HTTP API of Prometheus answers, read strictly: a sample that is no number is no sample."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from inventory.telemetry import problems

# A label of a metric; longer ones are cut, they are shown only.
LABEL = 253
# What answers are made of, at most: 32 MiB of brackets would be a gigabyte of objects.
MOST_SERIES = 200_000
SERIES_BYTES = 64 * 1024


_NOTHING = msgspec.Raw(b"null")


class _Series(msgspec.Struct):
    """One by one they are decoded further, so that what they are made of is there once, not for all."""

    metric: msgspec.Raw = _NOTHING
    value: tuple[float, str] | None = None
    values: msgspec.Raw = _NOTHING


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = _NOTHING


class _Answer(msgspec.Struct, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_SERIES = msgspec.json.Decoder(list[_Series])
_METRIC = msgspec.json.Decoder(dict[str, str] | None)
_VALUES = msgspec.json.Decoder(list[tuple[float, str]] | None)
_SCALAR = msgspec.json.Decoder(tuple[float, str])
# What Prometheus says where the query took too much of it, and not where it is wrong.
HEAVY = frozenset({"timeout", "canceled", "execution", "internal", "unavailable"})


@dataclass(frozen=True)
class Sample:
    """One number, and what it is about."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Series:
    """Numbers at times (seconds since 1970), ascending."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Instant:
    """The answer to an instant query; `nan` samples were no numbers and are left out."""

    samples: Sequence[Sample]
    nan: int = 0
    # Of all, also of those that are no numbers.
    labels: Sequence[Mapping[str, str]] = ()


def instant(body: bytes) -> Instant:
    """Of /api/v1/query. Raises UnableToAsk."""
    data = _data(body)
    if data.result_type == "scalar":
        value = _number(_decoded(_SCALAR, data.result)[1])
        return Instant([Sample({}, value)]) if value is not None else Instant([], 1)
    if data.result_type != "vector":
        raise problems.unreadable(f"resultType {data.result_type[:40]!r}")
    found, labels, nan = [], [], 0
    for series in _all_series(data.result):
        labels.append(_labels(series.metric))
        if series.value is None:
            raise problems.unreadable("a sample without a value")
        if (value := _number(series.value[1])) is None:
            nan += 1
        else:
            found.append(Sample(labels[-1], value))
    return Instant(found, nan, labels)


def over_time(body: bytes) -> Iterator[Series]:
    """Of /api/v1/query_range. Raises UnableToAsk at the first step, or while it goes on."""
    data = _data(body)
    if data.result_type != "matrix":
        raise problems.unreadable(f"resultType {data.result_type[:40]!r}")
    for series in _all_series(data.result):
        points = []
        for at, text in _part(_VALUES, series.values) or ():
            if (value := _number(text)) is not None and math.isfinite(at):
                points.append((at, value))
        yield Series(_labels(series.metric), points)


def refused(body: bytes) -> problems.UnableToAsk:
    """What a 400, 422 or 503 of Prometheus itself says."""
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return problems.rejected(body[: problems.SAID].decode(errors="replace"))
    told = f"{answer.error_type}: {answer.error}"
    return problems.too_heavy(told) if answer.error_type in HEAVY else problems.rejected(told)


def _data(body: bytes) -> _Data:
    answer: _Answer = _decoded(_ANSWER, body)
    if answer.status == "error":
        raise refused(body)
    if answer.status != "success" or answer.data is None:
        raise problems.unreadable(f"status {answer.status[:40]!r}")
    return answer.data


def _all_series(result: msgspec.Raw) -> list[_Series]:
    # A series is a brace, and one more for its labels.
    if bytes(result).count(b"{") > 2 * MOST_SERIES:
        raise problems.too_many_series(MOST_SERIES)
    found: list[_Series] = _decoded(_SERIES, result)
    return found


def _part(decoder: "msgspec.json.Decoder[Any]", raw: msgspec.Raw) -> Any:
    if len(bytes(raw)) > SERIES_BYTES:
        raise problems.unreadable(f"a series of more than {SERIES_BYTES} bytes")
    return _decoded(decoder, raw)


def _decoded(decoder: "msgspec.json.Decoder[Any]", raw: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(bytes(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise problems.unreadable(str(error)) from None


def _number(text: str) -> float | None:
    """None for NaN, infinities, and what is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _labels(metric: msgspec.Raw) -> Mapping[str, str]:
    found: Mapping[str, str] = _part(_METRIC, metric) or {}
    # No text of a database has a NUL.
    return {name[:LABEL].replace("\0", ""): text[:LABEL].replace("\0", "") for name, text in found.items()}
