"""Taints of devices: which ones a device has, and which ones a request does not tolerate (KEP-5055)."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from portal.dra.model import DeviceTaint, DeviceTaintRule, DeviceToleration

PREVENTING = frozenset({"NoSchedule", "NoExecute"})


class TaintLike(Protocol):
    """A taint of a device or of a node."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class TolerationLike(Protocol):
    """A toleration of a request or of a Pod."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


def tolerates(toleration: TolerationLike, taint: TaintLike) -> bool:
    """An empty effect or key matches any; `Exists` matches any value; `Equal` is the default."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> DeviceTaint | None:
    """The first taint that keeps the device from being allocated; unknown effects are harmless."""
    for taint in taints:
        if taint.effect in PREVENTING and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None


class TaintRules:
    """The DeviceTaintRules of a cluster, to be asked device by device."""

    def __init__(self, rules: Iterable[DeviceTaintRule]) -> None:
        self._rules = [
            (rule.spec.device_selector, rule.spec.taint)
            for rule in rules
            if rule.spec.device_selector is not None
        ]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def for_device(self, driver: str, pool: str, device: str) -> tuple[DeviceTaint, ...]:
        """Taints that rules put on this device; a rule without a selector selects nothing."""
        return tuple(
            taint
            for selector, taint in self._rules
            if selector.driver in (None, driver)
            and selector.pool in (None, pool)
            and selector.device in (None, device)
        )
