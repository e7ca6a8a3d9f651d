"""The strings extension, version 2: what Kubernetes has of it. All positions count code points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portal.dra.cel.errors import CelEvaluationError, CostExceeded
from portal.dra.cel.library.formatting import format_text, quote
from portal.dra.cel.library.registry import declare, list_traversal, result_size, traversal

_MAX_TEXT: Final = 10_000_000
_TWICE: Final = traversal(2.0)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelEvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if part == "":
        if start < 0 or start > len(text):
            raise CelEvaluationError(f"index out of range: {start}")
        return start
    if start < 0 or (start > len(text) - 1 and start != 0):
        raise CelEvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return len(text) if part == "" else text.rfind(part)
    if end < 0 or end > len(text) or (part and end > len(text) - 1):
        raise CelEvaluationError(f"index out of range: {end}")
    if part == "":
        return end
    return text.rfind(part, 0, end + len(part))


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        if text.isascii():
            return change(text)
        return "".join(change(character) if character.isascii() else character for character in text)

    return run


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """As Go does it: an empty search string matches before each character and at the end."""
    if limit == 0 or old == new:
        return text
    count = len(text) + 1 if old == "" else text.count(old)
    if limit > 0:
        count = min(count, limit)
    if len(text) + count * (len(new) - len(old)) > _MAX_TEXT:
        raise CostExceeded
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator == "":
        if 0 < limit < len(text):
            return [*text[: limit - 1], text[limit - 1 :]]
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise CelEvaluationError(f"index out of range: {start}")
        return text[start:]
    if start > end:
        raise CelEvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise CelEvaluationError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise CelEvaluationError(f"index out of range: {end}")
    return text[start:end]


# Unicode's White_Space, as Go's unicode.IsSpace has it (Python's own strip() also takes U+001C…U+001F).
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def _join(items: Any, separator: str = "") -> str:
    if not all(type(item) is str for item in items):
        raise CelEvaluationError("no such overload")
    if sum(map(len, items)) + len(items) * len(separator) > _MAX_TEXT:
        raise CostExceeded
    return separator.join(items)


declare("string::charAt(int) -> string", _char_at)
declare("string::indexOf(string) -> int", _index_of, list_traversal)
declare("string::indexOf(string, int) -> int", _index_of, list_traversal)
declare("string::lastIndexOf(string) -> int", _last_index_of, list_traversal)
declare("string::lastIndexOf(string, int) -> int", _last_index_of, list_traversal)
declare("string::lowerAscii() -> string", _ascii(str.lower), traversal())
declare("string::upperAscii() -> string", _ascii(str.upper), traversal())
declare("string::replace(string, string) -> string", _replace, _TWICE)
declare("string::replace(string, string, int) -> string", _replace, _TWICE)
declare("string::split(string) -> list<string>", _split, _TWICE)
declare("string::split(string, int) -> list<string>", _split, _TWICE)
declare("string::substring(int) -> string", _substring, traversal())
declare("string::substring(int, int) -> string", _substring, traversal())
declare("string::trim() -> string", lambda text: text.strip(_SPACE), traversal())
declare("list<string>::join() -> string", _join, result_size(0.2))
declare("list<string>::join(string) -> string", _join, result_size(0.2))
declare("strings.quote(string) -> string", quote, traversal())
declare("string::format(list<dyn>) -> string", format_text, traversal())
