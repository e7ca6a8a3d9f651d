"""find() and findAll(): regular expressions in RE2's syntax."""

from __future__ import annotations

from portal.dra.cel.library.registry import declare, regex_cost
from portal.dra.cel.library.standard import PATTERNS


def _find(text: str, pattern: str) -> str:
    match = PATTERNS.get(pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """As Go: no empty match right behind another match."""
    expression = PATTERNS.get(pattern)
    found: list[str] = []
    at, last_end = 0, -1
    while at <= len(text) and (limit < 0 or len(found) < limit):
        match = expression.search(text, at)
        if match is None:
            break
        start, end = match.span()
        if end > at or start != last_end:
            found.append(match[0])
        at = end if end > at else at + 1
        last_end = end
    return found


declare("string::find(string) -> string", _find, regex_cost)
declare("string::findAll(string) -> list<string>", _find_all, regex_cost)
declare("string::findAll(string, int) -> list<string>", _find_all, regex_cost)
