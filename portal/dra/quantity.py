"""Kubernetes quantities ("40Gi", "1500m", "1e3"): exact values with the API's rounding and canonical output.

A quantity is a whole number of nano units; anything finer is rounded away from zero when it is parsed, since
"if you want some resources, you should get some". Besides its value a quantity remembers two things:

- its *format* (decimal SI, binary SI or decimal exponent), which decides how it is written, and
- its *scale*: the power of ten in which it was written. The API calls a quantity an integer only if it was
  written without a fraction, so ``1000m`` is equal to ``1`` but is "not an integer".
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Final

_NANO_SCALE: Final = -9
_NANO: Final = 10**9
_MAX_INT64: Final = 2**63 - 1
_MIN_INT64: Final = -(2**63)
_MAX_FAST_DIGITS: Final = 18
# Upstream takes any 32-bit exponent and can be kept busy by one; nobody measures anything in 1e1000.
_MAX_EXPONENT: Final = 1000
_MAX_LENGTH: Final = 4096


class Format(enum.Enum):
    """How a quantity is written."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}

_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]*)(?:(?P<point>\.)(?P<fraction>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)",
    re.ASCII,
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)


class InvalidQuantity(ValueError):
    """The text is not a quantity; the message says why in the API's words."""


_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"


def _read_suffix(suffix: str) -> tuple[int, int, Format]:
    """Base, exponent and format that a suffix stands for."""
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise InvalidQuantity(_WRONG_SUFFIX)
    exponent = int(match[1]) if len(match[1]) < 12 else _MAX_EXPONENT + 1
    if not -(2**31) <= exponent < 2**31 or exponent > _MAX_EXPONENT:
        raise InvalidQuantity(_WRONG_SUFFIX)
    return 10, exponent, Format.DECIMAL_EXPONENT


def _scale_up(value: int, by: int) -> int | None:
    """``value * 10**by`` if that fits a signed 64-bit integer."""
    if value == 0 or by == 0:
        return value
    if by > _MAX_FAST_DIGITS + 1:
        return None
    scaled: int = value * 10**by
    return scaled if _MIN_INT64 <= scaled <= _MAX_INT64 else None


@functools.total_ordering
class Quantity:
    """An exact, immutable amount; compared and hashed by value alone (``1000m == 1``, ``1Ki == 1024``)."""

    __slots__ = ("_scale", "format", "nanos")

    nanos: int
    """The value in units of 1e-9."""
    format: Format
    _scale: int | None
    """Power of ten of the mantissa as written; None where upstream falls back to arbitrary precision."""

    def __init__(self, nanos: int, format: Format = Format.DECIMAL_SI, *, scale: int | None = None) -> None:  # noqa: A002 (the API's own word)
        self.nanos = nanos
        self.format = format
        self._scale = scale

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read any form that the API accepts; raise InvalidQuantity otherwise.

        As upstream, digits may be missing where a suffix follows: ``"Mi"`` is zero.
        """
        if not text or len(text) > _MAX_LENGTH:
            raise InvalidQuantity(_WRONG_FORMAT)
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise InvalidQuantity(_WRONG_FORMAT)
        fraction = match["fraction"] or ""
        # Leading zeros do not count as digits of precision, and a number without digits is zero.
        number = match["number"].lstrip("0") or "0"
        base, exponent, form = _read_suffix(match["suffix"])
        digits = len(number) + len(fraction)
        sign = -1 if match["sign"] == "-" else 1
        mantissa = int(number + fraction)
        if base == 10:
            scale = exponent - len(fraction)
            if digits <= _MAX_FAST_DIGITS and scale >= _NANO_SCALE:
                return cls(sign * mantissa * 10 ** (scale - _NANO_SCALE), form, scale=scale)
        elif not fraction and 15 - digits - int(exponent * 3 / 10) - 1 >= 0:
            return cls(sign * (mantissa << exponent) * _NANO, form, scale=0)
        if not match["number"] and not fraction:
            raise InvalidQuantity(_WRONG_NUMBER)
        return cls._parse_long(
            sign=sign, mantissa=mantissa, places=len(fraction), base=base, exponent=exponent, form=form
        )

    @classmethod
    def _parse_long(
        cls, *, sign: int, mantissa: int, places: int, base: int, exponent: int, form: Format
    ) -> Quantity:
        """The way of amounts that do not fit 64 bits, or have a fraction that may need rounding."""
        if base == 10:
            shift = exponent - places - _NANO_SCALE
        else:
            mantissa <<= exponent
            shift = -places - _NANO_SCALE
        if shift >= 0:
            nanos = mantissa * 10**shift
        elif -shift > _MAX_LENGTH:
            nanos = 1 if mantissa else 0
        else:
            nanos = -(-mantissa // 10**-shift)
        if form is Format.BINARY_SI:
            nanos = min(nanos, _MAX_INT64 * _NANO)
            if 0 < nanos < _NANO:
                form = Format.DECIMAL_SI
        return cls(sign * nanos, form, scale=None)

    @classmethod
    def from_int(cls, value: int) -> Quantity:
        """A whole number, in decimal format."""
        return cls(value * _NANO, Format.DECIMAL_SI, scale=0)

    # --- what it is -----------------------------------------------------------------------------------------

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nanos > 0) - (self.nanos < 0)

    def is_integer(self) -> bool:
        """Whether the API would hand it out as a 64-bit integer. See the module's note on scale."""
        return self._int64() is not None

    def as_int(self) -> int:
        """The 64-bit integer that it is; ValueError if `is_integer` says no."""
        value = self._int64()
        if value is None:
            raise ValueError("cannot convert value to integer")
        return value

    def whole(self) -> int:
        """Rounded up to a whole number, of any size."""
        return -(-self.nanos // _NANO)

    def _int64(self) -> int | None:
        if self._scale is None or self._scale < 0:
            return None
        value = self.nanos // _NANO
        return value if _MIN_INT64 <= value <= _MAX_INT64 else None

    def as_float(self) -> float:
        """Mantissa times a power of ten, as upstream computes it; infinite when too large."""
        scale = _NANO_SCALE if self._scale is None else self._scale
        if scale == 0:
            return float(self.nanos // _NANO)
        mantissa = self.nanos // 10 ** (scale - _NANO_SCALE)
        try:
            return float(mantissa) * 10.0**scale
        except OverflowError:
            return float("inf") if mantissa > 0 else float("-inf")

    @property
    def identity(self) -> tuple[int, Format, int | None]:
        """A key that tells apart even equal quantities that answer differently (`1000m` and `1`)."""
        return self.nanos, self.format, self._scale

    # --- arithmetic -----------------------------------------------------------------------------------------

    def __add__(self, other: Quantity) -> Quantity:
        return self._plus(other, other.nanos)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._plus(other, -other.nanos)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format, scale=self._scale)

    def _plus(self, other: Quantity, nanos: int) -> Quantity:
        """Zero takes over the other's format, as in the API; the finer of both scales remains."""
        form = other.format if self.nanos == 0 else self.format
        return Quantity(self.nanos + nanos, form, scale=self._common_scale(other, nanos))

    def _common_scale(self, other: Quantity, nanos: int) -> int | None:
        if self._scale is None or other._scale is None:
            return None
        if nanos == 0:
            return self._scale
        if self.nanos == 0:
            return other._scale
        scale = min(self._scale, other._scale)
        unit = 10 ** (scale - _NANO_SCALE)
        fits = all(
            _MIN_INT64 <= amount // unit <= _MAX_INT64 for amount in (self.nanos, nanos, self.nanos + nanos)
        )
        return scale if fits else None

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1, by value."""
        return (self.nanos > other.nanos) - (self.nanos < other.nanos)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash((Quantity, self.nanos))

    # --- how it is written ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The API's canonical form: no fraction, the largest suffix that loses nothing."""
        if self.nanos == 0:
            return "0"
        if self.format is Format.BINARY_SI:
            whole, rest = divmod(self.nanos, _NANO)
            if rest == 0 and not -1024 < whole < 1024:
                return _with_binary_suffix(whole)
            return _with_decimal_suffix(self.nanos, Format.DECIMAL_SI)
        return _with_decimal_suffix(self.nanos, self.format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def _with_binary_suffix(whole: int) -> str:
    exponent = 0
    while whole % 1024 == 0 and exponent < 60:
        whole //= 1024
        exponent += 10
    return f"{whole}{_BINARY_BY_EXPONENT.get(exponent, '')}"


def _with_decimal_suffix(nanos: int, form: Format) -> str:
    exponent = _NANO_SCALE
    while nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    if form is Format.DECIMAL_SI and exponent in _DECIMAL_BY_EXPONENT:
        return f"{nanos}{_DECIMAL_BY_EXPONENT[exponent]}"
    return f"{nanos}e{exponent}" if exponent else str(nanos)


def is_quantity(text: str) -> bool:
    """Whether `Quantity.parse` accepts the text."""
    try:
        Quantity.parse(text)
    except InvalidQuantity:
        return False
    return True
