"""Reading single values that a person typed or a program sent: the same rules and words for both."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from portal import texts
from portal.dra.quantity import InvalidQuantity, Quantity

# Errors that belong to no field alone.
WHOLE = "__all__"


class WrongValue(Exception):
    """One field is wrong; the message is for people."""


class WrongValues(Exception):
    """What was wanted cannot be. `errors` maps field names (or WHOLE) to messages for people; `conflict` =
    somebody else was faster."""

    def __init__(self, errors: Mapping[str, list[str]], *, conflict: bool = False) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(said)}" for name, said in errors.items()))
        self.errors = dict(errors)
        self.conflict = conflict


def read_text(values: Mapping[str, object], name: str, *, limit: int = 0) -> str:
    """A stripped text without control characters; "" when it is not there. `limit` in characters, 0 =
    none."""
    value = values.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise WrongValue(_("This must be a text."))
    try:
        text = texts.plain(str(value))
    except texts.UncleanText as unclean:
        raise WrongValue(unclean.message) from None
    if limit and len(text) > limit:
        raise WrongValue(
            _("At most %(limit)s characters; this has %(length)s.") % {"limit": limit, "length": len(text)}
        )
    return text


def read_integer(values: Mapping[str, object], name: str) -> int | None:
    """A whole number; None when it is not there."""
    if isinstance(typed := values.get(name), float):
        raise WrongValue(_("“%(typed)s” is not a whole number.") % {"typed": str(typed)[:20]})
    text = read_text(values, name)
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise WrongValue(_("“%(typed)s” is not a whole number.") % {"typed": text[:20]})
    # Nine digits are beyond every bound; Python refuses to read thousands of them.
    number = int(digits[:9])
    return -number if text.startswith("-") else number


def read_choice(values: Mapping[str, object], name: str, choices: Sequence[Any]) -> str:
    """One of the choices."""
    value = read_text(values, name)
    if value not in choices:
        raise WrongValue(_("Choose one of: %(choices)s.") % {"choices": ", ".join(map(str, choices))})
    return value


def read_flag(values: Mapping[str, object], name: str) -> bool:
    """A box that is ticked, or a JSON true."""
    value = values.get(name)
    return value is True or str(value).lower() in ("1", "true", "on", "yes")


def read_many(values: Mapping[str, object], name: str) -> list[str]:
    """Several texts: a list, or the values of a field that was sent several times."""
    getlist = getattr(values, "getlist", None)
    found = getlist(name) if getlist is not None else values.get(name)
    if found in (None, ""):
        return []
    if not isinstance(found, list | tuple):
        raise WrongValue(_("This must be a list."))
    return [text for index in range(len(found)) if (text := read_text({name: found[index]}, name))]


def read_quantity(values: Mapping[str, object], name: str) -> str:
    """An amount of memory such as "40Gi", as typed; "" when it is not there."""
    typed = read_text(values, name)
    if not typed:
        return ""
    example = _("Write a number with a unit, such as 40Gi.")
    if len(typed) > 32:
        raise WrongValue(
            _("“%(typed)s…” is not an amount of memory.") % {"typed": typed[:20]} + " " + example
        )
    try:
        wanted = Quantity.parse(typed)
    except InvalidQuantity:
        raise WrongValue(
            _("“%(typed)s” is not an amount of memory.") % {"typed": typed} + " " + example
        ) from None
    if wanted <= Quantity.parse("0"):
        raise WrongValue(_("The memory must be more than nothing; leave the field empty for any."))
    return typed
