"""What a DeviceTaintRule selects, as every served version of the API spells it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q

from portal.dra.model import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ObjectMeta,
)


@dataclass(frozen=True, order=True)
class Selector:
    """Devices by name; what is empty selects any. All three empty: every device of the cluster."""

    driver: str = ""
    pool: str = ""
    device: str = ""

    @property
    def selects_all(self) -> bool:
        return not (self.driver or self.pool or self.device)

    @classmethod
    def of_spec(cls, spec: Mapping[str, Any]) -> "Selector | None":
        """Of a rule's spec; None for a rule that selects nothing."""
        found = spec.get("deviceSelector")
        if not isinstance(found, Mapping):
            return None
        return cls(*(str(found.get(name) or "") for name in ("driver", "pool", "device")))

    def spec(self) -> dict[str, str]:
        """`deviceSelector` as in the API."""
        named = {"driver": self.driver, "pool": self.pool, "device": self.device}
        return {name: value for name, value in named.items() if value}

    def matches(self, driver: str, pool: str, device: str) -> bool:
        return self.driver in ("", driver) and self.pool in ("", pool) and self.device in ("", device)

    def of_devices(self) -> Q:
        """The condition on rows of `Device`."""
        return _wanted({"pool__driver": self.driver, "pool__name": self.pool, "name": self.device})

    def of_holds(self) -> Q:
        """The condition on rows of `ClaimDevice`, by name: what is held may not be published any more."""
        return _wanted({"driver": self.driver, "pool_name": self.pool, "device_name": self.device})

    def __str__(self) -> str:
        return "/".join(part or "*" for part in (self.driver, self.pool, self.device))


@dataclass(frozen=True)
class Taint:
    """A taint as a rule puts it on devices. `effect` is NoSchedule, NoExecute or None, as in the API."""

    key: str
    value: str
    effect: str

    def spec(self) -> dict[str, str]:
        """`taint` as in the API; the cluster adds the time."""
        return {"key": self.key, **({"value": self.value} if self.value else {}), "effect": self.effect}


def any_device(selectors: Iterable[Selector]) -> Q:
    """Rows of `Device` that one of these selects; none for no selector."""
    return reduce(or_, (selector.of_devices() for selector in selectors), Q(pk__in=[]))


def any_hold(selectors: Iterable[Selector]) -> Q:
    """The same of rows of `ClaimDevice`."""
    return reduce(or_, (selector.of_holds() for selector in selectors), Q(pk__in=[]))


def as_rules(selectors: Sequence[Selector], taint: Taint) -> list[DeviceTaintRule]:
    """What the engine is fed."""
    return [
        DeviceTaintRule(
            metadata=ObjectMeta(name=f"{taint.key}-{number}"),
            spec=DeviceTaintRuleSpec(
                taint=DeviceTaint(key=taint.key, value=taint.value, effect=taint.effect),
                device_selector=DeviceTaintSelector(
                    driver=selector.driver or None,
                    pool=selector.pool or None,
                    device=selector.device or None,
                ),
            ),
        )
        for number, selector in enumerate(selectors)
    ]


def _wanted(columns: Mapping[str, str]) -> Q:
    named = {column: value for column, value in columns.items() if value}
    return Q(**named) if named else ~Q(pk__in=[])
