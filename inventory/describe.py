"""Devices in words: their typed attributes, amounts, taints and shared counters, as pages and the REST API
show them.

Drivers write what they like. Nothing here trusts a shape: what does not look as the API says is shown as it
is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from inventory.models import Device, Pool, ResourceSlice
from portal.dra.quantity import InvalidQuantity, Quantity

_TYPES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
_BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass(frozen=True)
class AttributeShown:
    """One attribute: its domain and name, the type that the driver gave it, and the value as text."""

    domain: str
    name: str
    type: str
    value: str

    @property
    def qualified(self) -> str:
        return f"{self.domain}/{self.name}"


@dataclass(frozen=True)
class AmountShown:
    """One capacity (or counter): for people, and exactly as published."""

    domain: str
    name: str
    human: str
    exact: str
    # Consumable capacity: what a request may ask for, in words of the API; "" otherwise.
    policy: str = ""
    used: str = ""
    left: str = ""
    # The used part in percent; None where nothing is known to be used up.
    part: int | None = None


def attributes(device: Device) -> list[AttributeShown]:
    """Kind and identity attributes of a device, by domain (the driver's own first) and name."""
    driver = device.pool.driver
    shown = []
    for qualified, value in {**device.profile.attributes, **device.identity}.items():
        domain, name = _split(qualified, driver)
        kind, text = _typed(value)
        shown.append(AttributeShown(domain, name, kind, text))
    return sorted(shown, key=lambda a: (a.domain != driver, a.domain, a.name.casefold()))


def capacities(device: Device, *, consumed: Iterable[Mapping[str, str]] = ()) -> list[AmountShown]:
    """Capacities of a device; with what holders of a shared device consume of them."""
    driver = device.pool.driver
    used: dict[str, Quantity] = {}
    for amounts in consumed:
        for name, text in amounts.items():
            amount = _quantity(text)
            if amount is not None:
                key = "/".join(_split(name, driver))
                used[key] = used[key] + amount if key in used else amount
    shown = []
    for qualified, value in device.profile.capacity.items():
        domain, name = _split(qualified, driver)
        exact = str(value.get("value", "")) if isinstance(value, dict) else str(value)
        policy = value.get("requestPolicy") if isinstance(value, dict) else None
        taken = used.get(f"{domain}/{name}")
        total = _quantity(exact)
        shown.append(
            AmountShown(
                domain,
                name,
                human=human_quantity(exact),
                exact=exact,
                policy=_policy(policy) if isinstance(policy, dict) else "",
                used=human_quantity(str(taken)) if taken is not None else "",
                left=human_quantity(str(total - taken)) if taken is not None and total is not None else "",
                part=_part(taken, total) if taken is not None and total is not None else None,
            )
        )
    return sorted(shown, key=lambda c: (c.domain != driver, c.domain, c.name.casefold()))


def human_quantity(text: str) -> str:
    """A Kubernetes quantity in the largest unit that keeps it short: "196592Mi" → "191.98 GiB", "304" →
    "304"."""
    amount = _quantity(text)
    if amount is None:
        return text
    if not text.rstrip().endswith("i"):
        return f"{amount}"
    value, unit = amount.nanos / 1e9, 0
    while abs(value) >= 1024 and unit < len(_BINARY_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    number = f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{number} {_BINARY_UNITS[unit]}B"


def published(device: Device) -> dict[str, Any]:
    """The device exactly as its slice publishes it (normalised to resource.k8s.io/v1); {} when it is not
    there."""
    for entry in _entries(device.slice):
        if entry.get("name") == device.name:
            return entry
    return {}


def as_yaml(document: Any) -> str:
    """A document as YAML for people: keys in their order, no aliases."""
    text: str = yaml.dump(
        document,
        Dumper=_PlainDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )
    return text


class _PlainDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


# --- partitions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partitioning:
    """The devices that draw on the same counters as this one, and what of the counters is left."""

    # Names of this pool's devices that share counters with it, itself included.
    names: Sequence[str]
    counters: Sequence[AmountShown]


def partitioning(device: Device, *, held: Iterable[str]) -> Partitioning | None:
    """How a device is cut up; None when it draws on no counters. `held` = names of held devices of its
    pool."""
    sets = {use["set"] for use in _uses(published(device))}
    if not sets:
        return None
    names, counters = _drawing(device.pool, sets=sets, held=held)
    return Partitioning(names=names, counters=counters)


def counters(pool: Pool, *, held: Iterable[str]) -> list[AmountShown]:
    """All shared counters of a pool's newest generation, with what its held devices take of them."""
    return _drawing(pool, sets=None, held=held)[1]


def _drawing(
    pool: Pool, *, sets: Collection[str] | None, held: Iterable[str]
) -> tuple[list[str], list[AmountShown]]:
    """Devices of a pool that draw on counters of these sets (None = of all), and the counters."""
    totals: dict[tuple[str, str], Quantity] = {}
    exact: dict[tuple[str, str], str] = {}
    taken: dict[tuple[str, str], Quantity] = defaultdict(lambda: Quantity.from_int(0))
    names: list[str] = []
    holding = set(held)
    parts = ResourceSlice.objects.filter(pool=pool, generation=pool.generation)
    for part in parts.order_by("name"):
        for counter_set in _list(_spec(part).get("sharedCounters")):
            if sets is None or counter_set.get("name") in sets:
                for name, value in _mapping(counter_set.get("counters")).items():
                    text = str(value.get("value", "")) if isinstance(value, dict) else str(value)
                    amount = _quantity(text)
                    if amount is not None:
                        key = str(counter_set.get("name", "")), name
                        totals[key], exact[key] = amount, text
        for entry in _entries(part):
            uses = [use for use in _uses(entry) if sets is None or use["set"] in sets]
            if uses:
                names.append(str(entry.get("name", "")))
            if entry.get("name") in holding:
                for use in uses:
                    taken[use["set"], use["counter"]] += use["amount"]
    shown = [
        AmountShown(
            domain=key[0],
            name=key[1],
            human=human_quantity(exact[key]),
            exact=exact[key],
            used=_same_unit(taken[key], exact[key]),
            left=_same_unit(total - taken[key], exact[key]),
            part=_part(taken[key], total),
        )
        for key, total in totals.items()
    ]
    return names, sorted(shown, key=lambda c: (c.domain, c.name))


def _part(used: Quantity, total: Quantity) -> int:
    """How much of a total is used, in percent; what is used at all is not shown as nothing."""
    if total.nanos <= 0:
        return 0
    part = round(100 * used.nanos / total.nanos)
    return min(max(part, 1 if used.nanos > 0 else 0), 100)


def _uses(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for use in _list(entry.get("consumesCounters")):
        for counter, value in _mapping(use.get("counters")).items():
            amount = _quantity(str(value.get("value", "")) if isinstance(value, dict) else str(value))
            found.append(
                {
                    "set": str(use.get("counterSet", "")),
                    "counter": counter,
                    "amount": amount or Quantity.from_int(0),
                }
            )
    return found


def _same_unit(amount: Quantity, like: str) -> str:
    """An amount written in the manner of the total that it is part of."""
    if not like.endswith("i"):
        return str(amount)
    return human_quantity(f"{amount.nanos // 10**9 // 1024}Ki") if amount.nanos else "0 B"


# --- shapes ---------------------------------------------------------------------------------------


def _spec(part: ResourceSlice) -> Mapping[str, Any]:
    return _mapping(part.manifest.get("spec")) if isinstance(part.manifest, dict) else {}


def _entries(part: ResourceSlice) -> list[dict[str, Any]]:
    return _list(_spec(part).get("devices"))


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _split(qualified: str, driver: str) -> tuple[str, str]:
    domain, slash, name = qualified.partition("/")
    return (domain, name) if slash else (driver, qualified)


def _typed(value: Any) -> tuple[str, str]:
    if isinstance(value, dict) and len(value) == 1:
        kind, content = next(iter(value.items()))
        if kind in _TYPES:
            items = content if isinstance(content, list) else [content]
            return kind, ", ".join(_text(item) for item in items)
    return "", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quantity(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except InvalidQuantity:
        return None


def _policy(policy: Mapping[str, Any]) -> str:
    """What a request may ask for: "4Gi unless asked otherwise; 1Gi to 40Gi in steps of 1Mi"."""
    said = []
    if policy.get("default") is not None:
        said.append(_("%(amount)s unless asked otherwise") % {"amount": policy["default"]})
    if isinstance(values := policy.get("validValues"), list) and values:
        said.append(_("one of %(amounts)s") % {"amounts": ", ".join(map(str, values))})
    if isinstance(bounds := policy.get("validRange"), dict):
        least, most, step = bounds.get("min"), bounds.get("max"), bounds.get("step")
        if least is not None and most is not None:
            said.append(_("%(least)s to %(most)s") % {"least": least, "most": most})
        elif least is not None:
            said.append(_("at least %(least)s") % {"least": least})
        elif most is not None:
            said.append(_("at most %(most)s") % {"most": most})
        if step is not None:
            said.append(_("in steps of %(step)s") % {"step": step})
    return "; ".join(said)
