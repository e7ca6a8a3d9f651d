"""The frame: what the functions of a compiled expression share while it is evaluated for one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Frame = list[Any]
Run = Callable[[Frame], Any]

DEVICE: Final = 0
"""Where the frame holds the device."""

COST: Final = 1
"""Where it holds the cost so far."""

FIRST_SLOT: Final = 2
"""Where its local variables begin."""

MAX_COST: Final = 1_000_000
"""What an evaluation may cost (CELSelectorExpressionMaxCost)."""
