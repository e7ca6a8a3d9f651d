"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    GOOD = "good"
    # It works, but not as an installation for others should.
    WARNING = "warning"
    # Something does not work, or will not for long.
    BAD = "bad"
    # It could not be looked at.
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One finding: where, how it is, in words, and what to do ("" where nothing has to be done)."""

    check: str
    state: State
    said: str
    cure: str = ""


def good(check: str, said: str) -> Result:
    return Result(check=check, state=State.GOOD, said=said)


def warning(check: str, said: str, cure: str) -> Result:
    return Result(check=check, state=State.WARNING, said=said, cure=cure)


def bad(check: str, said: str, cure: str) -> Result:
    return Result(check=check, state=State.BAD, said=said, cure=cure)


def unknown(check: str, said: str) -> Result:
    return Result(check=check, state=State.UNKNOWN, said=said)
