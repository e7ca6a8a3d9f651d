"""How many devices each DeviceClass matches, and how many of those are free."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import Count

from inventory.browse import UNKNOWN
from inventory.coverage import Coverage
from inventory.models import ClassProfile, Cluster, Device, DeviceClass


@dataclass(frozen=True)
class ClassRow:
    """A class with its matching devices by (told) state."""

    device_class: DeviceClass
    cluster: Cluster
    coverage: Coverage
    devices: Mapping[str, int]

    @property
    def matched(self) -> int:
        return sum(self.devices.values())

    @property
    def free(self) -> int | None:
        """None while the cluster is not in step: not observed is not zero."""
        return self.devices.get(Device.State.FREE, 0) if self.coverage.in_step else None


def class_rows(classes: Collection[DeviceClass], *, coverage: Mapping[int, Coverage]) -> list[ClassRow]:
    """Counts for these classes; three queries whatever their number and the fleet's."""
    kinds: dict[int, set[int]] = defaultdict(set)
    keys = [found.pk for found in classes]
    whole = ClassProfile.objects.filter(device_class__in=keys, device=None)
    for key, profile in whole.values_list("device_class_id", "profile_id"):
        kinds[key].add(profile)
    counts = _counts_of_kinds({profile for profiles in kinds.values() for profile in profiles})
    single: dict[int, Counter[str]] = defaultdict(Counter)
    rows = ClassProfile.objects.filter(device_class__in=keys).exclude(device=None).order_by()
    for key, state, count in rows.values_list("device_class_id", "device__state").annotate(Count("pk")):
        single[key][state] += count
    told = []
    for found in classes:
        known = coverage.get(found.cluster_id)
        if known is None:
            continue
        devices = Counter(single[found.pk])
        for profile in kinds[found.pk]:
            devices.update(counts.get((found.cluster_id, profile), {}))
        if not known.in_step:
            devices = Counter({UNKNOWN: devices.total()})
        told.append(ClassRow(device_class=found, cluster=known.cluster, coverage=known, devices=devices))
    return told


def _counts_of_kinds(profiles: Collection[int]) -> Mapping[tuple[int, int], Mapping[str, int]]:
    """Devices by (cluster, profile), then state."""
    counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    rows = Device.objects.filter(profile__in=profiles).order_by()
    for profile, cluster, state, count in rows.values_list("profile_id", "cluster_id", "state").annotate(
        Count("pk")
    ):
        counts[cluster, profile][state] += count
    return counts
