"""How many devices of a cluster are of which kind and in which state, remembered per version of its mirror.

Every search that does not narrow rows by words, node or pool begins with these counts, and between two
changes of a mirror they are the same for everybody. The writer raises a cluster's `mirror_version` in the
transaction that changes its devices, so counts under a version that was read *before* counting are never
older than that version.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from django.db.models import Count

from inventory.models import Cluster, Device

# Profile, cluster, stored state, stored health, how many.
Counted = tuple[int, int, str, str, int]

MAX_CACHED = 64

_lock = threading.Lock()
_cached: "OrderedDict[tuple[int, int], tuple[Counted, ...]]" = OrderedDict()


def counts_of(clusters: Iterable[Cluster]) -> Iterator[Counted]:
    """The counts of these clusters' devices; one query for those that changed, none where nothing did.

    The clusters must have been loaded before: their `mirror_version` says which counts still hold. A cluster
    that was never mirrored (version 0) is counted every time.
    """
    versions = {cluster.pk: cluster.mirror_version for cluster in clusters}
    with _lock:
        held = ((pk, _cached.get((pk, version))) for pk, version in versions.items())
        known = {pk: found for pk, found in held if found is not None}
    if missing := versions.keys() - known.keys():
        fresh: dict[int, list[Counted]] = {pk: [] for pk in missing}
        rows = Device.objects.all() if not known else Device.objects.filter(cluster__in=missing)
        columns = ("profile_id", "cluster_id", "state", "health")
        for counted in rows.order_by().values_list(*columns).annotate(Count("pk")):
            # A cluster may have appeared since.
            if counted[1] in fresh:
                fresh[counted[1]].append(counted)
        _remember({(pk, versions[pk]): tuple(found) for pk, found in fresh.items() if versions[pk]})
        known |= {pk: tuple(found) for pk, found in fresh.items()}
    for counts in known.values():
        yield from counts


def _remember(found: dict[tuple[int, int], tuple[Counted, ...]]) -> None:
    changed = {pk for pk, _version in found}
    with _lock:
        for key in [key for key in _cached if key[0] in changed]:
            del _cached[key]
        _cached.update(found)
        while len(_cached) > MAX_CACHED:
            _cached.popitem(last=False)
