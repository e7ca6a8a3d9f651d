"""Money without floating point: exact amounts until the last line, then one rounding.

A charge is price x quantity x time. The price is a decimal per device-hour, time is integer microseconds,
a share of a device is a fraction: the product is kept as an exact `Fraction` of a currency unit (stored, if
need be, as the integers of `exact_parts`). Statement lines divide and round once, and lines of one total are
rounded together by the largest remainder, so that they add up to the rounded total.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import lcm

from babel.core import Locale, UnknownLocaleError
from babel.numbers import format_currency, get_currency_symbol, is_currency

MICROSECONDS_PER_HOUR = 3_600_000_000

# ISO 4217 (list one): the currencies whose minor unit is not a hundredth.
_EXPONENTS = {
    **dict.fromkeys(
        (
            "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV",
            "XAF", "XOF", "XPF",
        ),
        0,
    ),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}  # fmt: skip


class InvalidCurrency(ValueError):
    """A currency code that is not three capital letters, or that no currency has."""


def exponent(currency: str) -> int:
    """Decimal places of a currency's minor unit (ISO 4217): 2 for EUR, 0 for JPY, 3 for KWD."""
    if len(currency) != 3 or not (currency.isascii() and currency.isalpha() and currency.isupper()):
        raise InvalidCurrency(f"{currency!r} is not an ISO 4217 code (three capital letters)")
    return _EXPONENTS.get(currency, 2)


def demand_currency(currency: str) -> None:
    """Raises InvalidCurrency for a code that no currency has: EUT for EUR would be a bill of its own."""
    exponent(currency)
    if not is_currency(currency):
        raise InvalidCurrency(f"{currency!r} is no code of ISO 4217")


def cost(*, per_hour: Decimal, microseconds: int, quantity: int | Fraction = 1) -> Fraction:
    """The exact amount, in currency units, of `quantity` devices (or a share of one) for a time.

    Raises ValueError for a negative time or price: a credit is a line of its own, never a negative charge.
    """
    if microseconds < 0 or per_hour < 0 or quantity < 0:
        raise ValueError("A charge has no negative price, quantity or time")
    return Fraction(per_hour) * quantity * microseconds / MICROSECONDS_PER_HOUR


def exact_parts(amount: Fraction) -> tuple[int, int]:
    """Numerator and denominator in lowest terms: how an exact amount is stored."""
    return amount.numerator, amount.denominator


def minor_units(amount: Fraction | Decimal, *, currency: str) -> int:
    """The amount in whole minor units (cents), rounded half to even, once."""
    scale: int = 10 ** exponent(currency)
    return round(Fraction(amount) * scale)


def from_minor_units(units: int, *, currency: str) -> Decimal:
    """Minor units as a Decimal with exactly the currency's places: 1234 of EUR is 12.34."""
    return Decimal(units).scaleb(-exponent(currency))


def rounded(amount: Fraction | Decimal, *, currency: str) -> Decimal:
    """The amount rounded half to even to the currency's minor unit."""
    return from_minor_units(minor_units(amount, currency=currency), currency=currency)


def apportion(total: int, weights: Sequence[int | Fraction]) -> list[int]:
    """Splits an integer total in proportion to the weights by the largest remainder.

    The parts add up to `total`; each is its exact share rounded up or down. Equal remainders go to the
    earlier part, so the result depends on nothing else. Weights must not be negative, nor all zero unless
    total is 0.
    """
    if any(weight < 0 for weight in weights):
        raise ValueError("A weight is negative")
    common = _whole(weights)
    whole = sum(common)
    if whole == 0:
        if total:
            raise ValueError("Nothing to apportion to: all weights are zero")
        return [0] * len(weights)
    shares = [divmod(total * weight, whole) for weight in common]
    parts = [part for part, _left in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (-shares[i][1], i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def _whole(weights: Sequence[int | Fraction]) -> list[int]:
    """The weights as integers, all of them times the same: a hundred times cheaper to reckon with."""
    times = lcm(*(weight.denominator for weight in weights))
    return [weight.numerator * (times // weight.denominator) for weight in weights]


def rounded_lines(amounts: Sequence[Fraction], *, currency: str) -> list[Decimal]:
    """Exact amounts of one statement as rounded lines whose sum is the rounded total."""
    times = lcm(*(amount.denominator for amount in amounts))
    exact = Fraction(sum(a.numerator * (times // a.denominator) for a in amounts), times)
    total = minor_units(exact, currency=currency)
    return [from_minor_units(part, currency=currency) for part in apportion(total, amounts)]


def display(amount: Fraction | Decimal, *, currency: str, language: str) -> str:
    """The rounded amount the way readers of a language (a Django code such as "zh-hans") write it."""
    try:
        locale = Locale.parse(language, sep="-")
    except (ValueError, UnknownLocaleError):
        locale = Locale("en")
    pattern = locale.currency_formats["standard"].pattern
    places = exponent(currency)
    pattern = pattern.replace(".00", f".{'0' * places}" if places else "")
    if get_currency_symbol(currency, locale=locale)[-1:].isalpha() and pattern.startswith("¤#"):
        # "KWD1.000" is hard to read; CLDR sets letters apart.
        pattern = pattern.replace("¤", "¤\N{NO-BREAK SPACE}")
    return format_currency(
        rounded(amount, currency=currency),
        currency,
        locale=locale,
        format=pattern,
        currency_digits=False,
        decimal_quantization=False,
    )
