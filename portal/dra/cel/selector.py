"""Selectors: compiled CEL expressions over one device."""

from __future__ import annotations

from collections.abc import Container, Hashable

from portal.dra.cel.device import DeviceView, Reads
from portal.dra.cel.errors import CelCompileError


class Selector:
    """A compiled expression. Immutable, safe to share between threads."""

    expression: str
    reads: Reads
    estimated_cost: int

    def evaluate(self, device: DeviceView) -> bool:
        """Whether the device matches; raises CelEvaluationError."""
        raise NotImplementedError

    def memo_key(self, device: DeviceView) -> Hashable:
        """Two devices with the same key get the same answer (value types included); see `reads`."""
        raise NotImplementedError


def compile_selector(
    expression: str, *, features: Container[str] = frozenset(), enforce_estimate: bool = False
) -> Selector:
    """Compile; raises CelCompileError. As the scheduler compiles; with `enforce_estimate` as the API server
    validates, which also rejects what could cost more than a million at worst."""
    raise CelCompileError("not built yet")
