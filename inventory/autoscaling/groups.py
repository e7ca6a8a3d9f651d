"""Node groups as an autoscaler scales them, read from what others wrote: bounded, and without what a database
or a page cannot hold."""

from collections.abc import Mapping
from typing import Any

import msgspec

MAX_GROUPS = 500
MAX_LABELS = 50
_MOST = 1_000_000


class Unreadable(ValueError):
    """What was found is in no form that is known."""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node group. `maximum` None = the source names no bound; `current` None = it does not say."""

    name: str
    minimum: int = 0
    maximum: int | None = None
    current: int | None = None
    # Nodes that it is about to have.
    target: int | None = None
    # Why it does not grow now, in the source's words; "" = nothing is in the way.
    stuck: str = ""
    # Labels that its nodes get, as far as the source says.
    labels: dict[str, str] = {}
    # What each node will announce for a Device Plugin; "" = it does not say.
    resource: str = ""
    units: int = 0

    @property
    def short_name(self) -> str:
        """The last part of names such as "MachineDeployment/team/gpu" or the address of an instance group."""
        return self.name.rstrip("/").rpartition("/")[2]

    @property
    def more(self) -> int | None:
        """How many further nodes it may get; None = no bound is named."""
        if self.maximum is None:
            return None
        return max(0, self.maximum - max(self.current or 0, self.target or 0))


def text(value: Any, limit: int = 253) -> str:
    """What others wrote, on one line."""
    said = str(value) if isinstance(value, str | int | float) else ""
    return "".join(one if one.isprintable() else " " for one in said[: 2 * limit]).strip()[:limit]


def count(value: Any) -> int | None:
    """A number of nodes or units; None = it is none."""
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number <= _MOST else None


def labels(value: Any) -> dict[str, str]:
    """Labels of nodes."""
    if not isinstance(value, Mapping):
        return {}
    found = {text(name, 317): text(each, 63) for name, each in list(value.items())[:MAX_LABELS]}
    return {name: each for name, each in found.items() if name}


def part(value: Any, *path: str) -> Any:
    """What is at a path of objects; None = nothing."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
