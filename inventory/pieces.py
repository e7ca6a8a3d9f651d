"""The single devices of a kind, grouped by what an expression reads of them.

Whatever many pieces have in common is asked once, and what the database has to be asked for is kept per
version of the fleet: while somebody types an expression, its reads seldom change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from inventory.models import Cluster, Device
from portal.dra.cel import EVERYTHING, Selector
from portal.sql import KeyList, ValueList

# What of the identity is read, and the keys of the devices that have just that.
Alike = tuple[Mapping[str, Any], Sequence[int]]

MAX_CACHED = 3

_lock = threading.Lock()
_cached: "OrderedDict[Hashable, dict[int, Sequence[Alike]]]" = OrderedDict()


def alike(
    selector: Selector, *, clusters: Iterable[Cluster], profiles: Collection[int]
) -> Mapping[int, Sequence[Alike]]:
    """The devices of these kinds on these clusters, by kind, in groups that are the same to the expression.
    The clusters must have been loaded before: their `fleet_version` says whether what is known still holds.
    One query where something is not known yet."""
    versions = {cluster.pk: cluster.fleet_version for cluster in clusters}
    wanted = reads_of_identity(selector)
    if wanted is None or not all(versions.values()):
        return _read(versions, profiles, wanted)
    key = (frozenset(versions.items()), wanted)
    with _lock:
        known = dict(_cached.get(key, {}))
    if missing := set(profiles) - set(known):
        known |= _read(versions, missing, wanted)
        with _lock:
            _cached[key] = known
            _cached.move_to_end(key)
            while len(_cached) > MAX_CACHED:
                _cached.popitem(last=False)
    return {pk: known[pk] for pk in profiles}


def reads_of_identity(selector: Selector) -> frozenset[str] | None:
    """Which attributes the expression reads, by qualified name; "domain/" stands for all of a domain, None
    for whatever there is."""
    if selector.reads == EVERYTHING:
        return None
    found = set()
    for read in selector.reads:
        match read:
            case ("attribute", domain, name):
                found.add(f"{domain}/{name}")
            case ("attribute?", domain):
                found.add(f"{domain}/")
            case ("attribute?", *_):
                return None
    return frozenset(found)


def _read(
    clusters: Iterable[int], profiles: Collection[int], wanted: frozenset[str] | None
) -> dict[int, Sequence[Alike]]:
    rows = Device.objects.filter(cluster__in=list(clusters), profile__in=profiles).order_by()
    listed = rows.values_list("profile_id").annotate(keys=KeyList("pk"), told=ValueList("identity"))
    found: dict[int, Sequence[Alike]] = dict.fromkeys(profiles, ())
    for profile, listed_keys, told in listed:
        keys = msgspec.json.decode(listed_keys, type=list[int])
        if wanted is None:
            identities = msgspec.json.decode(told, type=list[dict[str, Any]])
            found[profile] = [(identity, (key,)) for key, identity in zip(keys, identities, strict=True)]
        else:
            raw = msgspec.json.decode(told, type=list[dict[str, msgspec.Raw]])
            found[profile] = _grouped(zip(keys, raw, strict=True), _picks(wanted))
    return found


def _grouped(
    pairs: Iterable[tuple[int, Mapping[str, msgspec.Raw]]], picks: Callable[[str], bool]
) -> Sequence[Alike]:
    groups: dict[tuple[tuple[str, bytes], ...], list[int]] = {}
    picked: dict[str, bool] = {}
    for key, identity in pairs:
        told = []
        for name, value in identity.items():
            pick = picked.get(name)
            if pick is None:
                pick = picked[name] = picks(name)
            if pick:
                told.append((name, bytes(value)))
        groups.setdefault(tuple(told), []).append(key)
    return [
        ({name: msgspec.json.decode(value) for name, value in told}, keys) for told, keys in groups.items()
    ]


def _picks(wanted: frozenset[str]) -> Callable[[str], bool]:
    """Whether an attribute, by its qualified name, is among what is wanted."""
    return lambda name: name in wanted or f"{name.rpartition('/')[0]}/" in wanted
