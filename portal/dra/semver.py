"""Semantic versions as the DRA API reads them: strict 2.0.0, and relaxed as CEL's ``semver(x, true)``.

Order is SemVer's precedence: build metadata counts for nothing, neither in comparison nor in equality.
"""

from __future__ import annotations

import functools
import re
from typing import Final

_MAX_UINT64: Final = 2**64 - 1
_MAX_LENGTH: Final = 10_240
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+", re.ASCII)

PreRelease = tuple[int | str, ...]


class InvalidVersion(ValueError):
    """The text is not a semantic version; the message says what is wrong with it."""


def _number(text: str, what: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise InvalidVersion(f"Invalid character(s) found in {what} number {_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise InvalidVersion(f"{what} number must not contain leading zeroes {_quote(text)}")
    if len(text) > 20 or int(text) > _MAX_UINT64:
        raise InvalidVersion(f"{what} number is out of range {_quote(text)}")
    return int(text)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _pre_release_part(text: str) -> int | str:
    if not text:
        raise InvalidVersion("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        return _number(text, "Numeric PreRelease version")
    if not _IDENTIFIER.fullmatch(text):
        raise InvalidVersion(f"Invalid character(s) found in prerelease {_quote(text)}")
    return text


def _build_part(text: str) -> str:
    if not text:
        raise InvalidVersion("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise InvalidVersion(f"Invalid character(s) found in build meta data {_quote(text)}")
    return text


@functools.total_ordering
class Semver:
    """One version; immutable, compared and hashed by precedence."""

    __slots__ = ("_key", "build", "major", "minor", "patch", "pre")

    def __init__(
        self, major: int, minor: int, patch: int, pre: PreRelease = (), build: tuple[str, ...] = ()
    ) -> None:
        self.major = major
        self.minor = minor
        self.patch = patch
        self.pre = pre
        self.build = build
        # A release follows all its pre-releases; numbers precede words; a longer list follows its own prefix.
        ranked = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in pre)
        self._key = (major, minor, patch, not pre, ranked)

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Read a strict version (``1.2.3-rc.1+build.5``); raise InvalidVersion otherwise."""
        if not text:
            raise InvalidVersion("Version string empty")
        if len(text) > _MAX_LENGTH:
            raise InvalidVersion("Version string is too long")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise InvalidVersion("No Major.Minor.Patch elements found")
        rest, plus, build_text = parts[2].partition("+")
        patch, dash, pre_text = rest.partition("-")
        return cls(
            _number(parts[0], "Major"),
            _number(parts[1], "Minor"),
            _number(patch, "Patch"),
            tuple(_pre_release_part(part) for part in pre_text.split(".")) if dash else (),
            tuple(_build_part(part) for part in build_text.split(".")) if plus else (),
        )

    @classmethod
    def parse_relaxed(cls, text: str) -> Semver:
        """Read what ``semver(text, true)`` takes: a leading "v", one or two numbers only, leading zeros."""
        parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3:
            if "+" in parts[-1] or "-" in parts[-1]:
                raise InvalidVersion("Short version cannot contain PreRelease/Build meta data")
            parts += ["0"] * (3 - len(parts))
        return cls.parse(".".join(parts))

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1, by precedence."""
        return (self._key > other._key) - (self._key < other._key)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: Semver) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash((Semver, self._key))

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(map(str, self.pre))
        if self.build:
            text += "+" + ".".join(self.build)
        return text

    def __repr__(self) -> str:
        return f"Semver({str(self)!r})"


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in "0123456789" and stripped else "0" + stripped


def is_semver(text: str, *, relaxed: bool = False) -> bool:
    """Whether `Semver.parse` (or `parse_relaxed`) accepts the text."""
    try:
        Semver.parse_relaxed(text) if relaxed else Semver.parse(text)
    except InvalidVersion:
        return False
    return True
