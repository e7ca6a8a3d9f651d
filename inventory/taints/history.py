"""What happened to a maintenance or a drain, and the marks by which its rules are found."""

import hashlib
from datetime import datetime
from typing import Any

from inventory.models import Drain, Maintenance, UpkeepEvent
from inventory.taints.rules import PREFIX
from inventory.taints.selecting import Selector, Taint
from portal.accounts.models import User

TAINT_KEY = f"{PREFIX}/maintenance"


def note(
    upkeep: Maintenance | Drain, what: str, *, now: datetime, actor: User | None = None, words: str = ""
) -> None:
    """Add a line to its history."""
    about: dict[str, Any] = {"maintenance": upkeep} if isinstance(upkeep, Maintenance) else {"drain": upkeep}
    UpkeepEvent.objects.create(at=now, actor=actor, what=what, note=words[:1000], **about)


def rule_name(upkeep: Maintenance | Drain, selector: Selector) -> str:
    """The same for the same devices, however often it is tried."""
    digest = hashlib.sha256(str(selector).encode()).hexdigest()[:8]
    return f"claimdesk-{upkeep.key.hex[:8]}-{digest}"


def taint_of(upkeep: Maintenance | Drain, effect: str) -> Taint:
    """The taint that says so; its value tells one from another."""
    return Taint(TAINT_KEY, upkeep.key.hex[:8], effect)
