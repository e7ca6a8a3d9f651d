"""DeviceClasses by name, across clusters: where one is, where it differs, who uses it, who manages it.

A class is expected to be the same on all clusters of a contract group (`PlatformContract.group`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import Count, Max, TextField
from django.db.models.functions import Cast

from inventory.class_counts import ClassRow, class_rows
from inventory.class_history import alike
from inventory.class_users import class_names_in
from inventory.coverage import Coverage
from inventory.models import (
    Claim,
    ClaimTemplate,
    ClassVersion,
    Cluster,
    DeviceClass,
    PlatformContract,
    Pool,
)

PORTAL, DRIVER, HAND, TOOL, UNKNOWN = "portal", "driver", "hand", "tool", "unknown"
# How field managers of people's own commands begin.
_HANDS = ("kubectl", "k9s", "lens", "mozilla")
_PORTAL = "claimdesk"


@dataclass(frozen=True)
class NamedClass:
    """One name. `missing` clusters are in a group with one that has it; `differing` are pairs of clusters of
    one group on which it is not the same. `free` is None where no cluster that has it is in step."""

    name: str
    rows: Sequence[ClassRow]
    missing: Sequence[str]
    differing: Sequence[tuple[str, str]]
    matched: int
    free: int | None
    claims: int
    templates: int
    flavors: Sequence[str]
    resources: Sequence[str]
    managers: Sequence[str]
    drift: Sequence[str]

    @property
    def clusters(self) -> Sequence[str]:
        return [row.cluster.name for row in self.rows]

    @property
    def problem(self) -> bool:
        return any(row.device_class.problem for row in self.rows)


# Rooms above the inventory know the catalogue: (cluster, class, flavor) of everything that is offered.
_catalogues: list[Callable[[], Iterable[tuple[int, str, str]]]] = []


def register_catalogue(offered: Callable[[], Iterable[tuple[int, str, str]]]) -> None:
    """Let `named_classes` ask this too; asked once however often it is registered."""
    if offered not in _catalogues:
        _catalogues.append(offered)


def named_classes(*, coverage: Mapping[int, Coverage]) -> list[NamedClass]:
    """Every name with all that is told of it, by name; a fixed number of queries."""
    classes = list(DeviceClass.objects.order_by("name", "cluster__name"))
    by_name: dict[str, list[ClassRow]] = defaultdict(list)
    for row in class_rows(classes, coverage=coverage):
        by_name[row.device_class.name].append(row)
    groups = _groups(coverage)
    claims, templates = _uses(Claim), _uses(ClaimTemplate)
    flavors: dict[str, set[str]] = defaultdict(set)
    for catalogue in _catalogues:
        for _cluster, name, flavor in catalogue():
            flavors[name].add(flavor)
    drivers = _drivers()
    drifting = _drifting()
    found = []
    for name, rows in by_name.items():
        free = [row.free for row in rows if row.free is not None]
        here = {row.device_class.cluster_id: row for row in rows}
        found.append(
            NamedClass(
                name=name,
                rows=rows,
                missing=_missing(here, groups, coverage),
                differing=_differing(here, groups),
                matched=sum(row.matched for row in rows),
                free=sum(free) if free else None,
                claims=claims[name],
                templates=templates[name],
                flavors=sorted(flavors[name]),
                resources=sorted({row.device_class.extended_resource_name for row in rows} - {""}),
                managers=sorted({managed_by(row.device_class, drivers) for row in rows}),
                drift=[row.cluster.name for row in rows if (row.device_class.cluster_id, name) in drifting],
            )
        )
    return found


def managed_by(device_class: DeviceClass, drivers: Mapping[int, Collection[str]]) -> str:
    """Who keeps a class as it is, as far as its field managers and name tell: the desk; the tool that brought
    a driver (the class is named after one); another tool; somebody by hand."""
    managers = device_class.managers
    if managers is None:
        return UNKNOWN
    first = str(managers[0]).lower() if managers else ""
    if first.startswith(_PORTAL):
        return PORTAL
    if first.startswith(_HANDS):
        return HAND
    name = device_class.name
    for driver in drivers.get(device_class.cluster_id, ()):
        if (
            name == driver
            or name.endswith(f".{driver}")
            or name.partition(".")[2] == driver.partition(".")[2]
        ):
            return DRIVER
    return TOOL if first else UNKNOWN


def _groups(coverage: Mapping[int, Coverage]) -> Sequence[Collection[int]]:
    """Clusters that are expected to agree, by group."""
    found: dict[str, set[int]] = defaultdict(set)
    for cluster, group in PlatformContract.objects.exclude(group="").values_list("cluster_id", "group"):
        if cluster in coverage:
            found[group].add(cluster)
    return [clusters for _group, clusters in sorted(found.items())]


def _missing(
    here: Mapping[int, ClassRow], groups: Sequence[Collection[int]], coverage: Mapping[int, Coverage]
) -> Sequence[str]:
    lacking = {pk for group in groups if here.keys() & set(group) for pk in set(group) - here.keys()}
    return sorted(coverage[pk].cluster.name for pk in lacking if coverage[pk].cluster.enabled)


def _differing(here: Mapping[int, ClassRow], groups: Sequence[Collection[int]]) -> Sequence[tuple[str, str]]:
    """Within each group, the first cluster by name against every one that says something else."""
    pairs = []
    for group in groups:
        rows = sorted((here[pk] for pk in here.keys() & set(group)), key=lambda row: row.cluster.name)
        pairs += [
            (rows[0].cluster.name, row.cluster.name)
            for row in rows[1:]
            if row.device_class.spec != rows[0].device_class.spec
        ]
    return pairs


def _uses(model: type[Claim] | type[ClaimTemplate]) -> Counter[str]:
    """How many objects name which class. They are of few forms, and only these are read."""
    counts: Counter[str] = Counter()
    rows: Any = model._default_manager.annotate(form=Cast("spec", TextField())).order_by()
    for form, count in rows.values_list("form").annotate(Count("pk")):
        for name in set(class_names_in(msgspec.json.decode(form))):
            counts[name] += count
    return counts


def _drivers() -> Mapping[int, Collection[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    for cluster, driver in Pool.objects.order_by().values_list("cluster_id", "driver").distinct():
        found[cluster].add(driver)
    return found


def _drifting() -> Collection[tuple[int, str]]:
    """(cluster, class) that changed without the desk and that nobody has adopted."""
    source = ClassVersion.Source.SEEN
    last = ClassVersion.objects.order_by().values("cluster_id", "name").annotate(pk_=Max("pk"))
    newest = ClassVersion.objects.filter(pk__in=last.values("pk_"), source=source)
    now = {(version.cluster_id, version.name): version for version in newest}
    if not now:
        return set()
    before = ClassVersion.objects.exclude(source=source).filter(name__in={name for _cluster, name in now})
    agreed = before.order_by().values("cluster_id", "name").annotate(pk_=Max("pk"))
    found = set()
    for version in ClassVersion.objects.filter(pk__in=agreed.values("pk_")):
        key = (version.cluster_id, version.name)
        if key in now and not alike(version, now[key]):
            found.add(key)
    return found


def class_on(cluster: Cluster, name: str) -> DeviceClass | None:
    """The class there, if there is one."""
    return DeviceClass.objects.filter(cluster=cluster, name=name).select_related("cluster").first()
