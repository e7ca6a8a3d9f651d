"""``metadata.managedFields``: who last wrote which field, and when."""

from dataclasses import dataclass
from typing import Any

from portal.demo.resources import Resource


@dataclass(frozen=True, slots=True)
class Applied:
    """A server-side apply: what ``manager`` wants to be true."""

    intent: Any
    manager: str
    force: bool


def record_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    api_version: str,
    subresource: str,
    time: str,
    applied: Applied | None = None,
) -> None:
    """Write into ``new`` that ``manager`` set the fields in which it differs from ``old``."""


def merge_intent(old: dict[str, Any], applied: Applied, resource: Resource) -> dict[str, Any]:
    """``old`` with the applied intent merged in; 409 when another manager owns a field that would change."""
    return {**old, **applied.intent}
