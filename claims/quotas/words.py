"""Amounts of quotas as people read and write them."""

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from django.utils.formats import number_format
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from claims.models import Quota
from claims.quotas.standing import Terms
from portal import money
from portal.dra.quantity import InvalidQuantity, Quantity

Kind = Quota.Kind
# Beyond every fleet; keeps the numbers on the page.
MOST_DEVICES = 1_000_000
MOST = Decimal(10) ** 12
MOST_BYTES = 2**60
_GIB = 2**30
_TIB = 2**40


class WrongLimit(ValueError):
    """The limit makes no sense for the kind; the message is for people."""


def terms_of(quota: Quota) -> Terms:
    """What a stored quota limits."""
    return Terms(
        kind=quota.kind,
        limit=exact(quota.limit, kind=quota.kind),
        flavor=quota.flavor_id,
        currency=quota.currency,
        project=quota.project_id,
    )


def exact(text: str, *, kind: str) -> Fraction:
    """A limit as it is stored, in devices, bytes, hours or units of money."""
    return Fraction(Quantity.parse(text).nanos, 10**9) if kind == Kind.MEMORY else Fraction(text)


def read_limit(text: str, *, kind: str, currency: str = "") -> str:
    """The limit in its one form. Raises WrongLimit."""
    if kind == Kind.MEMORY:
        try:
            amount = Quantity.parse(text)
        except InvalidQuantity:
            raise WrongLimit(_("An amount of memory, such as 640Gi.")) from None
        if not 0 <= amount.nanos <= MOST_BYTES * 10**9:
            raise WrongLimit(_("Not less than nothing, and at most 1 EiB."))
        return str(amount)
    try:
        number = Decimal(text) if text.isascii() and len(text) <= 32 else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise WrongLimit(_("A number, such as 8."))
    if number < 0:
        raise WrongLimit(_("Not less than nothing."))
    if kind == Kind.DEVICES:
        if number != number.to_integral_value() or number > MOST_DEVICES:
            raise WrongLimit(_("A whole number of devices, at most %(most)s.") % {"most": MOST_DEVICES})
        return str(int(number))
    places = money.exponent(currency) if kind == Kind.MONEY and currency else 2
    if number > MOST or number != round(number, places):
        raise WrongLimit(_("At most %(places)s decimal places, and at most 10^12.") % {"places": places})
    plain = f"{number:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def amount(value: Fraction | None, *, kind: str, currency: str = "") -> str:
    """An amount with its unit, in the reader's language; None = unknown."""
    if value is None:
        return _("unknown")
    if kind == Kind.MONEY:
        return money.display(value, currency=currency, language=get_language() or "en")
    if kind == Kind.MEMORY and value >= _TIB:
        return _("%(number)s TiB") % {"number": _number(value / _TIB)}
    if kind == Kind.MEMORY:
        return _("%(number)s GiB") % {"number": _number(value / _GIB)}
    if kind == Kind.HOURS:
        return _("%(number)s h") % {"number": _number(value)}
    number = -(-value.numerator // value.denominator)
    return ngettext("%(number)s device", "%(number)s devices", number) % {"number": number_format(number)}


def neutral(value: Fraction | None, *, kind: str, currency: str = "") -> str:
    """An amount in no language, for messages that are said in several; "" = unknown."""
    if value is None:
        return ""
    if kind == Kind.MONEY:
        return f"{money.rounded(value, currency=currency)} {currency}"
    if kind == Kind.MEMORY:
        return f"{_tenth(value / _GIB)}Gi"
    return f"{_tenth(value)} h" if kind == Kind.HOURS else str(_tenth(value))


def plain(value: Fraction | None, *, kind: str) -> str | None:
    """The same for programs: devices, bytes, hours or money as a decimal with up to six places."""
    if value is None:
        return None
    if kind == Kind.MEMORY:
        return str(round(value))
    text = f"{Decimal(round(value * 10**6)).scaleb(-6):f}"
    return text.rstrip("0").rstrip(".")


def _number(value: Fraction) -> str:
    return number_format(_tenth(value))


def _tenth(value: Fraction) -> int | Decimal:
    """Rounded to one place, which a whole number has not."""
    tenth = Decimal(round(value * 10)) / 10
    return int(tenth) if tenth == tenth.to_integral_value() else tenth
