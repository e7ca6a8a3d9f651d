"""What partitions draw on: the counters that a device consumes, and how much of each there is in all.

Kept with each allocation, since the slices that tell of it may be gone when somebody asks what part of the
hardware was in use.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from inventory.models import Pool, ResourceSlice
from portal.dra import model as dra
from portal.sql import chunks

# {"set/counter": {"used": "1", "total": "8"}}, quantities as in the API.
Counters = Mapping[str, Mapping[str, str]]


class Published(Protocol):
    """A device, stored or about to be, and where it is published."""

    @property
    def pk(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def pool_id(self) -> int: ...
    @property
    def slice_id(self) -> int: ...


def of(devices: Iterable[Published]) -> Mapping[int, Counters]:
    """The counters of those devices that draw on any, by primary key; nothing is read where no pool has
    some."""
    by_pool: dict[int, list[Published]] = defaultdict(list)
    for device in devices:
        by_pool[device.pool_id].append(device)
    found: dict[int, Counters] = {}
    for pks in chunks(sorted(by_pool)):
        for pool in Pool.objects.filter(pk__in=pks, has_counters=True).values_list("pk", flat=True):
            found |= _in_pool(pool, by_pool[pool])
    return found


def _in_pool(pool: int, devices: Iterable[Published]) -> dict[int, Counters]:
    totals: dict[tuple[str, str], str] = {}
    published: dict[tuple[int, str], dra.Device] = {}
    # While a pool is published anew, what an earlier generation says of the same counters is over.
    slices = ResourceSlice.objects.filter(pool=pool).order_by("generation", "pk")
    for pk, manifest in slices.values_list("pk", "manifest"):
        item: Any = dra.decode_object(manifest)
        for counters in item.spec.shared_counters:
            totals |= {
                (counters.name, name): str(counter.value) for name, counter in counters.counters.items()
            }
        published |= {(pk, device.name): device for device in item.spec.devices}
    drawn: dict[int, Counters] = {}
    for device in devices:
        spec = published.get((device.slice_id, device.name))
        if spec is not None and spec.consumes_counters and device.pk is not None:
            drawn[device.pk] = {
                f"{consumption.counter_set}/{name}": {
                    "used": str(counter.value),
                    "total": totals.get((consumption.counter_set, name), ""),
                }
                for consumption in spec.consumes_counters
                for name, counter in consumption.counters.items()
            }
    return drawn
