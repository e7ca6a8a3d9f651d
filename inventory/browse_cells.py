"""What a search for devices counts: cells (cluster, kind, state, health), and the words for them.

100,000 devices are a few dozen *kinds* (`DeviceProfile`) on a few clusters in a few states, so whatever is
told of all of them is told of a few hundred cells.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from operator import or_
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.browse_counted import PLUGIN
from inventory.browse_kinds import Kinds, kinds_of
from inventory.browse_racks import Racks, racks_of
from inventory.coverage import Coverage, coverage_of_all
from inventory.filters import is_number
from inventory.models import Cluster, Device, DeviceProfile
from portal.templatetags.ui import human_bytes

# The state of a device on a cluster that is not in step: what the mirror holds of it is the past.
UNKNOWN = "unknown"
STATE_LABELS: Mapping[str, StrOrPromise] = {
    Device.State.FREE: _("free"),
    Device.State.PARTLY: _("partly held"),
    Device.State.HELD: _("held"),
    Device.State.UNAVAILABLE: _("unavailable"),
    UNKNOWN: _("unknown"),
}
STATE_ORDER = list(STATE_LABELS)
DRA = "dra"
BACKEND_LABELS: Mapping[str, StrOrPromise] = {
    DRA: _("named devices (DRA)"),
    PLUGIN: _("counted units (Device Plugin)"),
}
HEALTH_LABELS: Mapping[str, StrOrPromise] = {**dict(Device.Health.choices), UNKNOWN: _("unknown")}
_LABELS = {"state": STATE_LABELS, "backend": BACKEND_LABELS, "health": HEALTH_LABELS}


def value_label(facet: str, value: str) -> StrOrPromise:
    """What people read for a value of a facet."""
    if facet == "memory" and is_number(value):
        return human_bytes(int(value))
    return _LABELS.get(facet, {}).get(value, value)


def value_place(facet: str, value: str) -> int:
    """Where a value stands among those of its facet, before the most frequent; 0 where it has no place."""
    if facet == "memory" and is_number(value):
        return -int(value)
    return list(_LABELS.get(facet, {})).index(value) if value in _LABELS.get(facet, {}) else 0


@dataclass(frozen=True)
class Cell:
    """How many devices of one kind are in one state on one cluster."""

    cluster: Cluster
    profile: DeviceProfile
    # As stored, and as it may be told (`UNKNOWN` when the cluster is not in step).
    stored_state: str
    state: str
    classes: frozenset[str]
    count: int
    # DRA, or PLUGIN for units that are counted and never named; those have a profile that is no row, and no
    # health.
    backend: str = DRA
    stored_health: str = ""
    health: str = ""


def product_name(profile: DeviceProfile) -> str:
    """What people call this kind of device: its product, else what is known of it."""
    return profile.product or " ".join(part for part in (profile.driver, profile.kind) if part)


@dataclass(frozen=True)
class FleetFacts:
    """What every search needs to know of the fleet as a whole; a few dozen rows, read once per request."""

    coverage: Mapping[int, Coverage]
    kinds: Kinds

    @property
    def profiles(self) -> Mapping[int, DeviceProfile]:
        return self.kinds.profiles

    @property
    def classes(self) -> Mapping[tuple[int, int], frozenset[str]]:
        """Names of the classes that match a whole kind, by (cluster, profile)."""
        return self.kinds.classes

    @property
    def single_classes(self) -> frozenset[str]:
        """Names of the classes that tell devices of one kind apart (they read identity attributes)."""
        return self.kinds.single_classes

    @cached_property
    def racks(self) -> Racks:
        """All devices by position; made where nobody asked for them since the fleet changed."""
        return racks_of(known.cluster for known in self.coverage.values())

    @classmethod
    def load(cls, *, now: datetime) -> "FleetFacts":
        coverage = coverage_of_all(now=now)
        return cls(coverage, kinds_of(known.cluster for known in coverage.values()))


def words_of(profile: DeviceProfile) -> str:
    """What a kind of device is found by, folded."""
    words = (product_name(profile), profile.driver, profile.vendor, profile.kind)
    return " ".join(words).casefold()


def told_state(device: Device, coverage: Mapping[int, Coverage]) -> str:
    """The state that may be told of a device: the stored one, or `UNKNOWN` when its cluster is not in
    step."""
    return device.state if coverage[device.cluster_id].in_step else UNKNOWN


# Facets that (cluster, profile, state, health) decide: label and the values of a cell.
CELL_FACETS: Mapping[str, tuple[StrOrPromise, Callable[[Cell], Collection[str]]]] = {
    "state": (_("State"), lambda cell: (cell.state,)),
    "health": (_("Health"), lambda cell: (cell.health,) if cell.health else ()),
    "backend": (_("Offered as"), lambda cell: (cell.backend,)),
    "cluster": (_("Cluster"), lambda cell: (cell.cluster.name,)),
    "vendor": (_("Vendor"), lambda cell: (cell.profile.vendor,)),
    "product": (_("Product"), lambda cell: (product_name(cell.profile),)),
    "kind": (_("Type"), lambda cell: (cell.profile.kind,)),
    "memory": (_("Memory"), lambda cell: _memory(cell.profile)),
    "driver": (_("Driver"), lambda cell: (cell.profile.driver,)),
    "class": (_("Class"), lambda cell: cell.classes),
}

SORT_KEYS: Mapping[str, Callable[[Cell], Any]] = {
    "product": lambda cell: product_name(cell.profile).casefold(),
    "driver": lambda cell: cell.profile.driver,
    # Unknown memory sorts below every known one.
    "memory": lambda cell: -1 if cell.profile.memory_bytes is None else cell.profile.memory_bytes,
    "state": lambda cell: STATE_ORDER.index(cell.state),
    "cluster": lambda cell: cell.cluster.name,
}


def _memory(profile: DeviceProfile) -> tuple[str, ...]:
    return () if profile.memory_bytes is None else (str(profile.memory_bytes),)


def within(cells: Iterable[Cell], table: Iterable[Cell], *, kind: str, place: str) -> Q:
    """The rows of these cells of the table, as a condition on the columns `kind` (profile) and `place`. What
    all cells have in common is not asked for."""
    wanted, every = _kinds(cells), _kinds(table)
    healths: dict[tuple[int, frozenset[int] | None, str], set[str]] = defaultdict(set)
    for (cluster, state, health), profiles in wanted.items():
        # None: all kinds that there are, so that nothing needs to be compared.
        only = None if profiles == every[cluster, state, health] else frozenset(profiles)
        healths[cluster, only, state].add(health)
    states: dict[tuple[int, frozenset[int] | None, frozenset[str] | None], set[str]] = defaultdict(set)
    for (cluster, kinds, state), found in healths.items():
        all_there = {health for at, s, health in every if (at, s) == (cluster, state)}
        states[cluster, kinds, None if found == all_there else frozenset(found)].add(state)
    parts = (
        Q((place, cluster), state__in=sorted(found))
        & (Q() if kinds is None else Q((f"{kind}__in", sorted(kinds))))
        & (Q() if health is None else Q(health__in=sorted(health)))
        for (cluster, kinds, health), found in states.items()
    )
    return reduce(or_, parts, Q(pk__in=()))


def _kinds(cells: Iterable[Cell]) -> Mapping[tuple[int, str, str], set[int]]:
    """Profiles by cluster, stored state and stored health."""
    kinds: dict[tuple[int, str, str], set[int]] = defaultdict(set)
    for cell in cells:
        kinds[cell.cluster.pk, cell.stored_state, cell.stored_health].add(cell.profile.pk)
    return kinds
