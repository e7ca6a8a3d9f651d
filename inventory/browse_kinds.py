"""The kinds of devices of a fleet and the classes that match them, remembered per version of the fleets.

A few dozen rows that every search begins with, and that change with who publishes what and with classes, not
with who holds a device. The writer raises a cluster's `fleet_version` in the transaction that changes them,
so what is read under a version that was read *before* is never older than that version.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inventory.models import ClassProfile, Cluster, DeviceProfile


@dataclass(frozen=True)
class Kinds:
    """Shared by all who search: not to be changed."""

    profiles: Mapping[int, DeviceProfile]
    # Names of the classes that match a whole kind, by (cluster, profile).
    classes: Mapping[tuple[int, int], frozenset[str]]
    # Names of the classes that tell devices of one kind apart (they read identity attributes).
    single_classes: frozenset[str]


_lock = threading.Lock()
_cached: dict[frozenset[tuple[int, int]], Kinds] = {}


def kinds_of(clusters: Iterable[Cluster]) -> Kinds:
    """The kinds and classes of these clusters, which must have been loaded before: their `fleet_version` says
    whether what is remembered still holds; 0 = it never does. Three queries, none where nothing changed."""
    versions = {cluster.pk: cluster.fleet_version for cluster in clusters}
    key = frozenset(versions.items())
    with _lock:
        if (known := _cached.get(key)) is not None:
            return known
    found = _read()
    if versions and all(versions.values()):
        with _lock:
            # Of one version at a time: nobody asks for those of before.
            _cached.clear()
            _cached[key] = found
    return found


def _read() -> Kinds:
    names: dict[tuple[int, int], set[str]] = defaultdict(set)
    matches = ClassProfile.objects.filter(device=None)
    for cluster_id, profile_id, name in matches.values_list(
        "device_class__cluster_id", "profile_id", "device_class__name"
    ):
        names[cluster_id, profile_id].add(name)
    single = ClassProfile.objects.exclude(device=None).values_list("device_class__name", flat=True)
    return Kinds(
        profiles={p.pk: p for p in DeviceProfile.objects.defer("attributes", "capacity")},
        classes={key: frozenset(values) for key, values in names.items()},
        single_classes=frozenset(single.distinct()),
    )
