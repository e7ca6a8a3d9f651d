"""Texts that people type and programs send, brought into one form: what looks the same is the same.

Unicode in its composed form (NFC), lines ended as Unix does, nothing around it; never control characters,
halves of characters, or signs that turn the direction of what follows (with which one name can look like
another). Names besides have something that can be seen.
"""

import re
import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

# Embeddings, overrides and isolates of writing direction.
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Within words of Persian and of Indic scripts, and between parts of one emoji.
JOINERS = frozenset("\u200c\u200d")
BLANK = ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn", "Me")
# Letters to Unicode, blank to the eye.
FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


class UncleanText(ValueError):
    """What is wrong with a text, for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def plain(text: str) -> str:
    """The text in its one form. Raises UncleanText."""
    for character in text:
        category = unicodedata.category(character)
        if category == "Cs":
            raise UncleanText(_("This contains half a character."))
        if (category == "Cc" and character not in "\n\r\t") or character in TURNING:
            raise UncleanText(_("This contains a control character."))
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def name(text: str) -> str:
    """A name in its one form: one line, single spaces, and something to be seen. Raises UncleanText."""
    found = re.sub(r"\s+", " ", plain(text))
    if any(unicodedata.category(c) == "Cf" and c not in JOINERS for c in found):
        raise UncleanText(_("This contains invisible characters."))
    if found and not any(unicodedata.category(c) not in BLANK and c not in FILLERS for c in found):
        raise UncleanText(_("This has no visible character."))
    return found


def searched(text: str, *, limit: int) -> str:
    """What is looked for: what could be in no text that we keep is left out instead of refused."""
    kept = "".join(c for c in text[: 4 * limit] if unicodedata.category(c) not in ("Cc", "Cs") or c == "\t")
    return unicodedata.normalize("NFC", kept).strip()[:limit]


def validate(text: object) -> None:
    """A validator of every text field of every form: see `portal.apps`."""
    if isinstance(text, str):
        try:
            plain(text)
        except UncleanText as unclean:
            raise ValidationError(unclean.message, code="unclean") from None
