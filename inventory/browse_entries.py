"""A page of the device list: devices and counted units among each other, in the order that was asked for.

Devices alone have their pages (`DeviceSearch.page`), and so have counted units. Both are parts of one list,
so a page of it is a run of the one, a run of the other, and the pattern in which they alternate; only the
pattern is found out here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.db import connection

from inventory.browse import STATE_ORDER, DeviceSearch
from inventory.coverage import Coverage
from inventory.models import CountedUnits, Device

Entry = Device | CountedUnits
# How many places of devices are read at once to find where counted units stand among them.
WINDOW = 2_000

# The column of counted units behind an order, and its place among the keys of devices.
_KEYS: Mapping[str, tuple[str, Callable[[Any, Mapping[int, Coverage]], Any]]] = {
    "product": ("product", lambda value, _coverage: value.casefold()),
    "driver": ("resource", lambda value, _coverage: value),
    "memory": ("memory_bytes", lambda value, _coverage: -1 if value is None else value),
    "state": ("told", lambda value, _coverage: STATE_ORDER.index(value)),
    "cluster": ("cluster_id", lambda value, coverage: coverage[value].cluster.name),
}


def page(search: DeviceSearch, *, offset: int, limit: int) -> list[Entry]:
    """`limit` entries from `offset` on. Within equal keys devices come before counted units; in the order of
    the racks, within a node. Where no counted unit matches, it costs what devices alone cost."""
    counted = search.counted.entries
    if not counted:
        return list(search.page(offset=offset, limit=limit))
    total = search.total + counted
    start, stop = min(offset, total), min(offset + limit, total)
    if start == stop:
        return []
    if search.wanted.sort in _KEYS:
        return _by_keys(search, start, stop)
    if not search.wanted.descending:
        return _by_racks(search, start, stop)
    return _by_racks(search, total - stop, total - start)[::-1]


# --- orders with keys -----------------------------------------------------------------------------


def _by_keys(search: DeviceSearch, start: int, stop: int) -> list[Entry]:
    column, key_of = _KEYS[search.wanted.sort]
    backwards = search.wanted.descending
    keys: dict[Any, Any] = {}
    units: dict[Any, int] = {}
    for value, entries in search.counted.values(column):
        keys[value] = key = key_of(value, search.facts.coverage)
        units[key] = units.get(key, 0) + entries
    devices = dict(search.groups())
    # True stands for a counted entry.
    pattern: list[bool] = []
    before = {False: 0, True: 0}
    position = 0
    for key in sorted({*devices, *units}, reverse=backwards):
        for is_counted, size in ((False, devices.get(key, 0)), (True, units.get(key, 0))):
            skipped = max(0, min(size, start - position))
            taken = max(0, min(position + size, stop) - max(position, start))
            before[is_counted] += skipped
            pattern += [is_counted] * taken
            position += size
    places = {key: place for place, key in enumerate(sorted(units, reverse=backwards))}
    order = {value: places[key] for value, key in keys.items()}
    return _woven(
        pattern,
        search.page(offset=before[False], limit=pattern.count(False)),
        search.counted.page(offset=before[True], limit=pattern.count(True), column=column, order=order),
    )


# --- the order of the racks -----------------------------------------------------------------------


def _by_racks(search: DeviceSearch, start: int, stop: int) -> list[Entry]:
    """Entries `start` to `stop`, counted forwards whatever the wanted direction."""
    first, passed = _nearby(search, start)
    need = stop - first - passed
    places = search.places(first, first + need)
    counted = search.counted.places(passed, passed + need)
    rank = _ranks({*places, *counted})
    merged = _merged([rank[name] for name in places], [rank[name] for name in counted])
    skipped = list(islice(merged, start - first - passed))
    pattern = list(islice(merged, stop - start))
    devices = (first + skipped.count(False), pattern.count(False))
    units = (passed + skipped.count(True), pattern.count(True))
    if not search.wanted.descending:
        found: Sequence[Device] = search.page(offset=devices[0], limit=devices[1])
    else:
        found = search.page(offset=search.total - sum(devices), limit=devices[1])[::-1]
    return _woven(pattern, found, search.counted.page(offset=units[0], limit=units[1]))


def _nearby(search: DeviceSearch, start: int) -> tuple[int, int]:
    """A device that stands at most WINDOW devices before the entry `start`, and how many counted entries
    stand before that device."""
    low, high = max(0, start - search.counted.entries), min(start, search.total)
    passed = _passed(search, low)
    while high - low > WINDOW:
        middle = (low + high) // 2
        found = _passed(search, middle)
        if middle + found <= start:
            low, passed = middle, found
        else:
            high = middle
    return low, passed


def _passed(search: DeviceSearch, device: int) -> int:
    """How many counted entries stand before a device."""
    if not device:
        return 0
    (node,) = search.places(device, device + 1)
    return search.counted.before(node)


def _merged(devices: Sequence[int], counted: Sequence[int]) -> Iterator[bool]:
    """Whether the next entry is a counted one, for places in order."""
    i = j = 0
    while i < len(devices) or j < len(counted):
        is_counted = i == len(devices) or (j < len(counted) and counted[j] < devices[i])
        yield is_counted
        if is_counted:
            j += 1
        else:
            i += 1


def _ranks(names: set[str]) -> Mapping[str, int]:
    """Places of names as the database orders them; its collation need not be ours."""
    ordered = sorted(names)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM unnest(%s::varchar[]) AS name ORDER BY name", [ordered])
            ordered = [name for (name,) in cursor.fetchall()]
    return {name: place for place, name in enumerate(ordered)}


def _woven(
    pattern: Sequence[bool], devices: Sequence[Device], counted: Sequence[CountedUnits]
) -> list[Entry]:
    """Devices and counted units as the pattern has them; a row that went meanwhile leaves no hole."""
    rest: dict[bool, Iterator[Entry]] = {False: iter(devices), True: iter(counted)}
    taken = (next(rest[is_counted], None) for is_counted in pattern)
    return [entry for entry in taken if entry is not None]
