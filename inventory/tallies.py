"""How many devices a cluster has in which state, as every page counts them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Count, QuerySet

from inventory.browse import UNKNOWN
from inventory.browse_counts import counts_of
from inventory.browse_kinds import kinds_of
from inventory.coverage import Coverage
from inventory.models import Device, Twin
from inventory.products import PARTITION


@dataclass(frozen=True)
class Tally:
    """Devices by told state. Partitions of one piece of hardware are alternatives to it and to each other:
    they are counted apart, never added to what is whole. A piece that is published under several names
    counts once."""

    whole: Mapping[str, int] = field(default_factory=Counter)
    partitions: Mapping[str, int] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Whole devices."""
        return sum(self.whole.values())

    @property
    def partition_total(self) -> int:
        return sum(self.partitions.values())

    @property
    def held(self) -> int:
        """Whole devices that somebody holds, wholly or in part."""
        return self.whole.get(Device.State.HELD, 0) + self.whole.get(Device.State.PARTLY, 0)


def tallies(coverage: Mapping[int, Coverage], *, devices: QuerySet[Device] | None = None) -> dict[int, Tally]:
    """By cluster; where the mirror is not in step, every state is unknown. Two queries; of all devices (None)
    only what changed since they were counted last."""
    whole: dict[int, Counter[str]] = defaultdict(Counter)
    partitions: dict[int, Counter[str]] = defaultdict(Counter)
    for cluster, kind, state, count in _grouped(coverage, devices):
        if (known := coverage.get(cluster)) is not None:
            counts = partitions if kind == PARTITION else whole
            counts[cluster][state if known.in_step else UNKNOWN] += count
    again = (
        Twin.objects.filter(counts=False, device__in=devices)
        if devices is not None
        else Twin.objects.filter(counts=False)
    )
    columns = ("cluster", "device__state")
    for cluster, state, count in again.order_by().values_list(*columns).annotate(Count("pk")):
        if (known := coverage.get(cluster)) is not None:
            whole[cluster][state if known.in_step else UNKNOWN] -= count
    return {pk: Tally(whole[pk], partitions[pk]) for pk in coverage}


def _grouped(
    coverage: Mapping[int, Coverage], devices: QuerySet[Device] | None
) -> Iterable[tuple[int, str, str, int]]:
    """How many there are by cluster, kind and stored state."""
    if devices is not None:
        return devices.order_by().values_list("cluster", "profile__kind", "state").annotate(Count("pk"))
    clusters = [known.cluster for known in coverage.values()]
    kinds = {pk: profile.kind for pk, profile in kinds_of(clusters).profiles.items()}
    return [
        (cluster, kinds[profile], state, count)
        for profile, cluster, state, _health, count in counts_of(clusters)
        # One that appeared between two queries waits for the next request.
        if profile in kinds
    ]
