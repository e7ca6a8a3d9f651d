"""A sentence that is kept as its English message and its values, and said in the language of who reads it.

Text(gettext_noop("“%(request)s” is now %(state)s."), request="demo-1", state=Request.State.ENDED.label)
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone, translation
from django.utils.dateformat import format as date_format
from django.utils.functional import Promise
from django.utils.translation import gettext

# English messages are their own catalogue.
SOURCE_LANGUAGE = "en"
# Under a name that no message is looked for behind: they are marked where they are written.
_translated = gettext


class Text:
    """A message marked with `gettext_noop`, with named placeholders (``%(name)s``; a literal percent sign is
    ``%%``) and their values: str, int, datetime, timedelta, another Text, or a lazy translation such as the
    label of a choice. Raises ValueError where message and values do not fit."""

    __slots__ = ("message", "values")

    def __init__(self, message: str, /, **values: Any) -> None:
        self.message = message
        self.values: dict[str, Any] = {name: _plain(value) for name, value in values.items()}
        try:
            message % dict.fromkeys(self.values, "")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"“{message}” does not go with {sorted(self.values)}") from error

    def __str__(self) -> str:
        """In the active language and time zone."""
        said = {name: _said(value) for name, value in self.values.items()}
        try:
            return _translated(self.message) % said
        except (KeyError, TypeError, ValueError):
            return self.message % said

    def __repr__(self) -> str:
        return f"Text({self.message!r}, {self.values!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.as_json() == other.as_json()

    def __hash__(self) -> int:
        return hash((self.message, tuple(sorted(self.values))))

    def as_json(self) -> dict[str, Any]:
        """What a JSON column keeps; `Text.read` reads it."""
        return {
            "message": self.message,
            "values": {name: _kept(value) for name, value in self.values.items()},
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> "Text":
        return cls(kept["message"], **{name: _read(value) for name, value in kept.get("values", {}).items()})


def as_written(text: str) -> Text:
    """What somebody wrote, which nobody translates."""
    return Text("%(text)s", text=text)


def _plain(value: Any) -> Any:
    if isinstance(value, Promise):
        with translation.override(SOURCE_LANGUAGE):
            return Text(str(value).replace("%", "%%"))
    # A choice of TextChoices is a str of a class of its own.
    return str(value) if isinstance(value, str) else value


def _said(value: Any) -> str:
    if isinstance(value, datetime):
        return date_format(timezone.localtime(value), "Y-m-d H:i")
    if isinstance(value, timedelta):
        from portal.templatetags.ui import human_duration

        return human_duration(value)
    return str(value)


def _kept(value: Any) -> Any:
    if isinstance(value, Text):
        return value.as_json()
    if isinstance(value, datetime):
        return {"at": value.isoformat()}
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    return value if isinstance(value, int) else str(value)


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "at" in value:
        return datetime.fromisoformat(value["at"])
    if "seconds" in value:
        return timedelta(seconds=value["seconds"])
    return Text.read(value)
