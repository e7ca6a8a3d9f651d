"""The attributes and capacities that the devices of a cluster really have: what a selector can be made of."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inventory.browse_counts import counts_of
from inventory.identity_names import identity_names
from inventory.models import Cluster, DeviceProfile
from portal.sql import among

EXAMPLES = 3
MAX_ROWS = 400
MAX_EXAMPLE = 40
# What the API calls a typed value → what people call it.
TYPES = {
    "string": "string", "int": "int", "bool": "bool", "version": "version", "strings": "list of string",
    "ints": "list of int", "bools": "list of bool", "versions": "list of version", "value": "quantity",
}  # fmt: skip


@dataclass(frozen=True)
class AttributeRow:
    """One attribute or capacity. `devices` have it, of all those of the `drivers` that have it at all;
    `expression` reads it, `test` compares it with its most frequent value."""

    domain: str
    name: str
    capacity: bool
    type: str
    devices: int
    of: int
    drivers: Sequence[str]
    examples: Sequence[str]
    expression: str
    test: str


@dataclass
class _Found:
    type: str = ""
    devices: int = 0
    drivers: set[str] | None = None
    values: Counter[str] | None = None


def attribute_rows(cluster: Cluster) -> Sequence[AttributeRow]:
    """The names that devices of the cluster have, capacities last, each with its most frequent values."""
    counts: Counter[int] = Counter()
    for key, _cluster, _state, _health, count in counts_of([cluster]):
        counts[key] += count
    profiles = list(DeviceProfile.objects.filter(among("pk", counts.keys())))
    totals: Counter[str] = Counter()
    found: dict[tuple[bool, str], _Found] = {}
    pieces = identity_names(cluster)
    for profile in profiles:
        totals[profile.driver] += counts[profile.pk]
        for capacity, name, value, devices in _of_kind(
            profile, counts[profile.pk], pieces.get(profile.pk, {})
        ):
            row = found.setdefault((capacity, name), _Found(drivers=set(), values=Counter()))
            kind, text = next(iter(value.items()), ("string", ""))
            row.type = row.type or TYPES.get(kind, kind)
            row.devices += devices
            assert row.drivers is not None and row.values is not None  # noqa: PT018 - made just above
            row.drivers.add(profile.driver)
            row.values[_text(text)] += devices
    return [_row(named, row, totals) for named, row in sorted(found.items())][:MAX_ROWS]


def _of_kind(
    profile: DeviceProfile, count: int, pieces: Mapping[str, Any]
) -> Iterator[tuple[bool, str, Mapping[str, Any], int]]:
    for name, value in profile.attributes.items():
        yield False, name, value, count
    for name, seen in pieces.items():
        yield False, name, seen.example, seen.devices
    for name, value in profile.capacity.items():
        yield True, name, {"value": value.get("value", "")}, count


def _row(key: tuple[bool, str], found: _Found, totals: Mapping[str, int]) -> AttributeRow:
    capacity, full = key
    domain, _slash, name = full.rpartition("/")
    drivers = sorted(found.drivers or ())
    examples = [text for text, _count in (found.values or Counter()).most_common(EXAMPLES)]
    expression = f'device.{"capacity" if capacity else "attributes"}["{domain}"].{name}'
    return AttributeRow(
        domain=domain,
        name=name,
        capacity=capacity,
        type=found.type,
        devices=found.devices,
        of=sum(totals[driver] for driver in drivers),
        drivers=drivers,
        examples=examples,
        expression=expression,
        test=_test(expression, found.type, examples[0] if examples else ""),
    )


def _test(expression: str, kind: str, value: str) -> str:
    match kind:
        case "bool":
            return expression if value == "true" else f"!{expression}"
        case "int":
            return f"{expression} == {value}"
        case "version":
            return f'{expression}.compareTo(semver("{value}")) >= 0'
        case "quantity":
            return f'{expression}.compareTo(quantity("{value}")) >= 0'
        case "string":
            return f'{expression} == "{_escaped(value)}"'
    return expression


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = ", ".join(map(_text, value))
    text = str(value)
    return text if len(text) <= MAX_EXAMPLE else text[: MAX_EXAMPLE - 1] + "…"
