"""Which identifying attributes the devices of a cluster have, by kind: how many have each, and one value.

Kinds leave out what identifies single pieces, so this is asked of the devices, by the database itself; the
answer is kept per version of the fleet.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from django.db import connection

from inventory.models import Cluster, Device

MAX_CACHED = 16

_SQL = {
    "sqlite": (
        "SELECT d.profile_id, j.key, COUNT(*), MIN(j.value) FROM {table} d, json_each(d.identity) j"
        " WHERE d.cluster_id = %s GROUP BY d.profile_id, j.key"
    ),
    "postgresql": (
        "SELECT d.profile_id, j.key, COUNT(*), MIN(j.value::text) FROM {table} d"
        " CROSS JOIN LATERAL jsonb_each(d.identity) j WHERE d.cluster_id = %s GROUP BY d.profile_id, j.key"
    ),
}


class Seen(NamedTuple):
    """`example` is a typed value as in the API."""

    devices: int
    example: Mapping[str, Any]


# Kind → qualified name → how it was seen.
Names = Mapping[int, Mapping[str, Seen]]

_lock = threading.Lock()
_cached: "OrderedDict[tuple[int, int], Names]" = OrderedDict()


def identity_names(cluster: Cluster) -> Names:
    """The identifying attributes of the cluster's devices; the cluster must have been loaded before, its
    `fleet_version` says whether what is known still holds."""
    key = (cluster.pk, cluster.fleet_version)
    with _lock:
        if (known := _cached.get(key)) is not None:
            _cached.move_to_end(key)
            return known
    found = _read(cluster.pk)
    # A cluster that was never mirrored has no version to go by.
    if cluster.fleet_version:
        with _lock:
            for old in [old for old in _cached if old[0] == cluster.pk]:
                del _cached[old]
            _cached[key] = found
            while len(_cached) > MAX_CACHED:
                _cached.popitem(last=False)
    return found


def _read(cluster: int) -> Names:
    names: dict[int, dict[str, Seen]] = {}
    sql = _SQL[connection.vendor].format(table=connection.ops.quote_name(Device._meta.db_table))
    with connection.cursor() as cursor:
        cursor.execute(sql, [cluster])
        for profile, name, count, example in cursor.fetchall():
            names.setdefault(profile, {})[name] = Seen(count, _typed(example))
    return names


def _typed(text: str) -> Mapping[str, Any]:
    value = msgspec.json.decode(text)
    return value if isinstance(value, dict) else {}
